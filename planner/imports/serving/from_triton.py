"""A scenario made of a Triton model repository: which models, how they are batched, what they weigh on disk.

The repository says neither how often each model is asked nor its SLO: whoever imports it says that.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from calibrate.io.reader import NAME
from calibrate.library.lookup import Library
from calibrate.library.reading import PRECISIONS
from calibrate.published.names import precision as named
from calibrate.published.names import runtimes
from planner.imports.serving.found import TENSORRT, TODO, Found, FoundModel, FoundStream, scenario_name
from planner.imports.serving.scenario_text import Import, is_known, wait
from planner.imports.serving.triton_config import TritonConfig, read_config
from planner.show.document import Column, Rows
from planner.units.reading import Quantity, did_you_mean, duration, rate
from planner.units.writing import names
from simulator.errors import InputError
from simulator.near import known_ones

CONFIG = "config.pbtxt"
NOTE_BYTES = 4096
"""Smaller files are notes and placeholders, not models."""
BACKENDS = {TENSORRT: TENSORRT, "onnxruntime": "onnxruntime", "pytorch": "pytorch", "tensorflow": "tensorflow"}
"""The software by the beginning of a backend's name, or of a platform's: `tensorrt_plan`, `pytorch_libtorch`."""
FILES = {
    "model.onnx": "onnxruntime",
    "model.plan": "tensorrt",
    "model.pt": "pytorch",
    "model.savedmodel": "tensorflow",
    "model.graphdef": "tensorflow",
    "model.xml": "openvino",
    "model.py": "python",
}
"""Backends by the files that Triton looks for."""
TOKENS = ("vllm", "tensorrtllm")
"""Backends that generate tokens."""
CODE = ("python",)
"""Backends whose model files are code: their size says nothing of the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonModel:
    """A model that Triton serves on GPUs."""

    name: str
    """The scenario's name for it."""
    config: TritonConfig
    weights_bytes: int | None
    """Size of its newest version's files on disk: an estimate, evidence `assumed`. None where there is none to see."""
    version: int | None
    file: str = ""
    """`onnx:repository/detector/1/model.onnx`, where that is there."""

    @property
    def profile(self) -> str:
        """Profile it uses: what its parameters say, as an exported plan writes them; else its name."""
        noted = self.config.parameters.get("profile", "")
        return noted if NAME.fullmatch(noted) else self.name

    @property
    def input(self) -> tuple[int, ...]:
        """(3, 224, 224) where all its inputs have one fixed size, as tokens and their mask have; empty elsewhere."""
        sizes = {one.sides for one in self.config.inputs}
        sides = sizes.pop() if len(sizes) == 1 else ()
        return sides if min(sides, default=0) > 0 else ()

    @property
    def precision(self) -> str:
        """Precision that its parameters ask of profiles, or TensorRT is told; empty where neither says."""
        told = self.config.accelerators.get(TENSORRT, {}).get("precision_mode", "")
        noted = named(self.config.parameters.get("precision", told))
        return noted if noted in PRECISIONS else ""

    @property
    def runtime(self) -> str:
        """That of its parameters, as an exported plan writes them, else of its backend; empty of other backends."""
        noted = self.config.parameters.get("runtime", "")
        if noted or "profile" in self.config.parameters:
            return noted if noted in runtimes() else ""
        if TENSORRT in self.config.accelerators:
            return TENSORRT
        return next((name for start, name in BACKENDS.items() if self.config.backend.startswith(start)), "")


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Models that a request passes through."""

    name: str
    steps: tuple[str, ...]
    """Models by their names in the scenario; one that is asked twice stands twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Contents of a model repository."""

    path: Path
    models: tuple[TritonModel, ...]
    ensembles: tuple[Ensemble, ...]
    left_out: tuple[str, ...]
    """Folders that are not imported, each with its reason, without its full stop."""
    warnings: tuple[str, ...]
    """Properties that a scenario cannot hold, likewise."""


def read_repository(path: Path) -> Repository:
    """All models of a repository; InputError where it holds none that GPUs serve."""
    if not path.is_dir():
        raise InputError(f"{path}: is no directory. Name the one that `tritonserver --model-repository` gets.")
    if (path / CONFIG).exists():
        raise InputError(f"{path}: is one model. Name the directory above it.")
    models: list[TritonModel] = []
    left_out: list[str] = []
    ensembles: list[Ensemble] = []
    for folder in sorted(path.glob("[!.]*/")):
        match read_model(folder):
            case str() as reason:
                left_out.append(reason)
            case Ensemble() as ensemble:
                ensembles.append(ensemble)
            case model:
                models.append(model)
    if not models:
        apart = [*left_out, *(f"{one.name}: is an ensemble" for one in ensembles)]
        raise InputError(f"{path}: holds no model that GPUs serve. {why_none(path, apart)}")
    counts = Counter(model.name for model in models)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise InputError(f"{path}: {', '.join(twice)}: several models would get this name. Rename one.")
    chained = tuple(
        f"{one.name}: is an ensemble, which asks {names(one.steps, 8)} one after another; each has an SLO of its own"
        for one in ensembles
    )
    return Repository(
        path=path,
        models=tuple(models),
        ensembles=tuple(ensembles),
        left_out=tuple(left_out),
        warnings=(*warnings_of(models), *chained),
    )


def why_none(path: Path, left_out: Sequence[str]) -> str:
    """The error of a directory without models: often it is the one above the repository."""
    if repositories := sorted({config.parent.parent.name for config in path.glob(f"[!.]*/*/{CONFIG}")}):
        return f"Name the repository in it: {' or '.join(str(path / name) for name in repositories[:3])}."
    if not left_out:
        return f"Each model is a directory with a {CONFIG}."
    more = f" And {len(left_out) - 3} more." if len(left_out) > 3 else ""
    return f"Left out: {' '.join(f'{reason}.' for reason in left_out[:3])}{more}"


def read_model(folder: Path) -> "TritonModel | Ensemble | str":
    """One model, or why it is left out."""
    if not (folder / CONFIG).exists():
        return f"{folder.name}: has no {CONFIG}. Triton may do without, this import does not: write one"
    config = read_config(folder / CONFIG)
    if config.name not in ("", folder.name):
        where = f"{folder / CONFIG}: `name` must be `{folder.name}`, as its directory is called, got `{config.name}`"
        raise InputError(f"{where}. Mend the file.")
    if config.ensemble:
        return Ensemble(folder.name, tuple(map(scenario_name, filter(None, config.steps))))
    if config.backend in TOKENS:
        return f"{folder.name}: generates tokens, which this import does not read"
    if {group.kind for group in config.groups} == {"KIND_CPU"}:
        return f"{folder.name}: runs on processors only, and plans are about GPUs"
    version = newest(folder, config)
    config = config if config.backend else replace(config, backend=completed(folder / str(version)))
    size = None if config.backend in CODE else size_bytes(folder, version)
    graph = folder / str(version) / "model.onnx"
    return TritonModel(
        name=scenario_name(folder.name),
        config=config,
        weights_bytes=size,
        version=version,
        file=f"onnx:{graph}" if "onnx" in config.backend and graph.is_file() else "",
    )


def completed(version: Path) -> str:
    """The backend that Triton itself takes by the model's file, where its configuration names none; else empty."""
    return next((backend for name, backend in FILES.items() if (version / name).exists()), "")


