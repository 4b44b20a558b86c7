"""Inputs: what a length or a picture costs models that are known by their layers alone, and those that attend."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.planning import CATALOG

from planner.api import modelling
from planner.prediction.learnt import learnt
from planner.prediction.queries import QueryAnswer, QueryKnowledge
from simulator.world.hardware import CONTEXT_BYTES

KNOWN = QueryKnowledge(learnt(), CATALOG.gpus)
WIDTH, DEPTH = 768, 12
"""Of ViT-B and BERT-Base."""


def answer(model: str, size: str, **more: str) -> QueryAnswer:
    row: Mapping[str, str] = {"gpu": "T4", "model": model, "input": size, "precision": "fp32", "batch": "1", **more}
    return KNOWN.answer(row)


def attention_flops(tokens: int) -> float:
    """Operations of the blocks of ViT-B or BERT-Base, worked by hand: 12 products of the width, and two of all tokens
    with all others."""
    return 2 * DEPTH * (12 * tokens * WIDTH**2 + 2 * tokens**2 * WIDTH)


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        ("bge-m3", ("seq64", "seq128", "seq512", "seq2048", "seq8192")),
        ("hf:intfloat/e5-base-v2", ("seq128", "seq512")),
        ("hf:answerdotai/ModernBERT-base", ("seq128", "seq4096")),
        ("hf:facebook/wav2vec2-base-960h", ("seq160000", "seq320000")),
        ("hf:facebook/dinov2-base", ("224", "448", "1024")),
        ("hf:nvidia/segformer-b0-finetuned-ade-512-512", ("512", "1024")),
        ("hf:PekingU/rtdetr_r18vd", ("640", "1280")),
        ("torchvision:fcn_resnet101", ("224", "520", "1024")),
        ("torchvision:deeplabv3_mobilenet_v3_large", ("520", "1024")),
    ],
)
def test_a_larger_input_takes_more_time_and_memory(model: str, sizes: tuple[str, ...]) -> None:
    told = [answer(model, size, batch="8") for size in sizes]
    for figure in ("latency_s", "latency_low_s", "latency_high_s", "memory_bytes", "reserved_bytes"):
        figures = [getattr(one, figure) for one in told]
        assert figures == sorted(set(figures)), figure


def test_the_usual_input_is_meant_where_none_is_written() -> None:
    assert answer("bge-m3", "") == answer("bge-m3", "seq128") == answer("bge-m3", "128")


@pytest.mark.parametrize(
    ("model", "size", "flags"),
    [
        ("bge-m3", "seq8192", {"input_shape": (8192,)}),
        ("hf:intfloat/e5-base-v2", "", {}),
        ("hf:facebook/dinov2-base", "448", {"resolution": 448}),
        ("hf:nvidia/segformer-b2-finetuned-ade-512-512", "1024", {"resolution": 1024}),
        ("torchvision:fcn_resnet101", "1024", {"resolution": 1024}),
        ("faster_rcnn", "", {}),
    ],
)
@pytest.mark.parametrize("gpu", ["T4", "V100", "H100"])
def test_tables_say_of_a_model_that_nobody_timed_what_its_profile_says(
    model: str, size: str, flags: dict[str, int], gpu: str
) -> None:
    told = answer(model, size, gpu=gpu, precision="fp16", batch="4")
    looked = modelling.profile(model, gpu, batch=4, precision="fp16", **flags).prediction  # type: ignore[arg-type]
    assert looked is not None
    time_s = looked.latency_s
    assert (told.latency_s, told.latency_low_s, told.latency_high_s) == pytest.approx(
        (time_s.value, time_s.low, time_s.high)
    )
    assert (told.memory_bytes, told.reserved_bytes) == (looked.memory_bytes, looked.reserved_bytes)


@pytest.mark.parametrize(
    ("model", "size", "why"),
    [
        ("faster_rcnn", "320", "it scales every picture to 800 pixels itself. Write 3x800x800, or leave it out"),
        ("torchvision:fasterrcnn_resnet50_fpn_v2", "640", "it scales every picture itself. Write 3x800x800"),
        ("hf:openai/clip-vit-base-patch16", "336", "its layers fit this input only. Write 3x224x224, or leave it out"),
        ("hf:openai/whisper-tiny", "1500", "input 80x1500: its input is named with the model. Write 80x3000"),
        ("hf:facebook/dinov2-base", "seq64", "is not what hf:facebook/dinov2-base reads. Write one such as 224"),
        ("hf:facebook/dinov2-base", "8", "takes no picture of 8 pixels a side, the smallest has 14"),
        ("bge-m3", "seq8193", "reads at most 8192 tokens, got 8193. Write 8192 or fewer"),
        ("hf:roberta-base", "seq514", "reads at most 512 tokens"),
        ("bert-base", "100000", "bert_base reads at most 512 tokens, got 100000. Write 512 or fewer"),
        ("bert-large", "seq1024", "bert_large reads at most 512 tokens"),
    ],
)
def test_an_input_that_a_model_does_not_take_has_a_reason_and_no_figures(model: str, size: str, why: str) -> None:
    told = answer(model, size, precision="fp16")
    assert why in told.reason
    assert told.latency_s is None


@pytest.mark.parametrize("pixels", [1024, 2048, 4096])
@pytest.mark.parametrize(("precision", "runtime"), [("fp32", ""), ("fp16", ""), ("fp16", "TensorRT")])
def test_no_picture_takes_less_than_its_attention_at_the_peak(pixels: int, precision: str, runtime: str) -> None:
    told = answer("vit_b_16", str(pixels), precision=precision, runtime=runtime)
    least_s = attention_flops((pixels // 16) ** 2 + 1) / CATALOG.gpus["T4"].peak_flops(precision)
    assert told.latency_low_s is not None
    assert told.latency_low_s >= least_s


def test_a_plan_of_a_table_needs_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing is traced")

    monkeypatch.setattr("calibrate.layers.facts._run", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert KNOWN.answer({"gpu": "T4", "model": "bge-m3", "input": "seq1000"}).latency_s
    assert KNOWN.answer({"gpu": "T4", "model": "hf:facebook/dinov2-base", "input": "3x518x518"}).latency_s


@pytest.mark.parametrize("gpu", ["T4", "A10G", "H100"])
@pytest.mark.parametrize(
    ("one", "other", "size"),
    [
        ("faster_rcnn", "torchvision:fasterrcnn_resnet50_fpn", "800"),
        ("faster_rcnn", "fasterrcnn_resnet50_fpn", ""),
        ("Faster R-CNN R50-FPN", "torchvision:fasterrcnn_resnet50_fpn", ""),
        ("hf:PekingU/rtdetr_r50vd", "rt_detr_r50", ""),
        ("ssd_vgg", "ssd300_vgg16", ""),
        ("ssd_vgg", "torchvision:ssd300_vgg16", "300"),
        ("RT-DETRv2-R50", "rt_detrv2_l", ""),
        ("torchvision:mnasnet1_0", "mnasnet_100", ""),
        ("torchvision:maxvit_t", "maxvit_tiny_tf_224.in1k", ""),
        ("torchvision:regnet_y_3_2gf", "RegNetY-3.2GF", ""),
    ],
)
def test_a_network_costs_the_same_under_each_of_its_names(one: str, other: str, size: str, gpu: str) -> None:
    told = [answer(name, size, gpu=gpu, batch="4") for name in (one, other)]
    assert told[0].latency_s
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (256, ""),
        (1024, "may fit, but no plan takes it: one keeps "),
        (2048, "may fit, but no plan takes it: one keeps "),
        (4096, "does not fit: needs "),
    ],
)
def test_a_batch_that_no_plan_takes_for_its_memory_says_so_beside_its_time(batch: int, why: str) -> None:
    """32 GB were to be kept of a T4's 16, with no word of it."""
    told = answer("resnet50", "", gpu="T4", precision="fp16", batch=str(batch))
    assert told.latency_s
    assert told.reserved_bytes
    assert bool(told.reason) is (told.reserved_bytes + CONTEXT_BYTES > CATALOG.gpus["T4"].memory_bytes)
    assert told.reason.startswith(why)
