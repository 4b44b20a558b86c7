"""Library: finds profiles and measured devices on disk, reads them strictly, and refuses what no GPU can do.

Needs no torch.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from simulator.curves import FORMS, THROUGH_POINTS, Curve, Interpolated, LoadTime, curve_of
from simulator.hardware import GPU
from simulator.model import Layer
from simulator.profile import Evidence, FitQuality, Profile, weakest

SCHEMA = "planner.profile/v1"
DEVICE_SCHEMA = "planner.device/v1"
WHAT = {SCHEMA: "a profile", DEVICE_SCHEMA: "a device"}
DEVICE_FILE = "device.json"
"""Beside the profiles that were measured on it."""
SHIPPED = Path(__file__).parent / "profiles"
PRECISIONS = ("fp32", "tf32", "amp", "fp16", "bf16", "int8")
"""In order of preference where a question names none: the precision that changes no result comes first."""
NOISE = 0.05
"""Share by which a cost may fall as the batch grows before it is no longer noise (or three times the cv, if more)."""
ROUNDING = 1e-3
"""Share by which a fit may miss its points beyond what it says, for figures are written with few digits."""
LARGEST_FILE_BYTES = 16_000_000
LARGEST_BATCH = 1_000_000
LEAVE = "Leave it as planner calibrate wrote it"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")


class ProfileError(ValueError):
    """A profile that cannot be used; the text names file, key, what is wrong and what to write."""


def read_profile(path: Path, gpus: Mapping[str, GPU]) -> Profile:
    """The profile in `path`, strictly read and physically possible on its GPU, or `ProfileError`."""
    try:
        raw = _parse(path)
        profile = _profile(raw, gpus)
        if impossible := check(profile, gpus[profile.gpu]):
            raise ProfileError("\n".join(impossible))
    except ProfileError as error:
        raise ProfileError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None
    return profile


def check(profile: Profile, gpu: GPU) -> list[str]:
    """What cannot be in `profile` on `gpu`, one line each; empty when all is possible."""
    signs = _signs(profile)
    return signs or [*_rates(profile, gpu), *_falls(profile), *_sizes(profile, gpu)]


@dataclass(frozen=True, slots=True)
class Library:
    """All profiles found, at most one for each model, GPU and precision."""

    profiles: Mapping[tuple[str, str, str], Profile]
    """By model, GPU and precision."""
    paths: Mapping[tuple[str, str, str], Path] = field(default_factory=dict)
    """The file of each."""

    def measured(self, profile: Profile) -> Mapping[str, Any]:
        """Raw samples and all else that planning does not need; empty where the profile was not measured here."""
        path = self.paths.get((profile.model, profile.gpu, profile.precision))
        return read_measured(path) if path else {}

    def get(self, model: str, gpu: str, precision: str | None = None) -> Profile | None:
        """The profile of `model` on `gpu`; without a precision the first of `PRECISIONS` (fp32 first) there is."""
        wanted = PRECISIONS if precision is None else (precision,)
        return next((self.profiles[key] for p in wanted if (key := (model, gpu, p)) in self.profiles), None)

    def models(self) -> tuple[str, ...]:
        """Names of all models, sorted."""
        return tuple(sorted({model for model, _, _ in self.profiles}))

    def for_model(self, name: str) -> tuple[Profile, ...]:
        """All profiles of a model, by GPU, then in order of preference of precision."""
        found = (profile for (model, _, _), profile in self.profiles.items() if model == name)
        return tuple(sorted(found, key=lambda p: (p.gpu, PRECISIONS.index(p.precision))))


def find_profiles(directories: Sequence[Path], gpus: Mapping[str, GPU]) -> Library:
    """Profiles in `directories`, then the shipped ones; the first directory that has one wins."""
    found: dict[tuple[str, str, str], tuple[Path, Profile]] = {}
    for directory in (*directories, SHIPPED):
        found = _read_all(directory, gpus) | found
    return Library(
        {key: profile for key, (_, profile) in found.items()}, {key: path for key, (path, _) in found.items()}
    )


def find_kinds(directories: Sequence[Path]) -> dict[str, GPU]:
    """Measured devices as kinds of GPUs by name, in `directories`, then among the shipped; the first one wins."""
    found: dict[str, GPU] = {}
    for directory in (*directories, SHIPPED):
        found = _read_kinds(directory) | found
    return found


def read_kind(path: Path) -> GPU | None:
    """The device in `path` as a kind of GPU, strictly read; None where its figures are left to the catalog."""
    try:
        return _device(_parse(path, DEVICE_SCHEMA))
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}") from None


def read_measured(path: Path) -> Mapping[str, Any]:
    """What a profile's file holds under `measured`, as it stands there; empty where nothing does."""
    try:
        return _Reader(_parse(path)).part("measured")
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}") from None


