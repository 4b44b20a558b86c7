"""The library: shipped profiles give back the published figures; what cannot be is refused in one line."""

import dataclasses
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.io.files import FileError, read_json
from calibrate.io.reader import ProfileError
from calibrate.layers.naming import OWN
from calibrate.library.fit import fit_latency
from calibrate.library.lookup import SHIPPED, Library, find_kinds, find_profiles, read_profile
from calibrate.library.possible import beyond_bandwidth, beyond_peak, check
from calibrate.library.reading import DEVICE_SCHEMA, SCHEMA
from planner.catalog.catalog import load_catalog
from planner.show.text.listings.profiles import profile_list, profile_show
from planner.units.writing import Screen
from simulator.world.curves import Interpolated, LoadTime, SmoothMaximum
from simulator.world.hardware import GPU
from simulator.world.model import Layer
from simulator.world.profile import Evidence, FitQuality, Profile

GPUS = load_catalog().gpus
V100 = GPUS["V100"]
LIBRARY = find_profiles((), GPUS)

# CS 181AI lecture 14 "ML Resource Usage" (Padmanabhan, 6 March 2023), slide "Memory and Time to Load in GPU and Run":
# memory to load (GB), time to load (ms), then memory to run (GB) and time to run (ms) at batch 1, 2 and 4.
LECTURE = {
    "yolov3": (0.24, 49.5, (0.52, 0.73, 1.22), (17.0, 24.0, 39.9)),
    "resnet152": (0.24, 73.3, (0.65, 0.98, 1.71), (24.8, 26.3, 26.7)),
    "resnet50": (0.12, 27.1, (0.35, 0.50, 0.84), (8.4, 8.5, 8.5)),
    "vgg16": (0.54, 72.2, (0.74, 0.89, 1.18), (2.1, 2.4, 2.4)),
    "tiny_yolov3": (0.04, 6.7, (0.15, 0.18, 0.24), (3.0, 5.2, 5.2)),
    "faster_rcnn": (0.73, 117.3, (3.70, 6.96, 12.47), (115.4, 210.1, 379.4)),
    "inceptionv3": (0.12, 11.8, (0.19, 0.23, 0.34), (9.1, 9.1, 9.1)),
    "ssd_vgg": (0.11, 16.1, (0.23, 0.33, 0.51), (16.5, 25.7, 44.6)),
}

# Clockwork (OSDI 2020) model zoo, Tesla V100, TVM: weights (MB), time to load (ms), time to run (ms) at batch 1 to 16.
ZOO = {
    "resnet18_v2": (46.7, 3.81, (1.32, 1.81, 2.48, 4.42, 7.12)),
    "resnet34_v2": (87.2, 7.11, (2.55, 3.44, 4.83, 7.90, 14.01)),
    "resnet50_v2": (102.2, 8.32, (2.73, 4.05, 5.87, 9.93, 17.30)),
    "resnet101_v2": (178.1, 14.47, (5.51, 8.05, 11.83, 18.14, 33.57)),
    "resnet152_v2": (240.6, 19.56, (8.21, 11.66, 17.03, 27.60, 48.54)),
    "resnet152_v1b": (240.5, 19.54, (7.86, 11.36, 16.41, 27.05, 45.49)),
    "resnet152_v1s": (241.0, 19.58, (8.15, 11.91, 17.50, 28.95, 49.27)),
    "resnext50_32x4d": (100.0, 8.15, (2.18, 3.23, 5.35, 9.21, 17.42)),
    "resnext101_32x4d": (176.4, 14.34, (4.65, 6.27, 10.06, 17.75, 32.83)),
    "resnext101_64x4d": (333.4, 27.18, (6.46, 10.24, 17.13, 30.42, 60.23)),
    "se_resnext50_32x4d": (110.1, 8.95, (3.20, 4.47, 6.87, 11.50, 20.64)),
    "se_resnext101_32x4d": (195.5, 15.89, (6.23, 8.24, 12.53, 21.02, 37.89)),
    "se_resnext101_64x4d": (352.5, 28.75, (8.18, 12.97, 19.93, 34.99, 66.44)),
    "tsn_inceptionv1": (24.0, 1.96, (1.95, 2.76, 4.44, 7.51, 13.43)),
    "tsn_inceptionv3": (90.4, 7.37, (4.47, 6.87, 10.97, 16.43, 26.12)),
    "tsn_resnet18_v1b": (45.5, 3.71, (1.25, 1.72, 2.38, 3.93, 6.83)),
    "tsn_resnet34_v1b": (85.9, 7.01, (2.38, 3.38, 4.59, 7.74, 13.37)),
    "tsn_resnet50_v1b": (97.2, 7.93, (2.77, 3.94, 5.85, 9.77, 16.52)),
    "tsn_resnet101_v1b": (173.1, 14.11, (5.42, 7.80, 11.30, 18.63, 31.15)),
    "tsn_resnet152_v1b": (235.6, 19.21, (7.87, 11.35, 16.42, 27.07, 45.44)),
    "cifar_wideresnet16_10": (68.5, 5.59, (1.27, 1.72, 2.61, 4.07, 7.62)),
    "cifar_wideresnet28_10": (145.9, 11.93, (2.21, 3.57, 5.42, 8.41, 16.05)),
    "cifar_wideresnet40_8": (143.0, 11.69, (2.49, 3.90, 5.99, 9.86, 17.14)),
    "winograd_resnet18_v2": (77.4, 6.31, (0.95, 1.17, 1.71, 2.81, 5.09)),
    "winograd_resnet50_v2": (128.7, 10.49, (3.39, 4.24, 6.07, 10.28, 18.84)),
    "winograd_resnet101_v2": (235.8, 19.23, (6.36, 7.71, 10.71, 17.26, 33.52)),
}

# NVIDIA DeepLearningExamples, ConvNets READMEs (torch container 21.03): time to run (ms) at batch 1, 2, 4, ... 256.
SERIES = {
    ("nvidia_resnet50", "V100", "fp32"): (10.37, 10.24, 10.46, 11.5, 16.07, 29.37, 55.4, 109.26, 214.48),
    ("nvidia_resnet50", "V100", "amp"): (12.78, 13.01, 13.41, 13.65, 14.0, 15.84, 23.18, 43.55, 84.14),
    ("nvidia_resnet50", "T4", "fp32"): (10.7, 11.26, 12.73, 22.41, 39.77, 77.62, 152.73, 309.26, 635.98),
    ("nvidia_resnext101_32x4d", "V100", "fp32"): (21.02, 22.14, 22.57, 24.35, 40.04, 73.71, 131.0),
    ("nvidia_efficientnet_b0", "A100-40GB", "tf32"): (9.33, 9.39, 9.68, 9.85, 10.27, 11.46, 19.58, 31.03, 60.71),
}


