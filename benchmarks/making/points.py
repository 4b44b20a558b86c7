"""Collecting: tables of published measurements become the points, sources and architectures that are shipped.

`python -m benchmarks.making.points FOLDER` writes them anew; a test does the same and compares.
"""

import gzip
import re
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from benchmarks.making import mlperf
from calibrate.io.tables import csv_text, table
from calibrate.published import names
from calibrate.published.points import COLUMNS, DATA, FULL, sources

Row = Mapping[str, str]
Figure = tuple[str, ...]
"""A point by `COLUMNS`."""

TOLD_APART_BY_INPUT = {
    ("efficientnet_v1", "224"): "efficientnet_b0",
    ("efficientnet_v1", "380"): "efficientnet_b4",
    ("efficientnet_v2", "384"): "efficientnetv2_s",
}
"""Networks that a source names by family alone."""
DETECTRON_HEADS = {
    "1": "fasterrcnn",
    "2": "retinanet",
    "3": "rpn",
    "4": "maskrcnn",
    "5": "maskrcnn_lsj",
    "6": "keypointrcnn",
    "7": "panoptic",
    "8": "maskrcnn_lvis",
    "9": "maskrcnn",
    "10": "maskrcnn",
    "11": "maskrcnn",
    "12": "other",
}
"""Head by number of the table in detectron2's model zoo."""
PADDLE_ABLATIONS = re.compile(r"^[A-K]$")
"""Steps of PP-YOLO's ablation, which are no models of their own."""
DETECTRON = re.compile(r"^(.*) \(.*table (\d+)\)$")
BACKBONE = re.compile(r"^(?:RPN )?(R50|R101|X101)-(FPN|C4|DC5)$")
BACKBONES = {"R50": "resnet50", "R101": "resnet101", "X101": "resnext101_32x8d"}
COMPARED_GPUS = ("T4", "V100", "A100")
"""Columns of FasterTransformer's comparison of GPUs, by its fastest kernels."""
PER_SAMPLE = ("img/s", "sent/s", "sequences/s")
IMPOSSIBLE = {("Jetson TX2", "SSD-Lite (mmdet part1)"), ("T4", "YOLOv3 (mmdet part1)")}
"""Figures that cannot be of what they say: a seventh of the same on a T4; slower at int8 than at fp32."""
MISREAD = re.compile(r"models/ImageNet1k/DPN\.md#L(?:8\d)$|configs/ppyolo/README\.md#L5[234]$|configs/solov2/README")
"""Lines whose heading is not theirs: DPN at half precision under fp32, a smaller PP-YOLO, several sizes mixed."""
TIMM: Mapping[str, tuple[str, str, str]] = {
    "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv": ("RTX3090", "amp", "pytorch"),
    "benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv": ("RTX4090", "amp", "pytorch"),
    "benchmark-infer-fp32-nchw-pt240-cpu-i9_10940x-dynamo.csv": ("CPU-i9-10940X", "fp32", "torch-compile"),
}
"""GPU, precision and runtime by file."""
COUNTED = names.DATA / "counted.csv"
"""Architectures that timm does not have, by hand, each with where its figures come from."""
ARCHITECTURE_COLUMNS = ("architecture", "input", "params_millions", "macs_billions", "activations_millions")


def collect(folder: Path) -> list[Figure]:
    """All points of the tables below `folder`, sorted, each once."""
    figures: set[Figure] = set()
    for file, read in READERS.items():
        figures |= {figure for row in table(folder / "published" / file) if (figure := read(row))}
    for file, (gpu, precision, runtime) in TIMM.items():
        figures |= {_timm(row, gpu, precision, runtime, file) for row in table(folder / "timm" / file)}
    return sorted(figures, key=_order)


def architectures(folder: Path, figures: Iterable[Figure]) -> list[tuple[str, ...]]:
    """Every architecture: those counted by hand, timm's with what its tables say, then others that have points."""
    known: dict[tuple[str, str], tuple[str, ...]] = {}
    for row in table(COUNTED):
        known[row["architecture"], row["input"]] = tuple(row[column] for column in ARCHITECTURE_COLUMNS)
    for file in TIMM:
        for row in table(folder / "timm" / file):
            name, size = _of_timm(row)
            facts = (name, size, row["param_count"], row["infer_gmacs"], row["infer_macts"])
            known.setdefault((name, size), facts)
    with_facts = {name for name, _ in known}
    for name, size, *_ in figures:
        if name not in with_facts:
            known.setdefault((name, size), (name, size, "", "", ""))
    return sorted(known.values())


