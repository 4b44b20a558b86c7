"""What runtimes serve, beside what was published of them."""

from dataclasses import replace

import pytest
from support.planning import CATALOG

from calibrate.published.names import gpu, runtimes
from calibrate.published.points import points
from calibrate.published.runtimes import runtime, serving, usual

GPUS = CATALOG.gpus
TRANSFORMERS = ("bert_base", "roberta_base", "vit_b_16", "swin_t", "gpt2")
OTHERS = ("resnet50", "mobilenet_v2", "mobilevit_s", "efficientvit_b0", "yolov8n", "vit_base_resnet50d", "unet_medical")


def test_all_that_was_published_is_served():
    """A runtime that somebody timed with a network runs it."""
    unserved = {
        (point.runtime, point.architecture, point.precision, point.gpu)
        for point in points()
        if point.gpu in GPUS and runtime(point.runtime).unserved(point.architecture, point.precision, GPUS[point.gpu])
    }
    assert unserved == set()


@pytest.mark.parametrize("name", sorted(one for one in runtimes() if one.startswith("fastertransformer")))
def test_fastertransformer_runs_transformers_alone(name):
    assert not any(runtime(name).unserved_network(one) for one in TRANSFORMERS)
    assert all(runtime(name).unserved_network(one) for one in OTHERS)


@pytest.mark.parametrize("plain", ["pytorch", "tensorrt", "onnxruntime", "tensorflow"])
def test_triton_serves_what_it_wraps(plain):
    """On every network, precision and GPU."""
    for precision in ("fp32", "fp16", "int8", "fp8"):
        for kind in ("T4", "H100", "MI300X"):
            served = [runtime(name).unserved("resnet50", precision, GPUS[kind]) for name in (plain, f"triton-{plain}")]
            assert bool(served[0]) == bool(served[1])


@pytest.mark.parametrize("kind", ["CPU-EPYC-Genoa-2c", "cpu-amd-epyc"])
def test_what_is_for_gpus_of_nvidia_runs_on_no_processor(kind):
    gpu = replace(GPUS["CPU-EPYC-Genoa-2c"], name=kind, cores=GPUS[kind].cores if kind in GPUS else None)
    assert runtime("tensorrt").unserved("resnet50", "fp32", gpu) == f"tensorrt does not run on {kind}"
    assert runtime("onnxruntime").unserved("resnet50", "fp32", gpu) == ""
    assert usual("int8", gpu) == "pytorch"


@pytest.mark.parametrize("precision", ["torch", "amp", "amp-bf16"])
def test_ways_of_pytorch_to_compute_are_of_what_says_that_it_has_them(precision):
    served = serving("resnet50", precision, GPUS["A10G"])
    assert {"pytorch", "torchscript", "torch-compile", "cuda-graphs"} <= set(served)
    assert not {"tensorrt", "triton-tensorrt", "onnxruntime", "tf-trt", "tvm", "ncnn"}.intersection(served)
    assert ("tensorflow" in served) == (precision != "torch")


def test_every_known_runtime_is_described_or_serves_all():
    """The data name no runtime that no source writes."""
    known = {one.removeprefix("triton-") for one in runtimes()}
    undescribed = {one for one in known if not runtime(one).source}
    assert undescribed == {"tvm", "ncnn"}


def test_int8_has_a_runtime_on_every_gpu_of_nvidia_and_means_it():
    for kind in ("T4", "A10G", "H100"):
        served = serving("resnet50", "int8", GPUS[gpu(kind)])
        assert usual("int8", GPUS[kind]) in served
        assert "pytorch" not in served
    assert usual("fp16") == "pytorch"
