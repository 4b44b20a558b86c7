"""Library: finds profiles and measured devices on disk, reads them strictly, and refuses what is not possible.

Needs no torch.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from itertools import product
from math import isclose
from pathlib import Path
from typing import Any, TypeVar

from calibrate.io.reader import ProfileError, Reader
from calibrate.layers.facts import known as models_with_layers
from calibrate.library.held import counts_of, held_evidence
from calibrate.library.memory import room_of_counts, same_work
from calibrate.library.possible import beyond_bandwidth, beyond_peak, check
from calibrate.library.published import profile_of, source_spread, sources_of
from calibrate.library.reading import (
    DEVICE_SCHEMA,
    PRECISIONS,
    QUANTIZED,
    ROUNDING,
    SCHEMA,
    USUAL_RUNTIME,
    device_from,
    parsed_json,
    probes_evidence,
    profile_from,
)
from calibrate.published.names import architecture, facts_of, of_profile, processors, usual_input
from calibrate.published.runtimes import usual
from simulator.world.curves import Interpolated
from simulator.world.hardware import GPU
from simulator.world.model import Layer
from simulator.world.profile import Evidence, Profile

DEVICE_FILE = "device.json"
"""Beside the profiles that were measured on it."""
SHIPPED = Path(__file__).parent.parent / "profiles"
ALIKE = ("torchscript", "torch-compile", "onnxruntime", "tensorflow", "mxnet", "paddle", "tensorflow-xla", "tvm")
"""Runtimes that stand in for the usual one, the likest first; engines such as TensorRT are the last resort."""
Key = tuple[str, str, str]
"""Model, GPU and precision of a profile."""
Probes = Mapping[str, Mapping[str, float]]
"""Figures by probe and name."""
K = TypeVar("K")
T = TypeVar("T")


def profile_file(name: str, precision: str) -> str:
    """`resnet50.json`, `resnet50.448px.amp.json`."""
    return f"{name}.json" if precision == "fp32" else f"{name}.{precision}.json"


def read_profile(path: Path, gpus: Mapping[str, GPU]) -> Profile:
    """The profile in `path`, strictly read and physically possible on its GPU, or `ProfileError`."""
    with _named(path):
        raw = parsed_json(path)
    return checked_profile(raw, gpus, path)


def checked_profile(raw: dict[str, Any], gpus: Mapping[str, GPU], path: Path) -> Profile:
    """The same of JSON that errors name by `path`."""
    with _named(path):
        profile = profile_from(raw, gpus)
    if impossible := check(profile, gpus[profile.gpu]):
        raise ProfileError("\n".join(f"{path}: {line}" for line in impossible))
    doubts = beyond_bandwidth(profile, gpus[profile.gpu])
    if profile.flops_per_sample is None:
        doubts += beyond_peak(profile, gpus[profile.gpu], _known_flops(profile.model))
    return replace(profile, doubts=(*profile.doubts, *doubts))


def _known_flops(model: str) -> float:
    """Operations of a sample of the network of that name at its usual input; 0: not known."""
    known = facts_of(architecture(model), usual_input(architecture(model)))
    return 2 * (known.macs or 0.0) if known else 0.0


ROOMIER = "Its layers need more workspace than was assumed: what they need counts."


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """All profiles found, at most one for each model, GPU and precision, and beside them what was published."""

    profiles: Mapping[Key, Profile]
    paths: Mapping[Key, Path] = field(default_factory=dict)
    """The file of each."""
    gpus: Mapping[str, GPU] = field(default_factory=dict)
    """Kinds for which published figures count as well; empty: they do for none."""
    host_s: Mapping[str, float] = field(default_factory=dict)
    """Times of usual work of a core, by its key: the slowest of one's own machines."""

    def measured(self, profile: Profile) -> Mapping[str, Any]:
        """Raw samples and all else that planning does not need; empty where the profile was not measured here."""
        for own in self.for_model(profile.model):
            key = (own.model, own.gpu, own.precision)
            same = key[1:] == (profile.gpu, profile.precision) and own.source == profile.source
            if same and (path := self.paths.get(key)):
                with _named(path):
                    return Reader(parsed_json(path)).part("measured")
        return {}

    def probes(self, gpu: str) -> Probes:
        """What was probed of a kind of GPU, beside the first profiles of it; empty where nothing was."""
        folders = dict.fromkeys(path.parent for (_, kind, _), path in self.paths.items() if kind == gpu)
        files = (folder / DEVICE_FILE for folder in folders)
        return next((read_probes(path) for path in files if path.exists()), {})

    def get(self, model: str, gpu: str, precision: str | None = None, runtime: str | None = None) -> Profile | None:
        """The best source of the model's architecture on `gpu`, whatever name the source has for it.

        Without a precision what was measured here comes first, then the first of `PRECISIONS` (fp32) there is; int8,
        which takes another model, a quantized one, only where a profile has it, not by published figures alone.
        Without a runtime `USUAL_RUNTIME` counts, or what runs at that precision, and another only where nothing else is
        known; with one, only what ran in it.
        """
        wanted = self._unasked(model, gpu, runtime) if precision is None else (precision,)
        ways = (runtime,) if runtime else dict.fromkeys((USUAL_RUNTIME, usual(precision)))
        found = [sources[0] for one, way in product(wanted, ways) if (sources := self.sources(model, gpu, one, way))]
        best = min(found, key=lambda profile: not is_measured(profile), default=None)
        return best or (self._in_another(model, gpu, wanted) if runtime is None else None)

    def _unasked(self, model: str, gpu: str, runtime: str | None) -> tuple[str, ...]:
        """Precisions that count where none is named."""
        quantized = [p for p in self.for_model(model) if (p.gpu, p.precision) == (gpu, QUANTIZED)]
        is_quantized = any(runtime in (None, p.runtime) for p in quantized)
        return PRECISIONS if is_quantized else tuple(one for one in PRECISIONS if one != QUANTIZED)

    def sources(self, model: str, gpu: str, precision: str, runtime: str) -> tuple[Profile, ...]:
        """All that is known of one thing, side by side: measured here, then most batch sizes, then the newest.

        The first says how far the others are from it, which is as much as its own figures are known.
        """
        key = (gpu, precision, runtime)
        own = [self.roomy(p) for p in self.for_model(model) if (p.gpu, p.precision, p.runtime) == key]
        published = [profile] if (profile := self.published(model, *key)) else []
        alike = [
            profile for profile in published if not own or same_work(profile.flops_per_sample, own[0].flops_per_sample)
        ]
        distinct: list[Profile] = []
        for profile in sorted([*own, *alike], key=_merit):
            if not any(_is_copy(profile, other) for other in distinct):
                distinct.append(profile)
        if not distinct:
            return ()
        best, *others = (_named_as(model, profile) for profile in distinct)
        return (_compared(best, others), *others)

    def _in_another(self, model: str, gpu: str, wanted: Sequence[str]) -> Profile | None:
        """A profile of another runtime, else published figures, with that doubt, where not even layers are known.

        Of a processor also where they are: nothing learnt on GPUs says how fast it is.
        """
        own = sorted({profile.runtime for profile in self.for_model(model)}, key=_likeness)
        published = sorted({runtime for _, _, runtime in sources_of(model)}, key=_likeness)
        if found := self._first(model, gpu, wanted, own):
            return found
        predictable = bool(own) or USUAL_RUNTIME in published or architecture(model) in models_with_layers()
        other = None if predictable and gpu not in processors() else self._first(model, gpu, wanted, published)
        if other is None:
            return None
        only = f"These are figures of {other.runtime}; of {USUAL_RUNTIME} nothing is known"
        remedy = f"name `runtime: {other.runtime}` if it runs so, or measure it"
        return replace(other, doubts=(*other.doubts, f"{only}; {remedy}"))

    def _first(self, model: str, gpu: str, wanted: Sequence[str], runtimes: Sequence[str]) -> Profile | None:
        found = (self.sources(model, gpu, precision, runtime) for precision, runtime in product(wanted, runtimes))
        return next((sources[0] for sources in found if sources), None)

    def published(self, model: str, gpu: str, precision: str, runtime: str) -> Profile | None:
        """What was published of the model's architecture; None where it is not enough for a profile."""
        known = self.for_model(model)
        return profile_of(model, self.gpus[gpu], precision, runtime, known, self.gpus) if gpu in self.gpus else None

    def roomy(self, profile: Profile) -> Profile:
        """A profile whose memory was only assumed, with no less than is predicted of it in the usual runtime."""
        counts = counts_of(profile.model)
        is_known = counts is not None and profile.gpu in self.gpus and profile.runtime == USUAL_RUNTIME
        if counts is None or not is_known or profile.memory_evidence is not Evidence.ASSUMED:
            return profile
        known = self.for_model(profile.model)
        room = room_of_counts(counts, self.gpus[profile.gpu], profile.precision, known, self.gpus)
        x, y = profile.workspace.x, profile.workspace.y
        workspace = Interpolated(x, tuple(max(size, room(batch).reserved) for batch, size in zip(x, y, strict=True)))
        held = replace(profile, workspace=workspace, memory_evidence=held_evidence(architecture(profile.model)))
        return held if workspace.y == y else replace(held, assumptions=(*held.assumptions, ROOMIER))

    def published_of(self, model: str, gpus: Collection[str] | None = None) -> tuple[Profile, ...]:
        """All that was published of a model's architecture, by GPU, precision and runtime; on some GPUs, or on any."""
        keys = sorted(sources_of(model)) if self.gpus else []
        found = (self.published(model, *key) for key in keys if gpus is None or key[0] in gpus)
        return tuple(profile for profile in found if profile)

    def models(self) -> tuple[str, ...]:
        """Names of all models with profiles of their own, sorted."""
        return tuple(sorted({model for model, _, _ in self.profiles}))

    def for_model(self, name: str) -> tuple[Profile, ...]:
        """All profiles of the model's architecture, by GPU, then by preference of precision, the best first."""
        return _of_architecture(self, of_profile(name))