def write(folder: Path, to: Path) -> None:
    """Writes `points.csv.gz` and `architectures.csv` into `to`.

    Names are read by the architectures that are shipped: where new ones appear, it takes a second time.
    """
    figures = collect(folder)
    (to / "architectures.csv").write_text(csv_text(ARCHITECTURE_COLUMNS, architectures(folder, figures)), "utf-8")
    # Neither a name nor a time: equal points make equal bytes.
    with (to / "points.csv.gz").open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(csv_text(COLUMNS, figures).encode())


def _examples(row: Row) -> Figure | None:
    """A row of NVIDIA's Deep Learning Examples."""
    latency = _believed(row)
    if latency is None or row["batch"] == "":
        return None
    runtime = row["model"].rsplit(":", 1)[-1] if row["runtime"] == "CUDA-Optimized" else row["runtime"]
    return _figure(row, model=row["model"], runtime=runtime, timing=latency)


def _believed(row: Row) -> tuple[float, str] | None:
    """Seconds of a batch and which statistic they are.

    A mean above its own 99th percentile counts the first batch, which compiles: then throughput tells, else p90.
    """
    mean, p90, p99 = (_seconds(row[name]) for name in ("latency_ms", "p90_ms", "p99_ms"))
    paced = _paced(row)
    if mean and not (p99 and mean > p99):
        return mean, "mean"
    if paced and (p99 is None or paced <= p99):
        return paced, "throughput"
    return (p90, "p90") if p90 else None


def _paced(row: Row) -> float | None:
    """Seconds of a batch by its throughput; None where that does not count samples."""
    if not row["throughput"] or row["unit"] not in PER_SAMPLE:
        return None
    return float(row["batch"]) / float(row["throughput"])


def _vision(row: Row) -> Figure | None:
    """A row of the tables of vision and text models."""
    if row["source"].startswith("NVIDIA/FasterTransformer"):
        return _faster_transformer(row)
    model, size = row["model"], row["input"]
    if PADDLE_ABLATIONS.match(model) or (row["gpu"], model) in IMPOSSIBLE or MISREAD.search(row["source"]):
        return None
    if row["source"].startswith("facebookresearch/detectron2"):
        model = _detectron(model)
    statistic = "throughput" if row["reported"] == "throughput" else row["statistic"]
    return _figure(row, model=model, size=size, timing=(float(row["latency_ms"]) / 1e3, statistic))


def _detectron(written: str) -> str:
    """`maskrcnn_resnet50_fpn` for `R50-FPN (1x, table 4)`: the table says which head, the schedule says nothing."""
    found = DETECTRON.match(written)
    if found is None:
        return written
    backbone, number = found[1], found[2]
    if plain := BACKBONE.match(backbone):
        return f"{DETECTRON_HEADS[number]}_{BACKBONES[plain[1]]}_{plain[2].lower()}"
    return f"detectron2 {backbone} {DETECTRON_HEADS[number]}"


def _faster_transformer(row: Row) -> Figure | None:
    """A row of the guides, whose columns are GPUs, runtimes or sizes of the model, as their heading says."""
    column = re.split("[Ll]atency", row["runtime"].removeprefix("FasterTransformer guide: "))[0].strip()
    if column == "A100 MIG" or "Multi-GPU" in row["note"]:
        return None  # a slice of unknown size; several GPUs, or BERT-6B on texts of random lengths up to the one stated
    model, size = _transformer(row["model"], row["note"])
    runtime = _faster_transformer_runtime(column, row["precision"])
    gpu = column if column in COMPARED_GPUS else row["gpu"]
    return _figure({**row, "gpu": gpu}, model=model, size=size or row["input"], runtime=runtime, timing=_mean(row))


def _transformer(model: str, heading: str) -> tuple[str, str]:
    """The network that a guide means, and its input where the guide has it in the name or the text."""
    if model == "BERT":
        return "bert_base", ""
    if model == "ViT":  # the guide runs ViT-B/16 at 384 pixels unless a column says otherwise
        return "vit_b_16", "384"
    if model.startswith("ViT"):
        return (model.removesuffix("-224"), "224") if model.endswith("-224") else (model, "384")
    if model == "Swin":  # equals the columns of the tiny one
        return ("swinv2_tiny_window8", "256") if "Swin-V2" in heading else ("swin_t", "224")
    return model, "224"


