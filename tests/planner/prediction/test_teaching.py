"""What teaches predictions is possible: no figure is above the peak of the GPU at the precision beside it."""

from dataclasses import replace
from functools import cache
from math import exp, log

import pytest

from benchmarks.making.fitting import OWN, Figure, figures
from calibrate.library.possible import LEFT_OUT_MAX
from calibrate.published.points import points
from planner.catalog.catalog import load_catalog
from planner.prediction.effects import operations_s, style

GPUS = load_catalog().gpus
SQUAD_PADDING = 0.54
"""Share of the 384 tokens of a SQuAD 1.1 text that are padding (openreview.net, 3nzKUh9a4M); NVIDIA computes none."""
HALF_PADDING = 0.5
"""The same in FasterTransformer's guide, `EFF-FT`."""
TF32_IS_OFF = {"fastertransformer", "deep-learning-examples", "huggingface/transformers", OWN}
"""Sources that set TF32 off (`NVIDIA_TF32_OVERRIDE=0`), have a table of TF32 beside that of fp32, or are of networks of
matrix products, which PyTorch from 1.12 on multiplies without."""


@cache
def taught() -> list[Figure]:
    return figures(GPUS)


def left_out(figure: Figure) -> float:
    """Times the counted operations that need not be computed: padding of texts, Winograd's convolutions in fp32."""
    case = figure.case
    if case.architecture == "bert_large" and figure.source.startswith("mlperf"):
        return 1 / (1 - SQUAD_PADDING)
    if case.runtime.startswith("fastertransformer-unpadded"):
        return 1 / (1 - HALF_PADDING)
    return LEFT_OUT_MAX if case.precision == "fp32" and style(case.architecture) != "transformer" else 1.0


def too_fast(figure: Figure) -> bool:
    return operations_s(figure.case, figure.gpu) > left_out(figure) * exp(figure.log_s)


def test_no_figure_is_above_the_peak_of_its_precision() -> None:
    assert len(taught()) > 7000
    assert [f"{f.source} {f.case}" for f in taught() if too_fast(f)] == []


@pytest.mark.parametrize(
    ("architecture", "gpu", "batch", "seconds"),
    [
        ("bert_large", "A100-80GB-PCIe", 1.0, 1 / 3108.65),  # what MLPerf v2.0 has of Triton, as fp32
        ("resnet50", "T4", 1.0, 1e-4),
    ],
)
def test_a_figure_of_another_precision_would_be_noticed(
    architecture: str, gpu: str, batch: float, seconds: float
) -> None:
    like = next(f for f in taught() if f.case.architecture == architecture and f.source == "mlperf-v2.0")
    wrong = replace(like.case, gpu=gpu, precision="fp32", batch=batch)
    assert too_fast(replace(like, case=wrong, gpu=GPUS[gpu], log_s=log(seconds)))


def test_every_figure_states_its_precision_and_fp32_is_no_tf32() -> None:
    assert all(point.precision for point in points())
    as_fp32 = {f.source for f in taught() if f.case.precision == "fp32" and f.gpu.has_tf32}
    assert as_fp32 == TF32_IS_OFF


def test_rates_of_a_jetson_are_of_its_gpu_alone() -> None:
    """Offline, MLPerf's Jetsons share networks of pictures with two DLAs: no rate of that is left."""
    jetsons = [p for p in points() if p.source.startswith("mlperf") and p.gpu.startswith("Jetson")]
    assert {"bert_large", "rnnt"} <= {p.architecture for p in jetsons if p.statistic == "throughput"}
    assert not {"resnet50", "ssd_resnet34"} & {p.architecture for p in jetsons if p.statistic == "throughput"}
    assert {"resnet50", "ssd_resnet34"} <= {p.architecture for p in jetsons if p.statistic == "mean"}


def test_every_gpu_that_has_tf32_says_how_fast() -> None:
    stated = {gpu.name: gpu.tensor_tf32_flops for gpu in GPUS.values() if gpu.has_tf32}
    assert {"B300", "GB300", "RTX-PRO-6000-BSE", "Jetson-Orin-Nano"} <= set(stated)
    assert [name for name, rate in stated.items() if rate is None] == []
    assert not any(GPUS[name].has_tf32 for name in ("T4", "V100", "Jetson-AGX-Xavier", "MI300X"))