def newest(folder: Path, config: TritonConfig) -> int | None:
    """Number of the newest version that is served; directories whose names begin with 0 are none."""
    there = [int(p.name) for p in folder.iterdir() if p.is_dir() and re.fullmatch(r"[1-9]\d{0,17}", p.name)]
    served = [n for n in there if n in config.versions] if isinstance(config.versions, tuple) else there
    return max(served, default=None)


def size_bytes(folder: Path, version: int | None) -> int | None:
    """Size of all files of a version, links followed to files but not to folders; None where there are none to see."""
    if version is None:
        return None
    sizes = [path.stat().st_size for path in (folder / str(version)).rglob("*") if path.is_file()]
    return sum(size for size in sizes if size >= NOTE_BYTES) or None


def warnings_of(models: Sequence[TritonModel]) -> Iterator[str]:
    """Properties of the repository that a scenario cannot hold."""
    kinds: Mapping[str, Callable[[TritonConfig], bool]] = {
        "sequence batching keeps a sequence on one instance, which is not simulated": lambda config: config.stateful,
        "rate limiters are not simulated": lambda config: any(group.rate_limited for group in config.groups),
        "without dynamic batching in Triton, a plan gathers batches all the same": lambda config: (
            not (config.dynamic or config.stateful)
        ),
    }
    for text, applies in kinds.items():
        if concerned := [model.name for model in models if applies(model.config)]:
            yield f"{text}: {names(concerned)}"
    if batched := [f"{m.name} {m.config.max_batch_size}" for m in models if m.config.max_batch_size > 1]:
        yield f"max_batch_size is no limit of a plan, which batches up to what was measured: {names(batched)}"