def _files(directory: Path, pattern: str) -> list[Path]:
    if not directory.is_dir():
        raise ProfileError(f"{directory}: is not a directory. Name one that holds profiles as .json files")
    return sorted(directory.rglob(pattern))


def _read_kinds(directory: Path) -> dict[str, GPU]:
    found: dict[str, tuple[Path, GPU]] = {}
    errors = []
    for path in _files(directory, DEVICE_FILE):
        try:
            gpu = read_kind(path)
        except ProfileError as error:
            errors.append(str(error))
            continue
        if gpu is None:
            continue
        first, _ = found.setdefault(gpu.name, (path, gpu))
        if first != path:
            errors.append(f"{path}: name: {gpu.name} is also in {first}. Keep one of the two")
    if errors:
        raise ProfileError("\n".join(errors))
    return {name: gpu for name, (_, gpu) in found.items()}


def _read_all(directory: Path, gpus: Mapping[str, GPU]) -> dict[tuple[str, str, str], tuple[Path, Profile]]:
    paths = [path for path in _files(directory, "*.json") if path.name != DEVICE_FILE]
    if not paths:
        raise ProfileError(f"{directory}: holds no profile. Put .json files of schema {SCHEMA} there")
    found: dict[tuple[str, str, str], tuple[Path, Profile]] = {}
    errors = []
    for path in paths:
        try:
            profile = read_profile(path, gpus)
        except ProfileError as error:
            errors.append(str(error))
            continue
        first, _ = found.setdefault((profile.model, profile.gpu, profile.precision), (path, profile))
        if first != path:
            key = f"{profile.model} on {profile.gpu} at {profile.precision}"
            errors.append(f"{path}: model: {key} is also in {first}. Keep one of the two")
    if errors:
        raise ProfileError("\n".join(errors))
    return found


# Reading


def _parse(path: Path, schema: str = SCHEMA) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            _refuse("", f"is larger than {LARGEST_FILE_BYTES // 1_000_000} MB", "Write one profile per file")
        raw = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique, parse_constant=_not_finite)
    except OSError as error:
        _refuse("", f"cannot be read ({error.strerror})", "Name a file that exists and may be read")
    except UnicodeDecodeError:
        _refuse("", "is not UTF-8 text", "Save it as UTF-8")
    except json.JSONDecodeError as error:
        _refuse(f"line {error.lineno}, column {error.colno}", f"is not JSON ({error.msg})", "Correct it there")
    except RecursionError:
        _refuse("", "is nested too deeply", f"Write {WHAT[schema]} of schema {schema}")
    except ProfileError:
        raise
    except ValueError:
        _refuse("", "holds a number of too many digits", "Write an ordinary number")
    if not isinstance(raw, dict):
        _refuse("", f"must be a mapping, got {_kind(raw)}", f"Write {WHAT[schema]} of schema {schema}")
    return raw


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        _refuse(double, "is given twice", "Keep one")
    return mapping


def _not_finite(text: str) -> NoReturn:
    _refuse("", f"{text} is not a finite number", "Write a number, or leave the key out")


