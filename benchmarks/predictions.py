"""Predictions on models and devices that others measured: errors of what was not used, and the share within bands.

Measured by the pytorch-image-models project, where its files are: in `timm/` of the directory that PLANNER_DATA names
or of `shared/data` beside the repository. NVIDIA's series of ResNet-50 are shipped as profiles. Bands are made of what
was used: of probes left out in turn, and of constants that come from the RTX 3090.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import log

import numpy as np

from benchmarks.fits import DATA
from calibrate.layers.facts import facts
from calibrate.layers.work import FactsError
from calibrate.library.lookup import find_profiles
from planner.catalog.catalog import load_catalog
from planner.model.plan import Estimate
from planner.prediction.predict import Predictor
from planner.prediction.rules.bands import SPREAD_80, around
from planner.prediction.rules.layered import roofline_s
from planner.prediction.rules.measured import interpolated
from planner.prediction.rules.transfer import (
    ROOFLINE_SPREAD,
    LayerModel,
    Pair,
    SampleWork,
    Transferred,
    floor_and_slope,
    fold_of,
    held_out_errors,
    layer_model,
    measured_ratio,
    sheet_ratio,
)
from simulator.world.curves import Interpolated

FILES = {
    "RTX3090": "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv",
    "RTX4090": "benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv",
    "i9-10940X": "benchmark-infer-fp32-nchw-pt240-cpu-i9_10940x-dynamo.csv",
}
BYTES = {"RTX3090": 2, "RTX4090": 2, "i9-10940X": 4}
"""Of one number: amp, amp, fp32."""
PROBES = (
    ("resnet50", 224),
    ("vit_base_patch16_224", 224),
    ("convnext_tiny", 224),
    ("mobilenetv3_large_100", 224),
    ("swin_tiny_patch4_window7_224", 224),
)
"""Model and pixels of the five that are measured on a device."""
FULL_BATCH = 512
"""Samples from which a GPU's batch counts as full."""
NEEDED = ("infer_samples_per_sec", "infer_gmacs", "infer_macts", "param_count")
GPUS = load_catalog().gpus
Key = tuple[str, int]


@dataclass(frozen=True)
class Row:
    """One model at one resolution, as the files have it."""

    batch: int
    sample_s: float
    flops: float
    activations: float
    params: float

    def work(self, width: int) -> SampleWork:
        """With numbers of so many bytes."""
        return SampleWork.of(self.flops, width * self.activations, width * self.params, self.batch)


@dataclass(frozen=True)
class Case:
    """Predictions of one kind against what was measured."""

    name: str
    told: tuple[Estimate, ...]
    seen: tuple[float, ...]

    @property
    def errors(self) -> list[float]:
        """Relative, absolute."""
        return [abs(t.value / s - 1) for t, s in zip(self.told, self.seen, strict=True)]

    @property
    def median(self) -> float:
        """Of the errors."""
        return float(np.median(self.errors))

    @property
    def p90(self) -> float:
        """One error in ten is larger."""
        return float(np.quantile(self.errors, 0.9))

    @property
    def inside(self) -> float:
        """Share within the band."""
        return float(np.mean([t.low <= s <= t.high for t, s in zip(self.told, self.seen, strict=True)]))


@cache
def rows(device: str) -> Mapping[Key, Row]:
    """All rows that have a time and facts; empty where the files are not here."""
    path = DATA / "timm" / FILES[device]
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {(r["model"], int(r["infer_img_size"])): _row(r) for r in csv.DictReader(file) if _whole(r)}


def _whole(row: Mapping[str, str]) -> bool:
    return all(
        float(row[key] or 0) > 0 for key in ("infer_samples_per_sec", "infer_gmacs", "infer_macts", "param_count")
    )


def _row(row: Mapping[str, str]) -> Row:
    """A multiply-add is two operations; `infer_macts` counts millions of numbers."""
    return Row(
        batch=int(row["infer_batch_size"]),
        sample_s=1 / float(row["infer_samples_per_sec"]),
        flops=2e9 * float(row["infer_gmacs"]),
        activations=1e6 * float(row["infer_macts"]),
        params=1e6 * float(row["param_count"]),
    )