MEASURED = {
    *((model, "H200", "fp32") for model in ("resnet50", "resnet152", "vgg16", "yolov3", "tiny_yolov3")),
    *(("resnet50", "H200", precision) for precision in ("torch", "amp", "bf16")),
    ("bert_base", "H200", "torch"),
    *((model, "H100", "torch") for model in ("resnet50", "vgg16", "vit_b_16", "bert_base")),
    *((model, "H100", "amp") for model in ("resnet50", "vit_b_16")),
}
"""By this project, with `planner calibrate`."""


def shipped(model: str, gpu: str = "V100", precision: str = "fp32") -> Profile:
    return LIBRARY.profiles[model, gpu, precision]


def milliseconds(profile: Profile) -> list[float]:
    return [y * 1e3 for y in profile.latency.y]


# The shipped profiles


def test_shipped_are_exactly_the_published_ones_and_the_measured_ones():
    published = {(model, "V100", "fp32") for model in (*LECTURE, *ZOO)} | SERIES.keys()
    assert set(LIBRARY.profiles) == published | MEASURED


def test_the_measured_ones_say_on_what_they_were_measured():
    for key in MEASURED:
        found = LIBRARY.profiles[key]
        assert found.memory_evidence is Evidence.ELSEWHERE
        assert found.latency_evidence in (Evidence.ELSEWHERE, Evidence.FITTED)
        assert "virtual machine" in found.assumptions[-1]


@pytest.mark.parametrize("model", LECTURE)
def test_lecture_rows(model):
    profile, (loaded_gb, load_ms, run_gb, run_ms) = shipped(model), LECTURE[model]
    assert profile.weight_bytes == round(loaded_gb * 1e9)
    assert profile.load(profile.weight_bytes) * 1e3 == pytest.approx(load_ms, rel=1e-8)
    assert [y + profile.weight_bytes for y in profile.workspace.y] == pytest.approx([gb * 1e9 for gb in run_gb])
    assert profile.latency.x == profile.workspace.x == (1, 2, 4)
    if model != "vgg16":
        assert milliseconds(profile) == pytest.approx(run_ms)


@pytest.mark.parametrize("model", LECTURE)
def test_lecture_names_no_gpu_so_times_on_one_are_assumed(model):
    profile = shipped(model)
    assert profile.latency_evidence is profile.load_evidence is Evidence.ASSUMED
    assert profile.memory_evidence is Evidence.PUBLISHED
    assert "does not name its GPU. Taken for a V100: " in profile.assumptions[0]


def test_impossible_rows_of_vgg16_are_raised_to_the_peak():
    """15.47 G multiply-adds at 15.7 TFLOP/s: 3.94 ms for two images and 7.88 ms for four; 2.1 ms for one can be."""
    profile = shipped("vgg16")
    assert milliseconds(profile) == pytest.approx([2.1, 2 * 30.94 / 15.7, 4 * 30.94 / 15.7])
    assert [doubt.split(":")[0] for doubt in profile.doubts] == ["Batch 2", "Batch 4"]
    assert "51.6 TFLOP/s" in profile.doubts[1]
    assert all(doubt.endswith("`planner calibrate --device cuda:0 --models vgg16`") for doubt in profile.doubts)


@pytest.mark.parametrize("model", ZOO)
def test_zoo_rows(model):
    profile, (weights_mb, load_ms, run_ms) = shipped(model), ZOO[model]
    assert profile.weight_bytes == round(weights_mb * 1e6)
    assert profile.load(profile.weight_bytes) * 1e3 == pytest.approx(load_ms, abs=0.062)
    assert profile.latency.x == (1, 2, 4, 8, 16)
    assert milliseconds(profile) == pytest.approx(run_ms)
    assert profile.workspace.y == pytest.approx([1e7 * batch for batch in profile.workspace.x])
    assert (profile.latency_evidence, profile.memory_evidence) == (Evidence.PUBLISHED, Evidence.ASSUMED)


@pytest.mark.parametrize("key", SERIES)
def test_series_rows(key):
    profile, run_ms = shipped(*key), SERIES[key]
    assert profile.latency.x == tuple(2**i for i in range(len(run_ms)))
    assert milliseconds(profile) == pytest.approx(run_ms)
    assert profile.latency_evidence is Evidence.PUBLISHED
    assert profile.load_evidence is Evidence.ASSUMED


def test_series_point_above_its_own_percentile_is_doubted():
    assert [doubt.split(":")[0] for doubt in shipped("nvidia_resnet50").doubts] == ["Batch 16"]


def test_operations_are_multiply_adds_of_known_networks():
    """timm's tables: 4.11, 11.56 and 1.82 G multiply-adds; what nobody published stays unknown."""
    flops = [shipped(model).flops_per_sample for model in ("resnet50", "resnet152", "resnet18_v2")]
    assert flops == pytest.approx([8.22e9, 23.12e9, 3.64e9])
    assert shipped("faster_rcnn").flops_per_sample is None


@pytest.mark.parametrize("profile", LIBRARY.profiles.values(), ids=str)
def test_shipped_are_possible_and_sourced(profile):
    assert check(profile, GPUS[profile.gpu]) == []
    assert profile.source
    assert len(profile.as_of) == 10
    assert profile.assumptions
    assert all(line.endswith(".") for line in profile.assumptions)
    assert set(profile.workspace.x) >= set(profile.latency.x)


def test_shipped_files_are_named_after_what_they_hold():
    for path in set(SHIPPED.rglob("*.json")) - set(SHIPPED.rglob("device.json")):
        profile = read_profile(path, GPUS)
        suffix = "" if profile.precision == "fp32" else f".{profile.precision}"
        assert path.relative_to(SHIPPED) == Path(profile.gpu, f"{profile.model}{suffix}.json")


def test_library_needs_no_torch_pydantic_or_yaml():
    code = "import sys, calibrate.library.lookup; print({'torch', 'pydantic', 'yaml'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