@dataclass(frozen=True, slots=True)
class ImportWishes:
    """Rate and latency of each model by the options, in people's units."""

    rates: Mapping[str, str]
    latencies: Mapping[str, str]


def wishes(repository: Repository, rates: Sequence[str], latencies: Sequence[str]) -> ImportWishes:
    """`10 rps` for every model, `resnet50=10 rps` for one; the latter count more, and what ensembles ask is added."""
    own, asked = step_rates(repository, rates)
    of_all, of_one = ([text for text in own if ("=" in text) is named] for named in (False, True))
    by_all, by_one = (by_model(repository, "--rate", rate, some) for some in (of_all, of_one))
    of_steps = {
        step: f"{found + (rate(by_one[step]) if step in by_one else 0.0):.12g} rps" for step, found in asked.items()
    }
    return ImportWishes({**by_all, **by_one, **of_steps}, by_model(repository, "--slo", duration, latencies))


def step_rates(repository: Repository, texts: Sequence[str]) -> tuple[list[str], dict[str, float]]:
    """Rates that are none of an ensemble, and requests per second of each model by ensembles, together."""
    steps = {one.name: one.steps for one in repository.ensembles}
    served = {model.name for model in repository.models}
    own: list[str] = []
    asked: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or name not in steps:
            own.append(text)
            continue
        try:
            requests_rps = rate(value)
        except ValueError as error:
            raise InputError(f"--rate {text}: {error}") from None
        for step, times in _models_of(name, steps).items():
            if step in served:
                asked[step] = asked.get(step, 0.0) + times * requests_rps
    return own, asked


def _models_of(name: str, steps: Mapping[str, Sequence[str]]) -> Counter[str]:
    """Models that a request of an ensemble asks, those of ensembles in it too, and how often."""
    known: dict[str, Counter[str]] = {}

    def asked(one: str, above: tuple[str, ...]) -> Counter[str]:
        if one in above:
            path = names((*above, one), 8)
            raise InputError(f"--rate {name}: the ensemble asks itself, by {path}. Mend its steps.")
        if one not in steps:
            return Counter([one])
        if one not in known:
            known[one] = Counter()
            for step, times in Counter(steps[one]).items():
                known[one] += Counter({model: n * times for model, n in asked(step, (*above, one)).items()})
        return known[one]

    return asked(name, ())


def by_model(repository: Repository, option: str, read: Quantity, texts: Sequence[str]) -> dict[str, str]:
    """The option's value for each model that has one."""
    known = [model.name for model in repository.models]
    found: dict[str, str] = {}
    for text in sorted(texts, key=lambda text: "=" in text):
        name, equals, value = text.rpartition("=")
        if equals and name not in known:
            hint = did_you_mean(name, known) or known_ones(name, known, "the folders of the repository")
            raise InputError(f"{option} {text}: no model is called `{name}`.{hint}")
        try:
            si = read(value)
        except ValueError as error:
            raise InputError(f"{option} {text}: {error}") from None
        if not isfinite(si) or si <= 0:
            raise InputError(f"{option} {text}: must be above 0. {read.hint}")
        found |= dict.fromkeys([name] if equals else known, value.strip())
    return found