@lru_cache(maxsize=1024)
def _of_architecture(library: Library, wanted: str) -> tuple[Profile, ...]:
    """Its profiles of an architecture: a search asks for them at every GPU, precision and runtime."""
    found = (profile for profile in library.profiles.values() if of_profile(profile.model) == wanted)
    return tuple(sorted(found, key=lambda p: (p.gpu, PRECISIONS.index(p.precision), _merit(p))))


def _merit(profile: Profile) -> tuple[int, int, int, str]:
    """Sorts the best source first; one that assumes what it was measured on comes last."""
    tier = 0 if is_measured(profile) else 2 if profile.latency_evidence is Evidence.ASSUMED else 1
    newest = -date.fromisoformat(profile.as_of).toordinal()
    return (tier, -len(profile.latency.x), newest, profile.model)


def is_measured(profile: Profile) -> bool:
    """Whether its times were measured by whoever plans."""
    return profile.latency_evidence in (Evidence.MEASURED, Evidence.ELSEWHERE, Evidence.FITTED)


def _is_copy(one: Profile, other: Profile) -> bool:
    """Whether both were read from one table: half of the figures of each are those of the other."""
    first, second = _series(one), _series(other)
    same = [batch for batch in first.keys() & second.keys() if isclose(first[batch], second[batch], rel_tol=ROUNDING)]
    return 2 * len(same) >= min(len(first), len(second))


