"""Library: finds profiles and measured devices on disk, reads them strictly, and refuses what is not possible.

Needs no torch.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import product
from math import isclose, log, log1p, sqrt
from pathlib import Path
from typing import Any, TypeVar

from calibrate.io.reader import ProfileError, Reader, parse, refuse
from calibrate.layers.facts import known as models_with_layers
from calibrate.library.possible import check
from calibrate.library.published import profile_of, source_spread, sources_of
from calibrate.published.names import architecture, processors
from simulator.world.curves import FORMS, THROUGH_POINTS, Curve, Interpolated, LoadTime, curve_of
from simulator.world.hardware import GPU
from simulator.world.model import Layer
from simulator.world.profile import AfterLoad, Doubt, Evidence, FitQuality, Profile, weakest

SCHEMA = "planner.profile/v1"
DEVICE_SCHEMA = "planner.device/v1"
WHAT = {SCHEMA: "a profile", DEVICE_SCHEMA: "a device"}
DEVICE_FILE = "device.json"
"""Beside the profiles that were measured on it."""
SHIPPED = Path(__file__).parent.parent / "profiles"
PRECISIONS = ("fp32", "tf32", "torch", "amp", "amp-bf16", "fp16", "bf16", "int8")
"""In order of preference where a question names none: the precision that changes no result comes first."""
NAME_MAX = 64
"""Characters of a name."""
SPREAD_MIN = 0.05
"""Sources that differ by less agree: so much do runs of one source differ."""
SAME_WORK = 0.1
"""Operations counted by two tools differ by less (natural logarithm), those at two usual inputs by more."""
ROUNDING = 1e-3
"""Share by which a fit may miss its points beyond what it says, for figures are written with few digits."""


USUAL_RUNTIME = "pytorch"
"""Of profiles and questions that name none."""

ALIKE = ("torchscript", "torch-compile", "onnxruntime", "tensorflow", "mxnet", "paddle", "tensorflow-xla", "tvm")
"""Runtimes that stand in for the usual one, the likest first; engines such as TensorRT are the last resort."""

Key = tuple[str, str, str]
"""Model, GPU and precision of a profile."""
Probes = Mapping[str, Mapping[str, float]]
"""Figures by probe and name."""
K = TypeVar("K")
T = TypeVar("T")


def profile_name(model: str, input_shape: Sequence[int] = (), suffix: str = "") -> str:
    """The name that the profiles of a model go by, of at most 64 characters: those at the end.

    `input_shape`: one sample of a user's own model; the zoo's have theirs.

    >>> profile_name("my.package:factory", (3, 64, 64))
    'my.package.factory.3x64x64'
    """
    bare = re.sub(r"[^A-Za-z0-9_.-]", ".", model).lstrip("_.-")
    end = (f".{'x'.join(map(str, input_shape))}" if input_shape else "") + suffix
    return bare[-NAME_MAX + len(end) :].lstrip("_.-") + end


def profile_file(name: str, precision: str) -> str:
    """`resnet50.json`, `resnet50.448px.amp.json`."""
    return f"{name}.json" if precision == "fp32" else f"{name}.{precision}.json"


def read_profile(path: Path, gpus: Mapping[str, GPU]) -> Profile:
    """The profile in `path`, strictly read and physically possible on its GPU, or `ProfileError`."""
    with _named(path):
        raw = _parse(path)
    return checked_profile(raw, gpus, path)


def checked_profile(raw: dict[str, Any], gpus: Mapping[str, GPU], path: Path) -> Profile:
    """The same of JSON that errors name by `path`."""
    with _named(path):
        profile = _profile(raw, gpus)
    if impossible := check(profile, gpus[profile.gpu]):
        raise ProfileError("\n".join(f"{path}: {line}" for line in impossible))
    return profile


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """All profiles found, at most one for each model, GPU and precision, and beside them what was published."""

    profiles: Mapping[Key, Profile]
    paths: Mapping[Key, Path] = field(default_factory=dict)
    """The file of each."""
    gpus: Mapping[str, GPU] = field(default_factory=dict)
    """Kinds for which published figures count as well; empty: they do for none."""

    def measured(self, profile: Profile) -> Mapping[str, Any]:
        """Raw samples and all else that planning does not need; empty where the profile was not measured here."""
        for own in self.for_model(profile.model):
            key = (own.model, own.gpu, own.precision)
            same = key[1:] == (profile.gpu, profile.precision) and own.source == profile.source
            if same and (path := self.paths.get(key)):
                return read_measured(path)
        return {}

    def probes(self, gpu: str) -> Probes:
        """What was probed of a kind of GPU, beside the first profiles of it; empty where nothing was."""
        folders = dict.fromkeys(path.parent for (_, kind, _), path in self.paths.items() if kind == gpu)
        files = (folder / DEVICE_FILE for folder in folders)
        return next((read_probes(path) for path in files if path.exists()), {})

    def get(self, model: str, gpu: str, precision: str | None = None, runtime: str | None = None) -> Profile | None:
        """The best source of the model's architecture on `gpu`, whatever name the source has for it.

        Without a precision what was measured here comes first, then the first of `PRECISIONS` (fp32) there is. Without
        a runtime `USUAL_RUNTIME` counts, and another only where nothing else is known; with one, only what ran in it.
        """
        wanted = PRECISIONS if precision is None else (precision,)
        asked = runtime or USUAL_RUNTIME
        found = [sources[0] for one in wanted if (sources := self.sources(model, gpu, one, asked))]
        best = min(found, key=lambda profile: not _is_measured(profile), default=None)
        return best or (self._in_another(model, gpu, wanted) if runtime is None else None)

    def sources(self, model: str, gpu: str, precision: str, runtime: str) -> tuple[Profile, ...]:
        """All that is known of one thing, side by side: measured here, then most batch sizes, then the newest.

        The first says how far the others are from it, which is as much as its own figures are known.
        """
        key = (gpu, precision, runtime)
        own = [p for p in self.for_model(model) if (p.gpu, p.precision, p.runtime) == key]
        published = [profile] if (profile := self.published(model, *key)) else []
        alike = [profile for profile in published if not own or _same_work(profile, own[0])]
        distinct: list[Profile] = []
        for profile in sorted([*own, *alike], key=_merit):
            if not any(_is_copy(profile, other) for other in distinct):
                distinct.append(profile)
        if not distinct:
            return ()
        best, *others = (_named_as(model, profile) for profile in distinct)
        return (_doubted(best, others), *others)

    def _in_another(self, model: str, gpu: str, wanted: Sequence[str]) -> Profile | None:
        """A profile of another runtime, else published figures, with that doubt, where not even layers are known.

        Of a processor also where they are: nothing learnt on GPUs says how fast it is.
        """
        own = sorted({profile.runtime for profile in self.for_model(model)}, key=_likeness)
        published = sorted({runtime for _, _, runtime in sources_of(model)}, key=_likeness)
        if found := self._first(model, gpu, wanted, own):
            return found
        told = bool(own) or USUAL_RUNTIME in published or architecture(model) in models_with_layers()
        other = None if told and gpu not in processors() else self._first(model, gpu, wanted, published)
        return other and replace(other, doubts=(*other.doubts, _only_in(other)))

    def _first(self, model: str, gpu: str, wanted: Sequence[str], runtimes: Sequence[str]) -> Profile | None:
        found = (self.sources(model, gpu, precision, runtime) for precision, runtime in product(wanted, runtimes))
        return next((sources[0] for sources in found if sources), None)

    def published(self, model: str, gpu: str, precision: str, runtime: str) -> Profile | None:
        """What was published of the model's architecture; None where it is not enough for a profile."""
        return profile_of(model, self.gpus[gpu], precision, runtime) if gpu in self.gpus else None

    def published_of(self, model: str) -> tuple[Profile, ...]:
        """All that was published of a model's architecture, by GPU, precision and runtime."""
        keys = sorted(sources_of(model)) if self.gpus else []
        found = (self.published(model, *key) for key in keys)
        return tuple(profile for profile in found if profile)

    def models(self) -> tuple[str, ...]:
        """Names of all models with profiles of their own, sorted."""
        return tuple(sorted({model for model, _, _ in self.profiles}))

    def for_model(self, name: str) -> tuple[Profile, ...]:
        """All profiles of the model's architecture, by GPU, then by preference of precision, the best first."""
        wanted = architecture(name)
        found = (profile for profile in self.profiles.values() if architecture(profile.model) == wanted)
        return tuple(sorted(found, key=lambda p: (p.gpu, PRECISIONS.index(p.precision), _merit(p))))