def _profile(raw: dict[str, Any], gpus: Mapping[str, GPU]) -> Profile:
    read = _Reader(raw)
    read.schema(SCHEMA)
    gpu = read.one_of("gpu", tuple(gpus))
    precision = read.one_of("precision", PRECISIONS)
    flops = read.optional("flops_per_sample")
    published = read.series("latency_s")
    latency, doubts = _raise_doubted(read, published, flops, gpus[gpu].peak_flops(precision))
    workspace = read.series("workspace_bytes")
    model = read.name("model")
    load = read.mapping("load")
    curve, quality = _fitted(read, published)
    if latency != published:  # a fit through points that are not believed is not believed either
        curve, quality = latency, None
    evidence = Evidence(read.one_of("latency_evidence", tuple(Evidence)))
    profile = Profile(
        model=model,
        gpu=gpu,
        precision=precision,
        layers=read.layers(model),
        latency=curve,
        latency_fit=quality,
        latency_cv=read.optional("latency_cv") or 0.0,
        workspace=workspace,
        load=LoadTime(load.number("t0_s"), load.number("bytes_per_s")),
        pageable_bytes_per_s=read.optional("pageable_bytes_per_s"),
        busy_w=read.optional("busy_w"),
        flops_per_sample=flops,
        output_bytes_per_sample=int(read.optional("output_bytes_per_sample") or 0),
        latency_evidence=Evidence.ASSUMED if latency != published else _of_all_batches(evidence, latency),
        memory_evidence=_of_all_batches(Evidence(read.one_of("memory_evidence", tuple(Evidence))), workspace),
        load_evidence=Evidence(read.one_of("load_evidence", tuple(Evidence))),
        source=read.text("source"),
        as_of=read.date("as_of"),
        assumptions=read.sentences("assumptions"),
        doubts=(*read.sentences("doubts"), *doubts, *_unseen(model, max(latency.x[0], workspace.x[0]))),
    )
    load.nothing_else()
    read.nothing_else()
    return profile


def _device(raw: dict[str, Any]) -> GPU | None:
    read = _Reader(raw, what=WHAT[DEVICE_SCHEMA])
    read.schema(DEVICE_SCHEMA)
    gpu = _gpu(read.mapping("gpu")) if read.part("gpu") else None
    read.part("provenance")
    read.part("probes")
    read.sentences("assumptions")
    read.sentences("doubts")
    read.nothing_else()
    return gpu


def _gpu(read: "_Reader") -> GPU:
    gpu = GPU(
        name=read.name("name"),
        memory_bytes=int(read.positive("memory_bytes")),
        memory_bytes_per_s=read.positive("memory_bytes_per_s"),
        fp32_flops=read.positive("fp32_flops"),
        tensor_fp16_flops=read.positive_or_none("tensor_fp16_flops"),
        tdp_w=read.not_negative("tdp_w"),
        idle_w=read.not_negative("idle_w"),
        pcie_bytes_per_s=read.positive("pcie_bytes_per_s"),
        nvlink_bytes_per_s=read.positive_or_none("nvlink_bytes_per_s"),
        compute_capability=read.text_or_empty("compute_capability"),
        source=read.text("source"),
    )
    # A device that does not tell its power has 0 for both.
    if gpu.idle_w > gpu.tdp_w:
        _refuse("gpu.idle_w", f"must not be above tdp_w, got {gpu.idle_w:g} and {gpu.tdp_w:g}", "Write both in watts")
    read.nothing_else()
    return gpu


def _fitted(read: "_Reader", points: Interpolated) -> tuple[Curve, FitQuality | None]:
    """The curve that `latency_fit` puts through the points, and how far it errs; without it lines between them."""
    if not read.part("latency_fit"):
        return points, None
    fit = read.mapping("latency_fit")
    form = fit.one_of("form", tuple(FORMS))
    quality = FitQuality(
        form=form,
        error_mean=fit.not_negative_or_none("error_mean"),
        error_max=fit.not_negative_or_none("error_max"),
        error_max_at=fit.positive_or_none("error_max_at"),
        band=fit.not_negative_or_none("band"),
    )
    curve = curve_of(form, points.x, points.y, _parameters(fit, form))
    fit.nothing_else()
    _agree(curve, quality)
    return curve, quality