def _faster_transformer_runtime(column: str, precision: str) -> str:
    """Its own kernels by default; what it is compared with has a column of its own."""
    by_column = {
        "TF": "tensorflow-xla",
        "TF-FP16": "tensorflow-xla",
        "TorchScript": "torchscript",
        "TorchScript-FP16": "torchscript",
        "torch": "pytorch",
        "torch.jit.trace": "torchscript",
        "torch op": "fastertransformer-pytorch",
        "trt plugin": "fastertransformer-tensorrt",
        "EFF-FT": "fastertransformer-unpadded",
        "FT-INT8-v1": "fastertransformer-int8-v1",
        "FT-INT8-v2": "fastertransformer-int8-v2",
        "EFF-FT-INT8-v1": "fastertransformer-unpadded-int8-v1",
        "EFF-FT-INT8-v2": "fastertransformer-unpadded-int8-v2",
    }
    if column in COMPARED_GPUS:
        return "fastertransformer-unpadded-int8-v2" if precision == "int8-v2" else "fastertransformer-unpadded"
    return by_column.get(column, "fastertransformer")


def _yolo11(row: Row) -> Figure | None:
    """A row of Ultralytics, whose fp32 is of Orin and GB10 alone.

    There PyTorch convolves, and TensorRT and ONNX Runtime compute, in TF32 unless they are told otherwise: YOLO11x
    reaches 1.2 to 1.4 times the peak of fp32.
    """
    precision = "tf32" if row["precision"] == "fp32" else row["precision"]
    return _figure({**row, "precision": precision}, model=row["model"], size=row["input"], timing=_mean(row))


def _triton(row: Row) -> Figure | None:
    """One client alone: with more of them, latency is queueing."""
    return _figure(row, model=row["model"], timing=_mean(row)) if row["concurrency"] == "1" else None


def _mlperf(row: Row) -> Figure | None:
    told = mlperf.time_of(row)
    if told is None:
        return None
    return _figure(
        {**row, "batch": told.batch, "precision": told.precision},
        model=told.model,
        size=told.input,
        runtime=told.runtime,
        timing=(told.seconds, told.statistic),
    )


def _of_timm(row: Row) -> tuple[str, str]:
    """Architecture and input; timm writes the input of some into their names."""
    size = row["infer_img_size"]
    name = names.architecture(row["model"].removesuffix(f"_{size}"))
    return _plain(name), size


def _timm(row: Row, gpu: str, precision: str, runtime: str, file: str) -> Figure:
    name, size = _of_timm(row)
    seconds = float(row["infer_step_time"]) / 1e3
    return (name, size, gpu, precision, runtime, row["infer_batch_size"], f"{seconds:.6g}", "mean", "timm", file)


# Points


def _figure(row: Row, *, model: str, timing: tuple[float, str], size: str = "", runtime: str = "") -> Figure:
    """A point by `COLUMNS`."""
    seconds, statistic = timing
    name, given = names.identity(model, size or row.get("input", ""))
    name = TOLD_APART_BY_INPUT.get((_plain(name), given), _plain(name))
    commit, _, place = row["source"].partition(":")
    return (
        name,
        given,
        names.gpu(row["gpu"]),
        _precision(row),
        names.runtime(runtime or row["runtime"]),
        row["batch"],
        f"{seconds:.6g}",
        statistic,
        _source_ids()[commit],
        place.replace("/performance/run_1/mlperf_log_summary.txt", "").removeprefix("closed/"),
    )


def _precision(row: Row) -> str:
    """What is written; TF32 came with Ampere, so a V100 under a heading `TF32` computed in fp32."""
    precision = names.precision(row["precision"])
    return "fp32" if precision == "tf32" and names.gpu(row["gpu"]).startswith("V100") else precision


@cache
def _source_ids() -> dict[str, str]:
    """Ids by `repository@commit`."""
    return {f"{source.repository}@{source.commit}": source.id for source in sources().values()}


def _plain(name: str) -> str:
    """A name as people type it: `esnet_x0_25` for `ESNet_x0_25`."""
    last = names.without_weights(name.rsplit("/", maxsplit=1)[-1].rsplit(":", maxsplit=1)[-1])
    return re.sub(r"[^a-z0-9.]+", "_", last.lower().replace("+", "_plus")).strip("_")


def _mean(row: Row) -> tuple[float, str]:
    return float(row["latency_ms"]) / 1e3, "mean"


def _seconds(milliseconds: str) -> float | None:
    return float(milliseconds) / 1e3 if milliseconds else None


def _order(figure: Figure) -> tuple[object, ...]:
    """By what is measured, then by batch size."""
    batch = figure[5]
    return (*figure[:5], float("inf") if batch == FULL else int(batch), *figure[6:])


READERS: Mapping[str, Callable[[Row], Figure | None]] = {
    "deep-learning-examples-inference.csv": _examples,
    "vision.csv": _vision,
    "yolo11.csv": _yolo11,
    "triton-concurrency.csv": _triton,
    "mlperf-inference.csv": _mlperf,
}


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the tables as they were found")
    write(parser.parse_args().folder, DATA)