def _merit(profile: Profile) -> tuple[int, int, int, str]:
    """Sorts the best source first; one that assumes what it was measured on comes last."""
    tier = 0 if _is_measured(profile) else 2 if profile.latency_evidence is Evidence.ASSUMED else 1
    newest = -date.fromisoformat(profile.as_of).toordinal()
    return (tier, -len(profile.latency.x), newest, profile.model)


def _is_measured(profile: Profile) -> bool:
    """Whether its times were measured by whoever plans."""
    return profile.latency_evidence in (Evidence.MEASURED, Evidence.ELSEWHERE, Evidence.FITTED)


def _is_copy(one: Profile, other: Profile) -> bool:
    """Whether both were read from one table: half of the figures of each are those of the other."""
    first, second = _series(one), _series(other)
    same = [batch for batch in first.keys() & second.keys() if isclose(first[batch], second[batch], rel_tol=ROUNDING)]
    return 2 * len(same) >= min(len(first), len(second))


def _same_work(one: Profile, other: Profile) -> bool:
    """Whether both take as many operations, as they do at one input; whatever is not known may be the same."""
    if not (one.flops_per_sample and other.flops_per_sample):
        return True
    return abs(log(one.flops_per_sample / other.flops_per_sample)) < SAME_WORK


def _named_as(model: str, profile: Profile) -> Profile:
    """The profile under the name that was asked for: two models of one architecture hold two sets of weights."""
    if profile.model == model:
        return profile
    renamed = {profile.model: model}
    layers = tuple(Layer(renamed.get(one.key, f"{model}: {one.key}"), one.weight_bytes) for one in profile.layers)
    return replace(profile, model=model, layers=layers)