# Asking the library


def test_without_a_precision_fp32_comes_first():
    found = LIBRARY.get("nvidia_resnet50", "V100")
    assert found is not None
    assert found.precision == "fp32"
    only_tf32 = LIBRARY.get("nvidia_efficientnet_b0", "A100-40GB")
    assert only_tf32 is not None
    assert only_tf32.precision == "tf32"


def test_what_is_not_there_is_none():
    assert LIBRARY.get("yolov3", "T4") is None
    assert LIBRARY.get("nvidia_resnet50", "T4", "bf16") is None
    assert LIBRARY.for_model("alexnet") == ()


def test_models_and_their_profiles():
    assert len(LIBRARY.models()) == len(LECTURE) + len(ZOO) + 5  # NVIDIA's three, bert_base and vit_b_16
    found = [(profile.model, profile.gpu, profile.precision) for profile in LIBRARY.for_model("resnet50")]
    assert found == [
        ("resnet50", "H100", "torch"),
        ("resnet50", "H100", "amp"),
        ("resnet50", "H200", "fp32"),
        ("resnet50", "H200", "torch"),
        ("resnet50", "H200", "amp"),
        ("resnet50", "H200", "bf16"),
        ("nvidia_resnet50", "T4", "fp32"),
        ("nvidia_resnet50", "V100", "fp32"),
        ("resnet50", "V100", "fp32"),  # the lecture's, whose GPU is assumed
        ("nvidia_resnet50", "V100", "amp"),
    ]
    assert LIBRARY.for_model("nvidia_resnet50") == LIBRARY.for_model("ResNet-50") == LIBRARY.for_model("resnet50")


# Files of one's own

GOOD: dict[str, Any] = {
    "schema": SCHEMA,
    "model": "mine",
    "gpu": "T4",
    "precision": "fp32",
    "weight_bytes": 100_000_000,
    "latency_s": {"1": 0.010, "8": 0.050},
    "workspace_bytes": {"1": 10_000_000, "8": 80_000_000},
    "load": {"t0_s": 0.0001, "bytes_per_s": 6e9},
    "flops_per_sample": 8e9,
    "latency_evidence": "measured",
    "memory_evidence": "measured",
    "load_evidence": "measured",
    "source": "a measurement",
    "as_of": "2026-07-20",
}


def write(directory: Path, profile: dict[str, Any], name: str = "mine.json") -> Path:
    directory.mkdir(exist_ok=True, parents=True)
    path = directory / name
    path.write_text(json.dumps(profile), encoding="utf-8")
    return path


def without(key: str) -> dict[str, Any]:
    return {k: v for k, v in GOOD.items() if k != key}


def refusal(path: Path) -> str:
    with pytest.raises(ProfileError) as error:
        read_profile(path, GPUS)
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def test_a_file_of_ones_own_is_read(tmp_path):
    layers = [{"key": "conv", "weight_bytes": 30}, {"key": "head", "weight_bytes": 70}]
    more = {"layers": layers, "latency_cv": 0.02, "pageable_bytes_per_s": 3e9, "busy_w": 65, "doubts": ["One run."]}
    profile = read_profile(write(tmp_path, without("weight_bytes") | more), GPUS)
    assert profile.layers == (Layer("conv", 30), Layer("head", 70))
    assert profile.latency == Interpolated((1, 8), (0.010, 0.050))
    assert profile.load == LoadTime(0.0001, 6e9)
    assert (profile.latency_cv, profile.pageable_bytes_per_s, profile.busy_w) == (0.02, 3e9, 65)
    assert profile.doubts == ("One run.",)
    assert {profile.latency_evidence, profile.memory_evidence, profile.load_evidence} == {Evidence.MEASURED}


def test_the_first_directory_wins_and_the_shipped_come_last(tmp_path):
    first = write(tmp_path / "a", GOOD | {"gpu": "V100", "model": "yolov3", "source": "first"}).parent
    write(tmp_path / "b" / "deeper", GOOD | {"gpu": "V100", "model": "yolov3", "source": "second"})
    write(tmp_path / "b", GOOD)
    library = find_profiles((first, tmp_path / "b"), GPUS)

    def source(library: Library, model: str, gpu: str) -> str:
        found = library.get(model, gpu)
        return found.source if found else ""

    assert source(library, "yolov3", "V100") == "first"
    assert source(library, "mine", "T4") == "a measurement"
    assert source(library, "resnet50_v2", "V100") == shipped("resnet50_v2").source
    assert source(find_profiles((tmp_path / "b", first), GPUS), "yolov3", "V100") == "second"


def test_two_files_of_one_directory_may_not_compete(tmp_path):
    write(tmp_path, GOOD, "a.json")
    write(tmp_path, GOOD, "b.json")
    with pytest.raises(ProfileError, match=r"b\.json: model: mine on T4 at fp32 is also in .*a\.json\. Keep one"):
        find_profiles((tmp_path,), GPUS)


def test_all_refused_files_are_named_at_once(tmp_path):
    write(tmp_path, GOOD | {"gpu": "T5"}, "a.json")
    write(tmp_path, without("source"), "b.json")
    with pytest.raises(ProfileError) as error:
        find_profiles((tmp_path,), GPUS)
    assert [line.split(": ")[0][-6:] for line in str(error.value).splitlines()] == ["a.json", "b.json"]


def test_a_directory_must_exist_and_hold_profiles(tmp_path):
    with pytest.raises(ProfileError, match="is not a directory"):
        find_profiles((tmp_path / "none",), GPUS)
    with pytest.raises(ProfileError, match="holds no profile"):
        find_profiles((tmp_path,), GPUS)


BAD_TEXT = {
    "not UTF-8": (b"\xff\xfe{}", f"is not UTF-8: byte 0xff at offset 0. Write a profile of schema {SCHEMA}"),
    "not JSON": (b'{"schema": }', f"1:12: is not JSON: expecting value. Write a profile of schema {SCHEMA}"),
    "list": (b"[]", f"must be a mapping, got a list. Write a profile of schema {SCHEMA}"),
    "twice": (b'{"gpu": "T4", "gpu": "T4"}', f"has the key `gpu` twice. Write a profile of schema {SCHEMA}"),
    "NaN": (b'{"latency_cv": NaN}', f"NaN is not a finite number. Write a profile of schema {SCHEMA}"),
    "deep": (b"[" * 200_000, f"is nested too deeply. Write a profile of schema {SCHEMA}"),
    "digits": (
        b'{"latency_cv": ' + b"9" * 5000 + b"}",
        f"1:116: holds a number beyond 1e100. Write a profile of schema {SCHEMA}",
    ),
    "large": (b" " * 16_000_001, f"holds more than 16 MB. Write a profile of schema {SCHEMA}"),
}