def cases() -> list[Case]:
    """All that the files here allow."""
    found = [*_by_ratio(), *_by_layers(), *_series(), *cut_short(), _roofline()]
    return [case for case in found if case.seen]


# From one GPU to another


def _by_ratio() -> Iterator[Case]:
    source, target = rows("RTX3090"), rows("RTX4090")
    if not source or not target:
        return
    peak = GPUS["RTX3090"].peak_flops("amp")

    def share(row: Row) -> float:
        return row.flops / row.sample_s / peak

    ratio = measured_ratio([Pair(k[0], share(source[k]), source[k].sample_s, target[k].sample_s) for k in PROBES])
    rest = [k for k in source if k in target and k not in PROBES]
    told = [around(source[k].sample_s * ratio(share(source[k])), ratio.spread) for k in rest]
    seen = tuple(target[k].sample_s for k in rest)
    yield Case("RTX 4090 from the RTX 3090 and five probes", tuple(told), seen)
    first, second = GPUS["RTX3090"], GPUS["RTX4090"]
    sheets = sheet_ratio((peak, second.peak_flops("amp")), (first.memory_bytes_per_s, second.memory_bytes_per_s))
    told = [around(source[k].sample_s * sheets(None), sheets.spread) for k in rest]
    yield Case("RTX 4090 from the RTX 3090 and both data sheets", tuple(told), seen)


# From layers


def from_probes(device: str) -> LayerModel:
    """The layer model of a device from its five probes alone."""
    known = rows(device)
    works = [known[k].work(BYTES[device]) for k in PROBES]
    return layer_model([k[0] for k in PROBES], works, [known[k].sample_s for k in PROBES])


def probe_errors(device: str) -> list[float]:
    """ln(told / seen) of all other models, by the five probes."""
    known, fitted = rows(device), from_probes(device)
    rest = [row for k, row in known.items() if k not in PROBES]
    return [log(fitted.seconds(row.work(BYTES[device])) / row.sample_s) for row in rest]


def layer_spread() -> float:
    """`planner.prediction.rules.transfer.LAYER_SPREAD`: half the band of 80 % of the RTX 3090's other models."""
    return float(np.quantile(np.abs(probe_errors("RTX3090")), 0.8)) / SPREAD_80


def _by_layers() -> Iterator[Case]:
    names = {"i9-10940X": "i9 CPU", "RTX4090": "RTX 4090", "RTX3090": "RTX 3090 (the constants are made of it)"}
    for device, name in names.items():
        known = rows(device)
        if not known:
            continue
        fitted = from_probes(device)
        rest = [row for k, row in known.items() if k not in PROBES]
        told = tuple(fitted(row.work(BYTES[device])) for row in rest)
        yield Case(f"{name} from its five probes and layers", told, tuple(row.sample_s for row in rest))
        yield _five_fold(device, name.partition(" (")[0], known)


def _five_fold(device: str, name: str, known: Mapping[Key, Row]) -> Case:
    """Each fifth of the models by the other four; its band from their own held-out errors."""
    keys = list(known)
    terms = np.array([known[k].work(BYTES[device]).terms for k in keys])
    times = np.array([known[k].sample_s for k in keys])
    fold = fold_of([k[0] for k in keys], 5)
    errors = np.array(held_out_errors(terms, times, fold))
    spreads = {k: float(np.quantile(np.abs(errors[fold != k]), 0.8)) / SPREAD_80 for k in np.unique(fold)}
    told = tuple(around(float(t * np.exp(e)), spreads[k]) for t, e, k in zip(times, errors, fold, strict=True))
    return Case(f"{name} from four fifths of its models and layers", told, tuple(map(float, times)))


# Batch by batch


def _series() -> Iterator[Case]:
    for name, told in (("no T4 point", t4_from_v100(None)), ("each T4 point in turn", _each_point())):
        pairs = list(told)
        yield Case(f"T4 ResNet-50 from the V100 and {name}", tuple(t for t, _ in pairs), tuple(s for _, s in pairs))


def _each_point() -> Iterator[tuple[Estimate, float]]:
    for batch in _profile("T4"):
        yield from t4_from_v100(batch)