def _doubted(best: Profile, others: Sequence[Profile]) -> Profile:
    """The best source, as sure as others agree with it.

    What was measured here is not doubted for what others saw, nor for a source that assumes its GPU.
    """
    compared = [other for other in others if other.latency_evidence is not Evidence.ASSUMED]
    spreads = [best.source_spread, *(source_spread(_series(best), _series(other)) for other in compared)]
    spread = max((one for one in spreads if one is not None), default=None)
    if compared:
        names = ", ".join(one.source for one in (best, *others))
        best = replace(best, doubts=(*best.doubts, f"Sources differ by up to {spread or 0:.0%}: {names}"))
    if spread is None or spread < SPREAD_MIN or _is_measured(best):
        return replace(best, source_spread=spread)
    # Of two draws from one distribution the difference has twice the variance of each.
    error_sd = Interpolated((1.0,), (log1p(spread) / sqrt(2),))
    return replace(best, source_spread=spread, doubt=Doubt(error_sd=error_sd))


def _series(profile: Profile) -> dict[float, float]:
    return dict(zip(profile.latency.x, profile.latency.y, strict=True))


def _likeness(runtime: str) -> tuple[int, str]:
    """Runtimes that behave most like the usual one first."""
    return (ALIKE.index(runtime) if runtime in ALIKE else len(ALIKE), runtime)


def _only_in(profile: Profile) -> str:
    only = f"These are figures of {profile.runtime}; of {USUAL_RUNTIME} nothing is known"
    return f"{only}; name `runtime: {profile.runtime}` if it runs so, or measure it"


def find_profiles(directories: Sequence[Path], gpus: Mapping[str, GPU]) -> Library:
    """Profiles in `directories`, then the shipped ones; the first directory that has one wins."""
    found: dict[Key, tuple[Path, Profile]] = {}
    for directory in (*directories, SHIPPED):
        found = _read_profiles(directory, gpus) | found
    profiles = {key: profile for key, (_, profile) in found.items()}
    return Library(profiles, {key: path for key, (path, _) in found.items()}, gpus)


def find_kinds(directories: Sequence[Path]) -> dict[str, GPU]:
    """Measured devices as kinds of GPUs by name, in `directories`, then among the shipped; the first one wins."""
    found: dict[str, GPU] = {}
    for directory in (*directories, SHIPPED):
        found = _read_kinds(directory) | found
    return found


def read_kind(path: Path) -> GPU | None:
    """The device in `path` as a kind of GPU, strictly read; None where its figures are left to the catalog."""
    with _named(path):
        return _device(_parse(path, DEVICE_SCHEMA))


def device_files(directories: Sequence[Path], kind: str | None = None) -> list[Mapping[str, Any]]:
    """What the files of measured devices hold, all or of one kind. ProfileError where there is none."""
    paths = [path for directory in directories for path in _files(directory, DEVICE_FILE)]
    of_name = {str(raw.get("gpu", {}).get("name")): raw for path in reversed(paths) if (raw := _checked(path))}
    found: list[Mapping[str, Any]] = [raw for name, raw in sorted(of_name.items()) if kind in (None, name)]
    if not found:
        known = f"Known are {', '.join(sorted(of_name))}" if of_name else "Measure one: planner calibrate"
        raise ProfileError(f"no device{f' `{kind}`' if kind else ''} was measured in --profiles. {known}.")
    return found


