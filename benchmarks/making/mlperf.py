"""MLPerf Inference, closed division: which of its results are a time of one network on one GPU, and of what."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from calibrate.published import names
from calibrate.published.points import FULL

FIRST_SINGLE_GPU_STREAMS = "v2.0"
"""Round from which MultiStream is a batch on one GPU; before, it was streams of the whole system."""
INPUTS = {
    "resnet50": "224",
    "bert_large": "squad",
    "ssd_resnet34": "1200",
    "ssd_mobilenet_v1": "300",
    "retinanet_resnext50_fpn": "800",
    "mobilenet_v1": "224",
    "stable_diffusion_xl": "1024",
}
LANGUAGE = re.compile(r"llama|gptj|mixtral|deepseek|gpt-oss|qwen|gnmt|wan-")
"""Models whose samples are no fixed piece of work."""
BRAIN_ROUNDS = ("v0.7", "v1.0", "v1.1")
"""Rounds in which 3D U-Net segmented brains, of 224 x 224 x 160; afterwards kidneys, of all sizes."""
PARTITIONED = re.compile(r" x[2-9]$")
"""A whole GPU cut into slices, whose figure is of all of them."""
IN_TENSORRT = ("tensorrt", "triton-tensorrt")
STATED = {
    "bert_large": "int8",
    "rnnt": "fp16",
    "dlrm_v1": "int8",
    "dlrm_v2": "int8",
    "stable_diffusion_xl": "fp8",
}
"""Precision in TensorRT where a submitter states none: that of all who state one (SDXL: but for Jetsons)."""
STRICT_TARGET = "-99.9"
"""Ends the name of a model that must keep more of its accuracy: nobody states at which precision that was done."""
ON_PICTURES = ("resnet50", "mobilenet_v1", "ssd_resnet34", "ssd_mobilenet_v1", "retinanet_resnext50_fpn")
"""Networks that NVIDIA's harness also runs on a Jetson's DLAs, Offline alone: its fields `dla_*` say so, and its
configuration of the AGX Xavier expects 2,820 SSD-MobileNets a second, 2,250 of them on the GPU."""


class MlperfTime(NamedTuple):
    """What one result says."""

    model: str
    input: str
    precision: str
    runtime: str
    batch: str
    seconds: float
    statistic: str


def time_of(row: Mapping[str, str]) -> MlperfTime | None:
    """SingleStream is batch 1, MultiStream its batch, Offline a throughput; Server says what was offered."""
    if LANGUAGE.search(row["model"]) or PARTITIONED.search(row["gpu"]):
        return None
    model, runtime = names.architecture(row["model"]), _runtime(row)
    precision = row["precision"] or _unstated(row["model"], model, runtime)
    timing = _timing(row)
    if timing is None or not precision or _is_on_dlas(row, model):
        return None
    return MlperfTime(model, _input(row, model), precision, runtime, *timing)


def _runtime(row: Mapping[str, str]) -> str:
    path = row["source"]
    runtime = "tensorrt" if "TensorRT" in row["framework"] or "_TRT" in path else row["framework"].split(" ")[0]
    return f"triton-{runtime}" if "triton" in path.lower() else runtime


def _unstated(written: str, model: str, runtime: str) -> str:
    """The precision of a result that states none; empty: not known, and so nothing is learnt from it."""
    return STATED.get(model, "") if runtime in IN_TENSORRT and not written.endswith(STRICT_TARGET) else ""


def _is_on_dlas(row: Mapping[str, str], model: str) -> bool:
    """Whether a Jetson's DLAs did a part of the work, so that it is no rate of the GPU."""
    return row["scenario"] == "Offline" and row["gpu"].startswith("Jetson") and model in ON_PICTURES


def _input(row: Mapping[str, str], model: str) -> str:
    if model == "3d_unet":
        return "brats" if row["round"] in BRAIN_ROUNDS else "kits19"
    return INPUTS.get(model, "")


def _timing(row: Mapping[str, str]) -> tuple[str, float, str] | None:
    """The batch, seconds of it and their statistic."""
    match row["scenario"]:
        case "SingleStream":
            return "1", float(row["latency_mean_ms"]) / 1e3, "mean"
        case "MultiStream" if row["round"] >= FIRST_SINGLE_GPU_STREAMS:
            return row["batch"], float(row["latency_mean_ms"]) / 1e3, "mean"
        case "Offline":
            batch = row["configured_batch"] if row["configured_batch"].isdigit() else ""
            return batch or FULL, float(batch or 1) / float(row["throughput_per_gpu"]), "throughput"
    return None