def _parameters(fit: "_Reader", form: str) -> dict[str, float]:
    if not FORMS[form]:
        fit.part("parameters")
        return {}
    read = fit.mapping("parameters")
    values = {name: read.positive(name) if name == "p" else read.not_negative(name) for name in FORMS[form]}
    read.nothing_else()
    if not any(value for name, value in values.items() if name != "p"):
        _refuse("latency_fit.parameters", "are all 0", "Write what was fitted")
    return values


def _agree(curve: Curve, quality: FitQuality) -> None:
    """Refuses a fit that misses its points by more than it says: of other units, or made through other points."""
    if quality.form in THROUGH_POINTS:
        return
    if quality.error_max is None:
        _refuse("latency_fit.error_max", "is missing", "Say how far the fit errs at most")
    misses = {x: abs(curve(x) / y - 1) for x, y in zip(curve.x, curve.y, strict=True) if y > 0}
    at = max(misses, key=misses.__getitem__, default=0.0)
    if misses and not misses[at] <= quality.error_max + ROUNDING:
        _refuse(
            "latency_fit",
            f"says {curve(at) * 1e3:.3g} ms for batch {at:g}, off by {misses[at]:.1%} where error_max is"
            f" {quality.error_max:.1%}",
            "Fit it to these latency_s, or leave out latency_fit",
        )


def _raise_doubted(
    read: "_Reader", published: Interpolated, flops: float | None, peak_flops: float
) -> tuple[Interpolated, tuple[str, ...]]:
    """Points the file itself doubts, raised to the least time that the GPU's peak allows; and those doubts."""
    doubted = read.reasons("doubted")
    if not doubted:
        return published, ()
    if unknown := doubted.keys() - set(published.x):
        _refuse(f"doubted.{min(unknown):g}", "has no latency_s", "Name a batch size of latency_s")
    if flops is None:
        _refuse("doubted", "needs flops_per_sample to say what is possible", "Give flops_per_sample")
    least = {batch: flops * batch / peak_flops for batch in doubted}
    points = [(x, max(y, least.get(x, 0.0)), y) for x, y in zip(published.x, published.y, strict=True)]
    raised = {x: f"; {y * 1e3:.3g} ms, the least its GPU's peak allows, stands in" for x, y, low in points if y > low}
    remedy = f"; measure it: planner calibrate --device cuda:0 --models {read.name('model')}"
    doubts = (f"Batch {x:g}: {reason}{raised.get(x, '')}{remedy}" for x, reason in sorted(doubted.items()))
    return Interpolated(published.x, tuple(y for _, y, _ in points)), tuple(doubts)


def _of_all_batches(evidence: Evidence, series: Interpolated) -> Evidence:
    """Of batches that run part-filled too: below the first point, its figure stands in for theirs."""
    return evidence if series.covers(1) else weakest(evidence, Evidence.EXTRAPOLATED)


def _unseen(model: str, first: float) -> Sequence[str]:
    remedy = f"measure them: planner calibrate --device cuda:0 --models {model}"
    return (f"Batches below {first:g}: not measured, its figures stand in; {remedy}",) if first > 1 else ()