def _checked(path: Path) -> dict[str, Any]:
    with _named(path):
        raw = _parse(path, DEVICE_SCHEMA)
        _device(raw)
        return raw


def read_probes(path: Path) -> Probes:
    """Results of a device's probes: by probe, figures above 0 by name. ProfileError where the file is none."""
    with _named(path):
        probes = Reader(_parse(path, DEVICE_SCHEMA)).part("probes")
        return {name: Reader(probes, "probes.").figures(name) for name in probes}


def read_measured(path: Path) -> Mapping[str, Any]:
    """The mapping `measured` of a profile's file, as it stands there; empty where there is none."""
    with _named(path):
        return Reader(_parse(path)).part("measured")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors name the file."""
    try:
        yield
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}") from None


def _files(directory: Path, pattern: str) -> list[Path]:
    if not directory.is_dir():
        raise ProfileError(f"{directory}: is not a directory. Name one that holds profiles as .json files")
    return sorted(directory.rglob(pattern))


def _read_kinds(directory: Path) -> dict[str, GPU]:
    paths = _files(directory, DEVICE_FILE)
    found = _read_each(paths, read_kind, lambda gpu: gpu.name, lambda gpu: f"name: {gpu.name}")
    return {name: gpu for name, (_, gpu) in found.items()}


def _read_profiles(directory: Path, gpus: Mapping[str, GPU]) -> dict[Key, tuple[Path, Profile]]:
    paths = [path for path in _files(directory, "*.json") if path.name != DEVICE_FILE]
    if not paths:
        raise ProfileError(f"{directory}: holds no profile. Put .json files of schema {SCHEMA} there")
    return _read_each(
        paths,
        lambda path: read_profile(path, gpus),
        lambda profile: (profile.model, profile.gpu, profile.precision),
        lambda profile: f"model: {profile.model} on {profile.gpu} at {profile.precision}",
    )


def _read_each(
    paths: Iterable[Path], read: Callable[[Path], T | None], key: Callable[[T], K], described: Callable[[T], str]
) -> dict[K, tuple[Path, T]]:
    """The content of files by its key; ProfileError lists all that cannot be used, and all that are there twice."""
    found: dict[K, tuple[Path, T]] = {}
    errors = []
    for path in paths:
        try:
            content = read(path)
        except ProfileError as error:
            errors.append(str(error))
            continue
        if content is None:
            continue
        first, _ = found.setdefault(key(content), (path, content))
        if first != path:
            errors.append(f"{path}: {described(content)} is also in {first}. Keep one of the two")
    if errors:
        raise ProfileError("\n".join(errors))
    return found


# Reading


def _parse(path: Path, schema: str = SCHEMA) -> dict[str, Any]:
    return parse(path, f"{WHAT[schema]} of schema {schema}")


def _profile(raw: dict[str, Any], gpus: Mapping[str, GPU]) -> Profile:
    read = Reader(raw)
    read.schema(SCHEMA)
    gpu = read.one_of("gpu", tuple(gpus))
    precision = read.one_of("precision", PRECISIONS)
    flops = read.optional("flops_per_sample")
    published = read.series("latency_s")
    latency, doubts = _raise_doubted(read, published, flops, gpus[gpu].peak_flops(precision))
    tensors = read.series("workspace_bytes")
    slack = read.series_or_none("slack_bytes")
    workspace = _with(tensors, slack)
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
        runtime=read.text_or_empty("runtime") or USUAL_RUNTIME,
        layers=read.layers(model),
        latency=curve,
        latency_fit=quality,
        latency_cv=read.optional("latency_cv") or 0.0,
        session_cv=read.optional("session_cv") or 0.0,
        after_load=_after_load(read),
        beside_load=_beside_load(read),
        host_s=read.series_or_none("host_s"),
        busy_s=read.series_or_none("busy_s"),
        workspace=workspace,
        slack=slack,
        context_bytes=_whole(read.not_negative_or_none("context_bytes")),
        load=LoadTime(load.number("t0_s"), load.number("bytes_per_s")),
        pageable_bytes_per_s=read.optional("pageable_bytes_per_s"),
        disk_bytes_per_s=read.optional("disk_bytes_per_s"),
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


def _with(tensors: Interpolated, slack: Interpolated | None) -> Interpolated:
    """Workspace: tensors, and the allocator's slack on top."""
    if slack is None:
        return tensors
    return Interpolated(tensors.x, tuple(y + slack(x) for x, y in zip(tensors.x, tensors.y, strict=True)))


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _after_load(read: Reader) -> AfterLoad | None:
    if not read.part("after_load"):
        return None
    ratios = read.mapping("after_load")
    found = AfterLoad(batch_ratio=ratios.positive("batch_ratio"), load_ratio=ratios.positive("load_ratio"))
    ratios.nothing_else()
    return found