def _named_as(model: str, profile: Profile) -> Profile:
    """The profile under the name that was asked for: two models of one architecture hold two sets of weights."""
    if profile.model == model:
        return profile
    renamed = {profile.model: model}
    layers = tuple(Layer(renamed.get(one.key, f"{model}: {one.key}"), one.weight_bytes) for one in profile.layers)
    return replace(profile, model=model, layers=layers)


def _compared(best: Profile, others: Sequence[Profile]) -> Profile:
    """The best source, with how far others are from it; not one that assumes its GPU."""
    compared = [other for other in others if other.latency_evidence is not Evidence.ASSUMED]
    spreads = [best.source_spread, *(source_spread(_series(best), _series(other)) for other in compared)]
    spread = max((one for one in spreads if one is not None), default=None)
    if compared:
        names = ", ".join(one.source for one in (best, *others))
        best = replace(best, doubts=(*best.doubts, f"Sources differ by up to {spread or 0:.0%}: {names}"))
    return replace(best, source_spread=spread)


def _series(profile: Profile) -> dict[float, float]:
    return dict(zip(profile.latency.x, profile.latency.y, strict=True))


def _likeness(runtime: str) -> tuple[int, str]:
    """Runtimes that behave most like the usual one first."""
    return (ALIKE.index(runtime) if runtime in ALIKE else len(ALIKE), runtime)