@pytest.mark.parametrize("case", BAD_TEXT)
def test_bad_text(case, tmp_path):
    raw, message = BAD_TEXT[case]
    path = tmp_path / "bad.json"
    path.write_bytes(raw)
    assert refusal(path) == message


def test_a_digest_is_no_number(tmp_path):
    """Of SHA-256 in hexadecimal digits one in forty begins like a number beyond all bounds."""
    source = 'trtexec: a \\"b\\" (sha256 5e1234567890abcd)'
    (path := tmp_path / "p.json").write_text(f'{{"source": "{source}", "latency_cv": 0.1}}')
    assert read_json(path)["latency_cv"] == 0.1
    path.write_text(f'{{"source": "{source}", "latency_cv": 5e1234}}')
    with pytest.raises(FileError, match="beyond 1e100"):
        read_json(path)


def test_missing_file(tmp_path):
    assert refusal(tmp_path / "none.json").startswith("no such file. ")


NUMBER = "Write a plain number in the unit the key names"
BAD_VALUES = {
    "schema": (GOOD | {"schema": "planner.profile/v2"}, f"schema: 'planner.profile/v2' is not known. Write {SCHEMA}"),
    "missing": (without("source"), "source: is missing. Write a text"),
    "misspelt": (without("latency_s") | {"latency": {}}, "latency: is not a key of a profile. Did you mean latency_s?"),
    "unknown": (GOOD | {"bussy_w": 60}, "bussy_w: is not a key of a profile. Did you mean busy_w?"),
    "unknown in load": (
        GOOD | {"load": {"t0_s": 0, "bytes_per_s": 6e9, "pinned": 1}},
        "load.pinned: is not a key of a profile. Write one of bytes_per_s, t0_s",
    ),
    "gpu": (
        GOOD | {"gpu": "A100"},
        "gpu: 'A100' is not known. Did you mean A100-40GB or A100-40GB-PCIe or A100-80GB or A100-80GB-PCIe?",
    ),
    "precision": (GOOD | {"precision": "fp23"}, "precision: 'fp23' is not known. Did you mean fp32?"),
    "evidence": (
        GOOD | {"load_evidence": "guessed"},
        "load_evidence: 'guessed' is not known. Write one of assumed, extrapolated, fitted, measured, "
        "measured-elsewhere, predicted, published, transferred",
    ),
    "name": (
        GOOD | {"model": "my model"},
        "model: 'my model' is not a name. Write at most 64 letters from a to z, digits, and _ . - between",
    ),
    "date": (GOOD | {"as_of": "20.7.2026"}, "as_of: '20.7.2026' is not a date. Write it as 2026-07-20"),
    "no day": (GOOD | {"as_of": "2026-02-30"}, "as_of: '2026-02-30' is not a date. Write it as 2026-07-20"),
    "text for number": (GOOD | {"busy_w": "65 W"}, f"busy_w: must be a number, got a text. {NUMBER}"),
    "factors of times": (
        GOOD | {"latency_factors": {"1": [0.5, 0.6]}},
        "latency_factors.1: must be above 0 with a mean of 1, got a mean of 0.55. Divide times by their mean",
    ),
    "factor for factors": (
        GOOD | {"latency_factors": {"1": 1.0}},
        "latency_factors.1: must be a list of numbers, got a number. Leave it as the planner wrote it",
    ),
    "boolean for number": (GOOD | {"latency_cv": True}, f"latency_cv: must be a number, got a boolean. {NUMBER}"),
    "number for text": (GOOD | {"source": 7}, "source: must be a text, got a number. Write a text"),
    "empty text": (GOOD | {"source": " "}, "source: is empty. Write a text"),
    "batch": (
        GOOD | {"latency_s": {"1.5": 0.01}},
        "latency_s.1.5: '1.5' is not a batch size. Write a whole number from 1 to 1000000",
    ),
    "no points": (
        GOOD | {"latency_s": {}},
        'latency_s: is empty. Write at least one point, e.g. {"1": 0.0084}',
    ),
    "weights twice": (
        GOOD | {"layers": [{"key": "a", "weight_bytes": 1}]},
        "weight_bytes: exactly one of weight_bytes and layers is needed. Write weight_bytes if layers are unknown",
    ),
    "layer": (
        without("weight_bytes") | {"layers": [{"key": "a"}]},
        "layers[0].weight_bytes: is missing. Write a number",
    ),
    "sentences": (GOOD | {"doubts": "one"}, 'doubts: must be a list of texts. Write e.g. ["Taken for a V100."]'),
    "doubted what": (
        GOOD | {"doubted": {"4": "odd"}},
        "doubted.4: has no latency_s. Name a batch size of latency_s",
    ),
    "doubted without operations": (
        without("flops_per_sample") | {"doubted": {"8": "odd"}},
        "doubted: needs flops_per_sample to say what is possible. Give flops_per_sample",
    ),
    "two impossible things": (
        GOOD | {"latency_s": {"1": 0.05, "8": 0.04}, "busy_w": 0},
        "busy_w: must be above 0, got 0. Write what was measured",
    ),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_bad_values(case, tmp_path):
    raw, message = BAD_VALUES[case]
    assert refusal(write(tmp_path, raw)) == message


def test_a_file_may_doubt_its_own_points(tmp_path):
    """8 GFLOP at 8.1 TFLOP/s: 7.9 ms for eight images of 8 GFLOP; a point that can be stays as it is."""
    raw = GOOD | {"latency_s": {"1": 0.002, "8": 0.003}, "doubted": {"1": "odd", "8": "not synchronised"}}
    profile = read_profile(write(tmp_path, raw), GPUS)
    assert profile.latency.y == pytest.approx((0.002, 8 * 8e9 / 8.1e12))
    assert profile.doubts == (
        f"Batch 1: odd; measure it: `planner calibrate --device cuda:0 {OWN}`",
        "Batch 8: not synchronised; 7.9 ms, the least its GPU's peak allows, stands in;"
        f" measure it: `planner calibrate --device cuda:0 {OWN}`",
    )
    assert profile.latency_evidence is Evidence.ASSUMED


@pytest.mark.parametrize(("kind", "device"), [("T4", "cuda:0"), ("CPU-i9-10940X", "cpu"), ("cpu-amd-epyc", "cpu")])
def test_what_is_missing_is_measured_on_the_device_it_ran_on(tmp_path, kind, device):
    gpus = {**GPUS, kind: replace(GPUS["T4"], name=kind)}
    missing = read_profile(write(tmp_path, GOOD | {"gpu": kind, "latency_s": {"4": 0.02, "8": 0.03}}), gpus)
    assert any(f"planner calibrate --device {device} {OWN}" in doubt for doubt in missing.doubts)


def test_batches_below_the_first_point_are_extrapolated(tmp_path):
    profile = read_profile(write(tmp_path, GOOD | {"latency_s": {"4": 0.02, "8": 0.03}}), GPUS)
    assert profile.latency(1) == 0.02
    assert profile.latency_evidence is Evidence.EXTRAPOLATED
    assert profile.doubts[-1].startswith("Batches below 4: not measured, its figures stand in; measure them: `planner")
    assert read_profile(write(tmp_path, GOOD), GPUS).doubts == ()
    theirs = GOOD | {"latency_s": {"4": 0.02, "8": 0.03}, "latency_evidence": "published"}
    assert read_profile(write(tmp_path, theirs), GPUS).latency_evidence is Evidence.PUBLISHED


def test_an_impossible_file_is_refused(tmp_path):
    assert refusal(write(tmp_path, GOOD | {"latency_s": {"1": 0.0001}})).startswith(
        "latency_s.1: 80.0 TFLOP/s is above"
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(key=st.sampled_from([*GOOD, "layers", "doubted", "assumptions"]) | st.text(max_size=3), value=JSON)
def test_any_value_is_read_or_refused_in_lines_that_name_the_file(tmp_path_factory, key, value):
    path = write(tmp_path_factory.getbasetemp() / "any", GOOD | {key: value})
    lines = []
    try:
        profile = read_profile(path, GPUS)
    except ProfileError as error:
        lines = str(error).splitlines()
    assert lines or check(profile, GPUS[profile.gpu]) == []
    assert all(line.startswith(f"{path}: ") for line in lines)


# What cannot be

POSSIBLE = Profile(
    model="m",
    gpu="V100",
    precision="fp32",
    layers=(Layer("m", 100_000_000),),
    latency=Interpolated((1, 2, 4), (0.010, 0.010, 0.020)),
    workspace=Interpolated((1, 2, 4), (1e8, 2e8, 4e8)),
    load=LoadTime(0, 12e9),
    flops_per_sample=10e9,
    latency_evidence=Evidence.MEASURED,
    memory_evidence=Evidence.MEASURED,
    load_evidence=Evidence.MEASURED,
    source="a test",
    as_of="2026-07-20",
)


def but(**changes: Any) -> Profile:
    return dataclasses.replace(POSSIBLE, **changes)


@pytest.mark.parametrize(
    ("precision", "time_s", "doubted"), [("fp32", 0.003, False), ("fp32", 0.002, True), ("amp", 0.002, False)]
)
def test_operations_known_by_name_pass_the_peak_with_a_doubt(precision: str, time_s: float, doubted: bool) -> None:
    """40 GFLOP in 2 ms are 20 TFLOP/s: above a V100's 15.7 at fp32, and far below its 125 at mixed precision."""
    profile = but(precision=precision, latency=Interpolated((1, 4), (time_s, time_s)), flops_per_sample=None)
    assert check(profile, V100) == []
    doubts = beyond_peak(profile, V100, 10e9)
    assert len(doubts) == doubted
    assert not doubted or "1.3 times the arithmetic that a V100 reaches at fp32; Winograd or" in doubts[0]


@pytest.mark.parametrize(("time_s", "doubted"), [(1e-9, True), (0.9e-5, True), (1.2e-5, False), (0.01, False)])
def test_weights_read_faster_than_caches_pass_them_are_a_doubt(time_s: float, doubted: bool) -> None:
    """100 MB at ten times the 900 GB/s of a V100: 11 us."""
    profile = but(latency=Interpolated((1,), (time_s,)), flops_per_sample=None)
    doubts = beyond_bandwidth(profile, V100)
    assert len(doubts) == doubted
    assert not doubted or "times as fast as the memory of a V100" in doubts[0]


IMPOSSIBLE = {
    "rate above peak": (
        but(latency=Interpolated((1, 4), (0.002, 0.002))),
        "latency_s.4: 20.0 TFLOP/s is above the 15.7 a V100 can reach at fp32. Time it with the device synchronised,"
        " or name the precision it ran at",
    ),
    "link above peak": (
        but(load=LoadTime(0, 20e9)),
        "load.bytes_per_s: 20.0 GB/s is above the 16 GB/s of a V100's host link. Time the copy until it has arrived",
    ),
    "pageable above peak": (
        but(pageable_bytes_per_s=17e9),
        "pageable_bytes_per_s: 17.0 GB/s is above the 16 GB/s of a V100's host link."
        " Time the copy until it has arrived",
    ),
    "latency falls": (
        but(latency=Interpolated((1, 2, 4), (0.010, 0.012, 0.011))),
        "latency_s.4: 11 ms, but a smaller batch takes 12 ms. Measure both again, with more repeats",
    ),
    "workspace shrinks": (
        but(workspace=Interpolated((1, 2), (2e8, 1e8))),
        "workspace_bytes.2: 0.1 GB, but a smaller batch needs 0.2 GB. Measure the peak of both in fresh processes",
    ),
    "too large": (
        but(layers=(Layer("a", 9_000_000_000), Layer("b", 9_000_000_000))),
        "weight_bytes: its weights are 18 GB, a V100 has 16 GB. Name a GPU that can hold them, or list its layers with"
        " evidence weaker than fitted",
    ),
    "largest layer too large": (
        but(layers=(Layer("a", 17_000_000_000), Layer("b", 1)), latency_evidence=Evidence.ASSUMED),
        "weight_bytes: its largest layer is 17 GB, a V100 has 16 GB. Name a GPU that can hold them, or list its layers"
        " with evidence weaker than fitted",
    ),
    "no time": (
        but(latency=Interpolated((1,), (0.0,))),
        "latency_s.1: must be above 0, got 0. Write what was measured",
    ),
    "no weights": (
        but(layers=(Layer("m", 0),)),
        "weight_bytes of layer 'm': must be above 0, got 0. Write what was measured",
    ),
    "negative workspace": (
        but(workspace=Interpolated((1,), (-1.0,))),
        "workspace_bytes.1: must not be below 0, got -1. Write what was measured",
    ),
    "no bandwidth": (
        but(load=LoadTime(0, 0)),
        "load.bytes_per_s: must be above 0, got 0. Write what was measured",
    ),
    "negative spread": (
        but(latency_cv=-0.1),
        "latency_cv: must not be below 0, got -0.1. Write what was measured",
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_impossible(case):
    profile, message = IMPOSSIBLE[case]
    assert check(profile, V100) == [message]


def test_possible():
    assert check(POSSIBLE, V100) == []


def test_noise_is_no_fall():
    """5 % less is noise; so is 30 % less where runs spread by 10 %."""
    assert check(but(latency=Interpolated((1, 2), (0.0100, 0.0096))), V100) == []
    fall = Interpolated((1, 2), (0.0100, 0.0072))
    assert len(check(but(latency=fall), V100)) == 1
    assert check(but(latency=fall, latency_cv=0.1), V100) == []


def test_a_slow_decline_is_a_fall():
    decline = Interpolated((1, 2, 3, 4), (0.0100, 0.0097, 0.0095, 0.0092))
    assert [line[:12] for line in check(but(latency=decline), V100)] == ["latency_s.4:"]


def test_a_predicted_model_may_be_split_over_gpus():
    halves = (Layer("a", 9_000_000_000), Layer("b", 9_000_000_000))
    assert check(but(layers=halves, latency_evidence=Evidence.ASSUMED), V100) == []


def test_reduced_precision_may_be_faster_than_fp32():
    fast = but(latency=Interpolated((1, 4), (0.010, 0.010)), flops_per_sample=100e9)
    assert check(fast, V100)
    assert check(dataclasses.replace(fast, precision="amp"), V100) == []


@given(gpu=st.sampled_from(list(GPUS.values())), slowness=st.floats(0.1, 10))
def test_the_peak_is_the_border(gpu, slowness):
    """Every batch takes `slowness` times the least time the peak allows, and loads come at the full link rate."""
    latency = Interpolated((1, 2, 4), tuple(slowness * 10e9 * batch / gpu.fp32_flops for batch in (1, 2, 4)))
    refused = check(but(gpu=gpu.name, latency=latency, load=LoadTime(0, gpu.pcie_bytes_per_s)), gpu)
    assert bool(refused) == (slowness < 1 / (1 + 1e-9))


# Fits, layers and samples that measuring found

FOUR = GOOD | {"latency_s": {"1": 0.010, "2": 0.012, "4": 0.020, "8": 0.038}}
SMOOTH = {"form": "smooth-maximum", "parameters": {"a": 0.0098, "c": 0.0047, "p": 2.6}}
ERRORS = {"error_mean": 0.03, "error_max": 0.05, "error_max_at": 4.0, "band": 0.06}
FITTED = FOUR | {"latency_fit": SMOOTH | ERRORS}


def test_a_fit_is_read_with_its_errors(tmp_path):
    profile = read_profile(write(tmp_path, FITTED), GPUS)
    assert profile.latency == SmoothMaximum((1, 2, 4, 8), (0.010, 0.012, 0.020, 0.038), a=0.0098, c=0.0047, p=2.6)
    assert profile.latency_fit == FitQuality(form="smooth-maximum", **ERRORS)
    assert profile.largest_batch == 8
    assert not profile.latency.covers(9)


def test_what_a_fit_writes_is_read_as_the_same_curve(tmp_path):
    points = {1: 0.010, 2: 0.012, 4: 0.020, 8: 0.038, 16: 0.075, 32: 0.14}
    for series in (
        points,
        {b: 0.01 + 0.001 * b for b in points},
        {1: 0.01},
        {1: 0.01, 64: 0.2},
        dict.fromkeys(points, 0.1),
    ):
        found = fit_latency(series)
        raw = GOOD | {"latency_s": {str(b): y for b, y in series.items()}, "latency_fit": found.to_json()}
        assert read_profile(write(tmp_path, raw), GPUS).latency == found.curve


def test_a_fit_is_what_is_planned_with(tmp_path):
    """Between batches 4 and 8 the law, not the line."""
    curve = read_profile(write(tmp_path, FITTED), GPUS).latency
    assert curve(6) == pytest.approx((0.0098**2.6 + (0.0047 * 6) ** 2.6) ** (1 / 2.6))


def test_a_fit_that_misses_a_point_by_more_than_its_band_gives_way_to_the_points(tmp_path):
    """Such files were written once: 378 ms were measured, and the line said 99.7 ms within a band of 67.6 %."""
    times = {"1": 6.31e-3, "2": 12.1e-3, "4": 23.7e-3, "8": 44.9e-3, "16": 378e-3}
    line = {"form": "straight-line", "parameters": {"fixed": 0.0, "slope": 0.0062328}}
    raw = GOOD | {"latency_s": times, "latency_fit": line | {"error_max": 1.109, "band": 0.6755}}
    profile = read_profile(write(tmp_path, raw), GPUS)
    assert profile.latency == Interpolated((1, 2, 4, 8, 16), tuple(times.values()))
    assert profile.latency_fit is None
    (doubt,) = [doubt for doubt in profile.doubts if doubt.startswith("Batch 16: 378 ms, and 99.7 ms")]
    assert "beyond its band of 67.5%" in doubt
    near = raw | {"latency_s": times | {"16": 0.15}}
    assert read_profile(write(tmp_path, near), GPUS).latency(16) == pytest.approx(16 * 0.0062328)


def test_where_points_are_not_believed_neither_is_a_fit_through_them(tmp_path):
    fast = FOUR["latency_s"] | {"8": 0.021}
    doubted = but_fit(error_max=0.9) | {"flops_per_sample": 3e10, "latency_s": fast, "doubted": {"8": "too fast"}}
    profile = read_profile(write(tmp_path, doubted), GPUS)
    assert profile.latency == Interpolated((1, 2, 4, 8), (0.010, 0.012, 0.020, 8 * 3e10 / 8.1e12))
    assert profile.latency_fit is None


def but_fit(**changes):
    return FOUR | {"latency_fit": SMOOTH | ERRORS | changes}


BAD_FITS = {
    "form": (but_fit(form="smooth"), "latency_fit.form: 'smooth' is not known. Did you mean smooth-maximum?"),
    "no parameters": (but_fit(parameters=None), "latency_fit.parameters: is missing. Write a mapping"),
    "one missing": (but_fit(parameters={"a": 1, "c": 1}), "latency_fit.parameters.p: is missing. Write a number"),
    "below 0": (
        but_fit(parameters={"a": -1, "c": 1, "p": 1}),
        "latency_fit.parameters.a: must not be below 0, got -1. Write what was measured",
    ),
    "no sharpness": (
        but_fit(parameters={"a": 1, "c": 1, "p": 0}),
        "latency_fit.parameters.p: must be above 0, got 0. Write what was measured",
    ),
    "nothing": (
        but_fit(parameters={"a": 0, "c": 0, "p": 1}),
        "latency_fit.parameters: are all 0. Write what was fitted",
    ),
    "of another": (
        but_fit(form="straight-line"),
        "latency_fit.parameters.fixed: is missing. Write a number",
    ),
    "unknown": (but_fit(eror_max=1), "latency_fit.eror_max: is not a key of a profile. Did you mean error_max?"),
    "no error": (but_fit(error_max=None), "latency_fit.error_max: is missing. Say how far the fit errs at most"),
    "milliseconds": (
        but_fit(parameters={"a": 9.8, "c": 4.7, "p": 2.6}),
        "latency_fit: says 1.25e+04 ms for batch 2, off by 104377.2% where error_max is 5.0%. Fit it to these"
        " latency_s, or leave out latency_fit",
    ),
    "other points": (
        but_fit() | {"latency_s": FOUR["latency_s"] | {"8": 0.050}},
        "latency_fit: says 38 ms for batch 8, off by 23.9% where error_max is 5.0%. Fit it to these latency_s, or leave"
        " out latency_fit",
    ),
    "no mapping": (FOUR | {"latency_fit": "joined"}, "latency_fit: must be a mapping, got a text. Write a mapping"),
    "samples": (FOUR | {"measured": []}, "measured: must be a mapping, got a list. Write a mapping"),
    "layers": (
        FOUR | {"measured": {"layers": {"a": 1}}},
        "measured.layers: must be a list of mappings, got a mapping. Leave it as the planner wrote it",
    ),
    "layer": (
        FOUR | {"measured": {"layers": ["conv"]}},
        "measured.layers[0]: must be a mapping, got a text. Leave it as the planner wrote it",
    ),
    "bytes of a layer": (
        FOUR | {"measured": {"layers": [{"name": "conv", "weight_bytes": -1}]}},
        "measured.layers[0].weight_bytes: must not be below 0, got -1. Write what was measured",
    ),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_fits_and_samples(case, tmp_path):
    raw, message = BAD_FITS[case]
    assert refusal(write(tmp_path, raw)) == message


def layers_of(tmp_path: Path, listed: list[dict[str, Any]]) -> tuple[Layer, ...]:
    return read_profile(write(tmp_path, GOOD | {"weight_bytes": 100, "measured": {"layers": listed}}), GPUS).layers


def test_measured_layers_are_the_models_own(tmp_path):
    listed = [{"name": "conv", "weight_bytes": 30, "type": "Conv2d"}, {"name": "relu", "weight_bytes": 0}]
    assert layers_of(tmp_path, [*listed, {"name": "head", "weight_bytes": 70}]) == (
        Layer("mine/conv", 30),
        Layer("mine/head", 70),
    )


def test_what_layers_leave_is_one_more(tmp_path):
    assert layers_of(tmp_path, [{"name": "conv", "weight_bytes": 30}]) == (Layer("mine/conv", 30), Layer("mine", 70))
    assert layers_of(tmp_path, []) == (Layer("mine", 100),)


def test_a_layer_that_runs_twice_is_held_once(tmp_path):
    assert layers_of(tmp_path, [{"name": "conv", "weight_bytes": 100}] * 2) == (Layer("mine/conv", 100),)


def test_layers_that_share_weights_are_one(tmp_path):
    listed = [{"name": "embedding", "weight_bytes": 80}, {"name": "output", "weight_bytes": 80}]
    assert layers_of(tmp_path, listed) == (Layer("mine", 100),)


def test_samples_are_read_when_they_are_asked_for(tmp_path):
    measured = {"points": {"latency": {"1": {"samples": {"wall_s": [0.01, 0.011]}}}}, "knee": None}
    library = find_profiles((write(tmp_path, GOOD | {"measured": measured}).parent,), GPUS)
    (mine,) = library.for_model("mine")
    assert library.measured(mine) == measured
    assert library.measured(shipped("resnet50")) == {}


def test_samples_of_a_file_that_is_gone(tmp_path):
    path = write(tmp_path, GOOD)
    library = find_profiles((tmp_path,), GPUS)
    (mine,) = library.for_model("mine")
    path.unlink()
    with pytest.raises(ProfileError, match="no such file"):
        library.measured(mine)


# Measured devices

KIND: dict[str, Any] = {
    "name": "cpu-epyc",
    "memory_bytes": 64_000_000_000,
    "memory_bytes_per_s": 2e10,
    "fp32_flops": 5e11,
    "tdp_w": 100,
    "idle_w": 30,
    "pcie_bytes_per_s": 8e9,
    "compute_capability": "",
    "source": "planner calibrate",
}
DEVICE: dict[str, Any] = {
    "schema": DEVICE_SCHEMA,
    "gpu": KIND,
    "assumptions": ["Its peaks are the highest rates seen."],
    "doubts": [],
    "provenance": {"torch": "2.13.0"},
    "probes": {"copy": {"status": "ok"}},
}


def test_a_measured_device_is_a_kind_of_gpu(tmp_path):
    write(tmp_path / "cpu-epyc", DEVICE, "device.json")
    mine = write(tmp_path / "cpu-epyc", GOOD | {"gpu": "cpu-epyc", "flops_per_sample": 1e9})
    kinds = find_kinds((tmp_path,))
    assert kinds["cpu-epyc"] == GPU(**KIND)
    assert find_profiles((tmp_path,), {**kinds, **GPUS}).measured(read_profile(mine, kinds)) == {}
    with pytest.raises(ProfileError, match=r"gpu: 'cpu-epyc' is not known"):
        find_profiles((tmp_path,), GPUS)


def test_a_device_may_leave_its_figures_to_the_catalog(tmp_path):
    write(tmp_path, {key: value for key, value in DEVICE.items() if key != "gpu"}, "device.json")
    assert find_kinds((tmp_path,)) == find_kinds(())


def test_the_first_device_wins_and_two_of_a_directory_may_not_compete(tmp_path):
    write(tmp_path / "a", DEVICE, "device.json")
    write(tmp_path / "b", DEVICE | {"gpu": KIND | {"tdp_w": 90}}, "device.json")
    assert find_kinds((tmp_path / "b", tmp_path / "a"))["cpu-epyc"].tdp_w == 90
    with pytest.raises(ProfileError, match=r"b.device\.json: name: cpu-epyc is also in .*a.device\.json\. Keep one"):
        find_kinds((tmp_path,))
    with pytest.raises(ProfileError, match="is not a directory"):
        find_kinds((tmp_path / "none",))


BAD_DEVICES = {
    "schema": (DEVICE | {"schema": SCHEMA}, f"schema: '{SCHEMA}' is not known. Write {DEVICE_SCHEMA}"),
    "list": ([], f"must be a mapping, got a list. Write a device of schema {DEVICE_SCHEMA}"),
    "unknown": (DEVICE | {"probe": {}}, "probe: is not a key of a device. Did you mean probes?"),
    "unknown of the GPU": (DEVICE | {"gpu": KIND | {"vram": 1}}, "gpu.vram: is not a key of a device. Known: "),
    "missing": (DEVICE | {"gpu": {"name": "x"}}, "gpu.memory_bytes: is missing. Write a number"),
    "nothing": (DEVICE | {"gpu": KIND | {"fp32_flops": 0}}, "gpu.fp32_flops: must be above 0, got 0. Write what was"),
    "idle": (DEVICE | {"gpu": KIND | {"idle_w": 200}}, "gpu.idle_w: must not be above tdp_w, got 200 and 100. Write"),
    "name": (DEVICE | {"gpu": KIND | {"name": "a b"}}, "gpu.name: 'a b' is not a name. Write at most 64"),
    "text": (DEVICE | {"gpu": KIND | {"tdp_w": "100 W"}}, "gpu.tdp_w: must be a number, got a text. Write a plain"),
    "probes": (DEVICE | {"probes": [1]}, "probes: must be a mapping, got a list. Write a mapping"),
}


@pytest.mark.parametrize("case", BAD_DEVICES)
def test_bad_devices(case, tmp_path):
    raw, message = BAD_DEVICES[case]
    path = write(tmp_path, raw, "device.json")
    with pytest.raises(ProfileError) as error:
        find_kinds((tmp_path,))
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{path}: {message}")


# As people see it


def test_show_tells_fit_and_evidence():
    points = {"latency": {str(b): {"samples": {"wall_s": [0.01, 0.02]}} for b in (1, 2, 4)}}
    raw = {
        "provenance": {"gpu_name": "NVIDIA H200", "driver": "570.1", "torch": "2.13.0", "date": "2026-07-20"},
        "regime": {"1": "overhead", "2": "overhead", "4": "arithmetic"},
        "limits": {
            "inference": {"fits": 64, "fails": 128},
            "training.sgd": {"fits": 8, "ended": {"batch": 16, "how": "failed", "why": "Error: no"}},
        },
        "fits": {"latency": {}, "memory": {"form": "straight-line", "error_mean": 0.01}},
        "points": points,
    }
    profile = but(latency_fit=FitQuality(form="joined", **ERRORS))
    text = profile_show(profile, Screen(200), raw)
    rows = [line.split() for line in text.splitlines()]
    assert rows[1][-4:] == ["runs", "p95", "p99", "cv"]
    assert rows[2][-6:] == ["2", "20.0", "ms", "20.0", "ms", "0.47"]
    for line in (
        "Fit: joined; batches left out were predicted within 3.0 % on average; it errs by 5.0 % at worst, at batch 4;"
        " 90 % of other batches are expected within 6.0 %.",
        "Measured on: NVIDIA H200, driver 570.1, torch 2.13.0, on 2026-07-20.",
        "Bound by: overhead at batches 1 to 2; arithmetic at batch 4.",
        "Largest batch: inference 64, and 128 did not fit; training.sgd 8, and 16 was tried and failed (Error: no).",
        "Fit of memory: straight-line; batches left out were predicted within 1.0 % on average.",
    ):
        assert f"  {line}\n" in text + "\n"


@pytest.mark.parametrize("odd", [[], 1, "text", {"1": 2}, {"x": None}, None])
@pytest.mark.parametrize("key", ["provenance", "regime", "limits", "fits", "points"])
def test_show_passes_over_what_it_does_not_know(key, odd):
    assert profile_show(but(), Screen(), {key: odd})


def test_list_tells_fits_where_there_are_any():
    fitted = but(latency_fit=FitQuality(form="joined", **ERRORS))
    assert "fit errs" not in profile_list([but()], Screen(200))
    rows = [line.split() for line in profile_list([fitted, but()], Screen(200)).splitlines()]
    assert "joined 3.0 % 5.0 % at 4" in " ".join(rows[1])
    assert rows[2][-5:] == ["-", "-", "-", "measured", "measured"]


def test_what_was_measured_of_a_packages_model_is_of_its_architecture():
    """As `calibrate --model hf:bert-base-uncased` calls it."""
    shipped = find_profiles((), GPUS)
    own = replace(shipped.profiles["bert_base", "H200", "torch"], model="hf.bert-base-uncased", gpu="L4")
    library = Library({**shipped.profiles, ("hf.bert-base-uncased", "L4", "torch"): own}, {}, GPUS)
    found = library.get("bert_base", "L4", "torch")
    assert found is not None
    assert found.latency == own.latency
    assert {p.gpu for p in library.for_model("hf.bert-base-uncased")} == {"H100", "H200", "L4"}