def _beside_load(read: Reader) -> float:
    ratio = read.optional("beside_load")
    if ratio is not None and not 1 <= ratio <= 2:
        refuse("beside_load", f"must be from 1 to 2, got {ratio:g}", "Write 2 where running at once gains nothing")
    return ratio or 1.0


def _device(raw: dict[str, Any]) -> GPU | None:
    read = Reader(raw, what=WHAT[DEVICE_SCHEMA])
    read.schema(DEVICE_SCHEMA)
    gpu = _gpu(read.mapping("gpu")) if read.part("gpu") else None
    read.part("provenance")
    read.part("probes")
    read.sentences("assumptions")
    read.sentences("doubts")
    read.nothing_else()
    return gpu


def _gpu(read: Reader) -> GPU:
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
        refuse("gpu.idle_w", f"must not be above tdp_w, got {gpu.idle_w:g} and {gpu.tdp_w:g}", "Write both in watts")
    read.nothing_else()
    return gpu


def _fitted(read: Reader, points: Interpolated) -> tuple[Curve, FitQuality | None]:
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


def _parameters(fit: Reader, form: str) -> dict[str, float]:
    if not FORMS[form]:
        fit.part("parameters")
        return {}
    read = fit.mapping("parameters")
    values = {name: read.positive(name) if name == "p" else read.not_negative(name) for name in FORMS[form]}
    read.nothing_else()
    if not any(value for name, value in values.items() if name != "p"):
        refuse("latency_fit.parameters", "are all 0", "Write what was fitted")
    return values


def _agree(curve: Curve, quality: FitQuality) -> None:
    """Refuses a fit that misses its points by more than it says: of other units, or made through other points."""
    if quality.form in THROUGH_POINTS:
        return
    if quality.error_max is None:
        refuse("latency_fit.error_max", "is missing", "Say how far the fit errs at most")
    misses = {x: abs(curve(x) / y - 1) for x, y in zip(curve.x, curve.y, strict=True) if y > 0}
    at = max(misses, key=misses.__getitem__, default=0.0)
    if misses and not misses[at] <= quality.error_max + ROUNDING:
        refuse(
            "latency_fit",
            f"says {curve(at) * 1e3:.3g} ms for batch {at:g}, off by {misses[at]:.1%} where error_max is"
            f" {quality.error_max:.1%}",
            "Fit it to these latency_s, or leave out latency_fit",
        )


def _raise_doubted(
    read: Reader, published: Interpolated, flops: float | None, peak_flops: float
) -> tuple[Interpolated, tuple[str, ...]]:
    """Points the file itself doubts, raised to the least time that the GPU's peak allows; and those doubts."""
    doubted = read.reasons("doubted")
    if not doubted:
        return published, ()
    if unknown := doubted.keys() - set(published.x):
        refuse(f"doubted.{min(unknown):g}", "has no latency_s", "Name a batch size of latency_s")
    if flops is None:
        refuse("doubted", "needs flops_per_sample to say what is possible", "Give flops_per_sample")
    remedy = f"measure it: planner calibrate --device cuda:0 --models {read.name('model')}"
    times_s = dict(zip(published.x, published.y, strict=True))
    doubts = []
    for batch, reason in sorted(doubted.items()):
        parts = [f"Batch {batch:g}: {reason}", remedy]
        least_s = flops * batch / peak_flops
        if times_s[batch] < least_s:
            times_s[batch] = least_s
            parts.insert(1, f"{least_s * 1e3:.3g} ms, the least its GPU's peak allows, stands in")
        doubts.append("; ".join(parts))
    return Interpolated(published.x, tuple(times_s.values())), tuple(doubts)


def _of_all_batches(evidence: Evidence, series: Interpolated) -> Evidence:
    """Evidence for batches that run part-filled too: below the first point, its figure stands in for theirs."""
    return evidence if series.covers(1) else weakest(evidence, Evidence.EXTRAPOLATED)


def _unseen(model: str, first: float) -> Sequence[str]:
    remedy = f"measure them: planner calibrate --device cuda:0 --models {model}"
    return (f"Batches below {first:g}: not measured, its figures stand in; {remedy}",) if first > 1 else ()