class _Reader:
    """Takes values out of a JSON mapping by key, each checked; what nobody took is refused at the end."""

    def __init__(self, raw: dict[str, Any], prefix: str = "", what: str = WHAT[SCHEMA]) -> None:
        self.raw = raw
        self.prefix = prefix
        self.what = what
        self.known: set[str] = set()

    def _take(self, key: str) -> Any:
        self.known.add(key)
        return self.raw.get(key)

    def _needed(self, key: str, kind: type, what: str) -> Any:
        value = self._take(key)
        if value is None:
            # A misspelt key explains the missing one better than its absence does.
            if close := get_close_matches(key, self.raw.keys() - self.known, n=1, cutoff=0.8):
                _refuse(self.prefix + close[0], f"is not a key of {self.what}", f"Did you mean {key}?")
            _refuse(self.prefix + key, "is missing", f"Write {what}")
        if not isinstance(value, kind):
            _refuse(self.prefix + key, f"must be {what}, got {_kind(value)}", f"Write {what}")
        return value

    def text(self, key: str) -> str:
        value: str = self._needed(key, str, "a text")
        if not value.strip():
            _refuse(self.prefix + key, "is empty", "Write a text")
        return value

    def text_or_empty(self, key: str) -> str:
        return "" if self._take(key) in (None, "") else self.text(key)

    def schema(self, known: str) -> None:
        if (schema := self.text("schema")) != known:
            _refuse("schema", f"{schema!r} is not known", f"Write {known}")

    def name(self, key: str) -> str:
        value = self.text(key)
        if not NAME.fullmatch(value):
            _refuse(
                self.prefix + key, f"{value!r} is not a name", "Write at most 64 letters, digits, and _ . - between"
            )
        return value

    def date(self, key: str) -> str:
        value = self.text(key)
        try:
            known = date.fromisoformat(value).isoformat() == value
        except ValueError:
            known = False
        if not known:
            _refuse(self.prefix + key, f"{value!r} is not a date", "Write it as 2026-07-20")
        return value

    def one_of(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in allowed:
            _refuse(self.prefix + key, f"{value!r} is not known", _instead(value, allowed))
        return value

    def number(self, key: str) -> float:
        return _finite(self.prefix + key, self._needed(key, object, "a number"))

    def optional(self, key: str) -> float | None:
        value = self._take(key)
        return None if value is None else _finite(self.prefix + key, value)

    def positive(self, key: str) -> float:
        if (value := self.number(key)) <= 0:
            _refuse(self.prefix + key, f"must be above 0, got {value:g}", "Write what was measured")
        return value

    def positive_or_none(self, key: str) -> float | None:
        return None if self._take(key) is None else self.positive(key)

    def not_negative(self, key: str) -> float:
        if (value := self.number(key)) < 0:
            _refuse(self.prefix + key, f"must not be below 0, got {value:g}", "Write what was measured")
        return value

    def not_negative_or_none(self, key: str) -> float | None:
        return None if self._take(key) is None else self.not_negative(key)

    def part(self, key: str) -> dict[str, Any]:
        """A mapping that planning does not look into; empty where there is none."""
        if self._take(key) is None:
            return {}
        inner: dict[str, Any] = self._needed(key, dict, "a mapping")
        return inner

    def mapping(self, key: str) -> "_Reader":
        return _Reader(self._needed(key, dict, "a mapping"), f"{self.prefix}{key}.", self.what)

    def series(self, key: str) -> Interpolated:
        """A cost by batch size, e.g. `{"1": 0.0084, "2": 0.0085}`."""
        points: dict[str, Any] = self._needed(key, dict, "a mapping of batch size to value")
        if not points:
            _refuse(self.prefix + key, "is empty", 'Write at least one point, e.g. {"1": 0.0084}')
        pairs = sorted(
            (_batch(f"{self.prefix}{key}.{b}", b), _finite(f"{self.prefix}{key}.{b}", y)) for b, y in points.items()
        )
        return Interpolated(tuple(float(b) for b, _ in pairs), tuple(y for _, y in pairs))

    def reasons(self, key: str) -> dict[float, str]:
        if self._take(key) is None:
            return {}
        inner = self.mapping(key)
        return {float(_batch(f"{inner.prefix}{batch}", batch)): inner.text(batch) for batch in inner.raw}

    def sentences(self, key: str) -> tuple[str, ...]:
        value = self._take(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(line, str) and line.strip() for line in value):
            _refuse(self.prefix + key, "must be a list of texts", 'Write e.g. ["Taken for a V100."]')
        return tuple(value)

    def layers(self, model: str) -> tuple[Layer, ...]:
        """Either `layers`, or `weight_bytes` as one layer that has the model's name."""
        listed = self._take("layers")
        whole = self.optional("weight_bytes")
        if (listed is None) == (whole is None):
            _refuse(
                "weight_bytes",
                "exactly one of weight_bytes and layers is needed",
                "Write weight_bytes if layers are unknown",
            )
        if whole is not None:
            return self._measured_layers(model, int(whole))
        if not isinstance(listed, list) or not listed:
            _refuse("layers", "must be a list of layers", 'Write e.g. [{"key": "conv1", "weight_bytes": 37632}]')
        return tuple(self._layer(f"layers[{i}]", entry) for i, entry in enumerate(listed))

    def _measured_layers(self, model: str, whole_bytes: int) -> tuple[Layer, ...]:
        """Those that measuring found to have weights, and one more for what they leave of `whole_bytes`."""
        listed = self.part("measured").get("layers") or []
        if not isinstance(listed, list):
            _refuse("measured.layers", f"must be a list of layers, got {_kind(listed)}", LEAVE)
        sizes = dict(self._measured_layer(f"measured.layers[{i}]", entry) for i, entry in enumerate(listed))
        layers = tuple(Layer(f"{model}/{name}", size) for name, size in sizes.items() if size)
        rest_bytes = whole_bytes - sum(layer.weight_bytes for layer in layers)
        if not layers or rest_bytes < 0:  # layers that share weights count them twice: which, the list does not say
            return (Layer(model, whole_bytes),)
        return (*layers, Layer(model, rest_bytes)) if rest_bytes else layers

    @staticmethod
    def _measured_layer(place: str, entry: object) -> tuple[str, int]:
        if not isinstance(entry, dict):
            _refuse(place, f"must be a mapping, got {_kind(entry)}", LEAVE)
        read = _Reader(entry, f"{place}.")
        return read.text("name"), int(read.not_negative("weight_bytes"))

    @staticmethod
    def _layer(place: str, entry: object) -> Layer:
        if not isinstance(entry, dict):
            _refuse(
                place, f"must be a mapping, got {_kind(entry)}", 'Write e.g. {"key": "conv1", "weight_bytes": 37632}'
            )
        read = _Reader(entry, f"{place}.")
        layer = Layer(read.text("key"), int(read.number("weight_bytes")))
        read.nothing_else()
        return layer

    def nothing_else(self) -> None:
        if unknown := sorted(self.raw.keys() - self.known):
            _refuse(self.prefix + unknown[0], f"is not a key of {self.what}", _instead(unknown[0], tuple(self.known)))


def _finite(place: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(place, f"must be a number, got {_kind(value)}", "Write a plain number in the unit the key names")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        _refuse(place, "is not a finite number", "Write a plain number in the unit the key names")
    return number


def _batch(place: str, text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,6}", text) or int(text) > LARGEST_BATCH:
        _refuse(place, f"{text!r} is not a batch size", f"Write a whole number from 1 to {LARGEST_BATCH}")
    return int(text)


def _refuse(key: str, wrong: str, way_out: str) -> NoReturn:
    # A key comes from the file and may hold line breaks; a message is one line.
    place = key if key.isprintable() else ascii(key)
    raise ProfileError(f"{place}: {wrong}. {way_out}" if key else f"{wrong}. {way_out}")


def _instead(value: str, allowed: Sequence[str]) -> str:
    close = [name for name in allowed if name.startswith(value)] or get_close_matches(value, allowed, n=1)
    return f"Did you mean {' or '.join(close)}?" if close else f"Write one of {', '.join(sorted(allowed))}"


def _kind(value: object) -> str:
    names = {bool: "a boolean", dict: "a mapping", list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(value), "a number")


# Checking


def _signs(profile: Profile) -> list[str]:
    above_zero = {
        **{f"latency_s.{x:g}": y for x, y in zip(profile.latency.x, profile.latency.y, strict=True)},
        "load.bytes_per_s": profile.load.bytes_per_s,
        "pageable_bytes_per_s": profile.pageable_bytes_per_s,
        "busy_w": profile.busy_w,
        "flops_per_sample": profile.flops_per_sample,
        **{f"weight_bytes of layer {layer.key!r}": layer.weight_bytes for layer in profile.layers},
    }
    not_below_zero = {
        **{f"workspace_bytes.{x:g}": y for x, y in zip(profile.workspace.x, profile.workspace.y, strict=True)},
        "load.t0_s": profile.load.t0_s,
        "latency_cv": profile.latency_cv,
        "output_bytes_per_sample": profile.output_bytes_per_sample,
    }
    return [
        *(
            f"{k}: must be above 0, got {v:g}. Write what was measured"
            for k, v in above_zero.items()
            if v is not None and v <= 0
        ),
        *(f"{k}: must not be below 0, got {v:g}. Write what was measured" for k, v in not_below_zero.items() if v < 0),
    ]


def _rates(profile: Profile, gpu: GPU) -> list[str]:
    """Rates above what the GPU can reach: arithmetic by batch, and the host link."""
    peak = gpu.peak_flops(profile.precision) * (1 + 1e-9)
    refused = [
        f"latency_s.{x:g}: {profile.flops_per_sample * x / y / 1e12:.1f} TFLOP/s is above the {peak / 1e12:.1f} a"
        f" {gpu.name} can reach at {profile.precision}. Time it with the device synchronised, or name the precision it"
        " ran at"
        for x, y in zip(profile.latency.x, profile.latency.y, strict=True)
        if profile.flops_per_sample and profile.flops_per_sample * x / y > peak
    ]
    links = {"load.bytes_per_s": profile.load.bytes_per_s, "pageable_bytes_per_s": profile.pageable_bytes_per_s}
    return refused + [
        f"{key}: {rate / 1e9:.1f} GB/s is above the {gpu.pcie_bytes_per_s / 1e9:g} GB/s of a {gpu.name}'s host link."
        " Time the copy until it has arrived"
        for key, rate in links.items()
        if rate and rate > gpu.pcie_bytes_per_s * (1 + 1e-9)
    ]


def _falls(profile: Profile) -> list[str]:
    """Costs that fall as the batch grows, by more than noise explains."""
    noise = max(NOISE, 3 * profile.latency_cv)
    return [
        *(
            f"latency_s.{x:g}: {y * 1e3:.3g} ms, but a smaller batch takes {top * 1e3:.3g} ms. Measure both again, with"
            " more repeats"
            for x, y, top in _below_earlier(profile.latency, noise)
        ),
        *(
            f"workspace_bytes.{x:g}: {y / 1e9:.3g} GB, but a smaller batch needs {top / 1e9:.3g} GB. Measure the peak"
            " of both in fresh processes"
            for x, y, top in _below_earlier(profile.workspace, NOISE)
        ),
    ]


def _below_earlier(curve: Curve, noise: float) -> list[tuple[float, float, float]]:
    """Points below the highest earlier one by more than `noise`, with that one."""
    tops = accumulate(curve.y, max)
    return [(x, y, top) for x, y, top in zip(curve.x, curve.y, tops, strict=True) if y < top * (1 - noise)]


def _sizes(profile: Profile, gpu: GPU) -> list[str]:
    """Bytes that the GPU cannot hold: what ran on it fitted whole; what is foretold may be split between layers."""
    ran = profile.latency_evidence.rank <= Evidence.FITTED.rank
    needed = profile.weight_bytes if ran else max(layer.weight_bytes for layer in profile.layers)
    if needed <= gpu.memory_bytes:
        return []
    what = "its weights are" if ran or len(profile.layers) == 1 else "its largest layer is"
    return [
        f"weight_bytes: {what} {needed / 1e9:.3g} GB, a {gpu.name} has {gpu.memory_bytes / 1e9:g} GB."
        " Name a GPU that can hold them, or list its layers with evidence weaker than fitted"
    ]