def read(path: Path, rates: Sequence[str], latencies: Sequence[str], library: Library) -> Import:
    """A repository after the options `--rate` and `--slo`; InputError where they do not fit each other."""
    repository = read_repository(path)
    wished = wishes(repository, rates, latencies)
    for model in repository.models:
        latency, wait_s = wished.latencies.get(model.name), model.config.max_queue_delay_s
        if latency and wait_s >= duration(latency):
            limit = f"{wait(wait_s)}, which a batch may wait by its {CONFIG}"
            raise InputError(f"--slo {model.name}={latency}: must be above {limit}. Allow more.")
    found = Found(
        command="from-triton",
        path=path,
        name=path.resolve().name,
        says=("The repository says how models are batched, but not how often they are asked, nor their SLOs.",),
        options=" (--rate, --slo)",
        models=tuple(_found(one, wished, library) for one in repository.models),
        streams=tuple(FoundStream(model=one.name, rate=wished.rates.get(one.name, TODO)) for one in repository.models),
        left_out=repository.left_out,
        warnings=repository.warnings,
    )
    return Import(found, library, lambda made: _columns(repository, made))


def _found(model: TritonModel, wished: ImportWishes, library: Library) -> FoundModel:
    """A model with what its reader says of it; its file stands in for a name that is not known."""
    profile = model.profile if model.profile != model.name else ""
    by_file = model.file if not (profile or is_known(model.name, library)) else ""
    return FoundModel(
        name=model.name,
        notes=tuple(_notes(model)),
        profile=profile,
        source=by_file or model.name,
        input_shape=model.input,
        precision=model.precision,
        runtime=model.runtime,
        latency=wished.latencies.get(model.name, TODO),
        max_queue_delay_s=model.config.max_queue_delay_s,
    )


def _notes(model: TritonModel) -> Iterator[str]:
    yield described(model.config)
    if model.weights_bytes is not None:
        size = f"{megabytes(model.weights_bytes)}, the size of version {model.version} on disk"
        yield f"Weights: about {size} (evidence: assumed)"


def _columns(repository: Repository, made: Import) -> list[Column]:
    """The models as a table."""
    rows = Rows(repository.models)
    known = {one.name: made.known_as(one) for one in made.found.models}
    return [
        rows.words("model", lambda m: m.name),
        rows.words("backend", lambda m: m.config.backend or "-"),
        rows.figures("batch", lambda m: str(m.config.max_batch_size)),
        rows.figures("wait", lambda m: wait(m.config.max_queue_delay_s)),
        rows.words("instances", lambda m: "; ".join(map(str, m.config.groups)) or "1 on every GPU"),
        rows.figures("on disk", lambda m: megabytes(m.weights_bytes) if m.weights_bytes else "-"),
        rows.words("known as", lambda m: known[m.name]),
    ]


def described(config: TritonConfig) -> str:
    """`onnxruntime, batches up to 8 (preferred 4, 8), 2 on each of GPU 0, 1`."""
    parts = [config.backend or "no backend named"]
    preferred = ", ".join(map(str, config.preferred_batch_sizes))
    if config.max_batch_size <= 1:
        parts.append("no batches")
    elif preferred:
        parts.append(f"batches up to {config.max_batch_size} (preferred {preferred})")
    else:
        parts.append(f"batches up to {config.max_batch_size}")
    parts += [f"input {one}" for one in config.inputs]
    parts += [str(group) for group in config.groups] or ["1 on every GPU"]
    if config.timeout_s:
        parts.append(f"given up or put last after {wait(config.timeout_s)}")
    return ", ".join(parts)


def megabytes(size_bytes: float) -> str:
    """`97.5 MB`."""
    return f"{size_bytes / 1e6:,.1f} MB"