def find_profiles(directories: Sequence[Path], gpus: Mapping[str, GPU]) -> Library:
    """Profiles in `directories`, then the shipped ones; the first directory that has one wins."""
    found: dict[Key, tuple[Path, Profile]] = {}
    for directory in directories:
        found = _read_profiles(directory, gpus) | found
    found = _shipped_profiles(tuple(gpus.items())) | found
    profiles = {key: profile for key, (_, profile) in found.items()}
    return Library(profiles, {key: path for key, (path, _) in found.items()}, gpus, _host_times_s(directories))


def _host_times_s(directories: Sequence[Path]) -> dict[str, float]:
    files = [path for directory in directories for path in _files(directory, DEVICE_FILE)]
    found: dict[str, float] = {}
    for path in files:
        for key, time_s in read_probes(path).get("host", {}).items():
            found[key] = max(time_s, found.get(key, 0.0))
    return found


def find_kinds(directories: Sequence[Path]) -> dict[str, GPU]:
    """Measured devices as kinds of GPUs by name, in `directories`, then among the shipped; the first one wins."""
    found: dict[str, GPU] = {}
    for directory in (*directories, SHIPPED):
        paths = _files(directory, DEVICE_FILE)
        each = _read_each(paths, read_kind, lambda gpu: gpu.name, lambda gpu: f"name: {gpu.name}")
        found = {name: gpu for name, (_, gpu) in each.items()} | found
    return found


def read_kind(path: Path) -> GPU | None:
    """The device in `path` as a kind of GPU, strictly read; None where its figures are left to the catalog."""
    with _named(path):
        return device_from(parsed_json(path, DEVICE_SCHEMA))


def device_files(directories: Sequence[Path], kind: str | None = None) -> list[Mapping[str, Any]]:
    """What the files of measured devices hold, all or of one kind; the shipped ones where `directories` hold none.

    ProfileError where there is none.
    """
    own = [path for directory in directories for path in _files(directory, DEVICE_FILE)]
    shipped = _files(SHIPPED, DEVICE_FILE)
    paths = [*own, *shipped] if kind else own or shipped
    of_name: dict[str, Mapping[str, Any]] = {}
    for path in reversed(paths):
        with _named(path):
            raw = parsed_json(path, DEVICE_SCHEMA)
            device_from(raw)
        of_name[str(raw.get("gpu", {}).get("name"))] = raw
    found: list[Mapping[str, Any]] = [raw for name, raw in sorted(of_name.items()) if kind in (None, name)]
    if not found:
        known = ", ".join(sorted(of_name))
        raise ProfileError(f"no device `{kind}` was measured. Known are {known}. Measure one: planner calibrate.")
    return found


def read_probes(path: Path) -> Probes:
    """Results of a device's probes: by probe, figures above 0 by name. ProfileError where the file is none."""
    with _named(path):
        probes = Reader(parsed_json(path, DEVICE_SCHEMA)).part("probes")
        return {name: Reader(probes, "probes.").figures(name) for name in probes}


def read_evidence(path: Path) -> Evidence:
    """How the results of a device's probes are known."""
    with _named(path):
        return probes_evidence(Reader(parsed_json(path, DEVICE_SCHEMA)))


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


@lru_cache(maxsize=8)
def _shipped_profiles(gpus: tuple[tuple[str, GPU], ...]) -> dict[Key, tuple[Path, Profile]]:
    """What is shipped does not change while the program runs."""
    return _read_profiles(SHIPPED, dict(gpus))


def _read_profiles(directory: Path, gpus: Mapping[str, GPU]) -> dict[Key, tuple[Path, Profile]]:
    files = _files(directory, "*.json")
    paths = [path for path in files if path.name != DEVICE_FILE]
    if not files:
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