def t4_from_v100(batch: float | None) -> Iterator[tuple[Estimate, float]]:
    """What is told and seen of each batch but the one that is known, by NVIDIA's V100 series and both data sheets."""
    v100, t4 = _profile("V100"), _profile("T4")
    ratio = sheet_ratio(
        (GPUS["V100"].fp32_flops, GPUS["T4"].fp32_flops),
        (GPUS["V100"].memory_bytes_per_s, GPUS["T4"].memory_bytes_per_s),
    )
    own = ((batch, t4[batch]),) if batch is not None else ()
    moved = Transferred(floor_and_slope(list(v100), list(v100.values()))[0], ratio(None), ratio.spread, own)
    return ((moved(at), seen) for at, seen in t4.items() if at != batch)


@cache
def _profile(gpu: str) -> Mapping[float, float]:
    profile = find_profiles((), GPUS).profiles["nvidia_resnet50", gpu, "fp32"]
    return dict(zip(profile.latency.x, profile.latency.y, strict=True))


def cut_short() -> Iterator[Case]:
    """Each shipped series that nothing was learnt from, cut after each of its batches: all that came after."""
    library = find_profiles((), GPUS)
    known = Predictor(library, GPUS)
    told, straight, seen = [], [], []
    for whole in library.profiles.values():
        x, y = whole.latency.x, whole.latency.y
        for cut in range(1, len(x)) if whole.gpu == "H100" or whole.runtime == "tvm" else ():
            short = replace(whole, latency=Interpolated(x[:cut], y[:cut]), latency_fit=None)
            told += [known.of_profile(short, batch).latency_s for batch in x[cut:]]
            straight += [interpolated(short, batch).latency_s for batch in x[cut:]]
            seen += y[cut:]
    name = "batches past the last of a series"
    yield Case(name, tuple(told), tuple(seen))
    yield Case(f"{name}, on its last line", tuple(straight), tuple(seen))


def _roofline() -> Case:
    """Shipped profiles of models whose layers are known, by nothing but layers and data sheets."""
    told, seen = [], []
    for profile in find_profiles((), GPUS).profiles.values():
        try:
            layers = facts(profile.model.removeprefix("nvidia_"))
        except FactsError:
            continue
        for batch, time_s in zip(profile.latency.x, profile.latency.y, strict=True):
            told.append(around(roofline_s(layers, GPUS[profile.gpu], profile.precision, batch), ROOFLINE_SPREAD))
            seen.append(time_s)
    return Case("shipped profiles from layers and data sheets", tuple(told), tuple(seen))


# Pixels


PIXEL_SPREAD = 0.04
"""Of time at another resolution over time times pixels, full batches on a GPU."""


def pixels(device: str) -> Case:
    """Each model at a larger resolution from a smaller one, both in full batches on a GPU, time with pixels."""
    by_model: dict[str, list[tuple[int, Row]]] = {}
    for (model, size), row in rows(device).items():
        if row.batch >= FULL_BATCH or device == "i9-10940X":
            by_model.setdefault(model, []).append((size, row))
    pairs = [pair for sizes in by_model.values() for pair in combinations(sorted(sizes, key=lambda s: s[0]), 2)]
    told = tuple(around(small.sample_s * (b / a) ** 2, PIXEL_SPREAD) for (a, small), (b, _) in pairs)
    kind = "one picture at a time" if device == "i9-10940X" else "full batches"
    return Case(f"{device}, other pixels, {kind}", told, tuple(large.sample_s for _, (_, large) in pairs))


# Tables


def table(judged: Sequence[Case]) -> list[str]:
    """In Markdown: a row for each case."""
    head = ["| predicted | figures | median error | p90 | in the 80 % band |", "|---|---:|---:|---:|---:|"]
    return [*head, *(_cells(case) for case in judged)]


def _cells(case: Case) -> str:
    cells = [case.name, f"{len(case.seen):,}", *map(_percent, (case.median, case.p90, case.inside))]
    return f"| {' | '.join(cells)} |"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


@cache
def all_cases() -> list[Case]:
    """Those of time, then those of pixels."""
    return [*cases(), *(case for device in FILES if (case := pixels(device)).seen)]
