"""A scenario made of a Triton model repository: which models, how they are batched, what they weigh on disk.

The repository says neither how often each model is asked nor what is promised: whoever imports it says that.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from calibrate.files import printable
from calibrate.library import PRECISIONS, Library
from planner.importing.triton_config import TritonConfig, read_config
from planner.layout import Column, Screen, counted, names, table
from planner.store import StoreError
from planner.units import Quantity, did_you_mean, duration, rate
from simulator.errors import InputError

CONFIG = "config.pbtxt"
TODO = "TODO"
"""Stands in the scenario where only its reader knows; `planner plan` refuses it, line by line."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*")
NOTE_BYTES = 4096
"""Smaller files are notes and placeholders, not models."""
CODE = ("python",)
"""Backends whose model files are code: their size says nothing of the weights."""


class RepositoryError(InputError):
    """A repository that cannot be imported, or an option that does not fit it; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model that Triton serves on GPUs."""

    name: str
    """What the scenario calls it."""
    config: TritonConfig
    weights_bytes: int | None
    """Size of its newest version's files on disk: an estimate, evidence `assumed`. None where there is none to see."""
    version: int | None

    @property
    def profile(self) -> str:
        """Profile it uses: what its parameters say, as an exported plan writes them; else its name."""
        noted = self.config.parameters.get("profile", "")
        return noted if NAME.fullmatch(noted) else self.name

    @property
    def precision(self) -> str | None:
        """Precision that its parameters ask of profiles; None where they do not."""
        noted = self.config.parameters.get("precision", "")
        return noted if noted in PRECISIONS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What a model repository holds."""

    path: Path
    models: tuple[Served, ...]
    left_out: tuple[str, ...]
    """What is not imported, each with its reason."""
    cautions: tuple[str, ...]


def read_repository(path: Path) -> Repository:
    """All models of a repository; RepositoryError where it holds none that GPUs serve."""
    if not path.is_dir():
        raise RepositoryError(f"{path}: is no directory. Name the one that `tritonserver --model-repository` gets.")
    if (path / CONFIG).exists():
        raise RepositoryError(f"{path}: is one model. Name the directory above it.")
    models: list[Served] = []
    left_out: list[str] = []
    for folder in sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith(".")):
        found = read_model(folder)
        if isinstance(found, str):
            left_out.append(found)
        else:
            models.append(found)
    if not models:
        raise RepositoryError(f"{path}: holds no model that GPUs serve. {why_none(path, left_out)}")
    twice = {m.name for m in models if [n.name for n in models].count(m.name) > 1}
    if twice:
        raise RepositoryError(f"{path}: {', '.join(sorted(twice))}: several models would get this name. Rename one.")
    return Repository(path=path, models=tuple(models), left_out=tuple(left_out), cautions=tuple(cautions(models)))


def why_none(path: Path, left_out: Sequence[str]) -> str:
    """What is wrong with a directory without models: often it is the one above the repository."""
    if repositories := sorted({config.parent.parent.name for config in path.glob(f"[!.]*/*/{CONFIG}")}):
        return f"Name the repository in it: {' or '.join(str(path / name) for name in repositories[:3])}."
    if not left_out:
        return f"Each model is a directory with a {CONFIG}."
    more = f" And {len(left_out) - 3} more." if len(left_out) > 3 else ""
    return f"Left out: {' '.join(left_out[:3])}{more}"


def read_model(folder: Path) -> Served | str:
    """One model, or why it is left out."""
    if not (folder / CONFIG).exists():
        return f"{folder.name}: has no {CONFIG}. Triton may do without, this import does not: write one."
    config = read_config(folder / CONFIG)
    if config.name and config.name != folder.name:
        where = f"{folder / CONFIG}: `name` must be `{folder.name}`, as its directory is called, got `{config.name}`"
        raise RepositoryError(f"{where}. Mend the file.")
    if config.ensemble:
        steps = names([step or "?" for step in config.steps], 8)
        return f"{folder.name}: is an ensemble, which is not supported; its models ({steps}) stand by themselves."
    if config.groups and all(group.kind == "KIND_CPU" for group in config.groups):
        return f"{folder.name}: runs on processors only, and plans are about GPUs."
    version = newest(folder, config)
    size = None if version is None or config.backend in CODE else size_bytes(folder / str(version))
    return Served(name=scenario_name(folder.name), config=config, weights_bytes=size or None, version=version)


def scenario_name(name: str) -> str:
    """A model's name as a scenario may have it: letters, digits, `-`, `_` and `.`, at most 64."""
    return name if NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_.\-]", "-", name).lstrip("_.-")[:64] or "model"


def newest(folder: Path, config: TritonConfig) -> int | None:
    """Number of the newest version that is served; directories whose names begin with 0 are none."""
    there = [int(p.name) for p in folder.iterdir() if p.is_dir() and re.fullmatch(r"[1-9]\d{0,17}", p.name)]
    served = [n for n in there if n in config.versions] if isinstance(config.versions, tuple) else there
    return max(served, default=None)


def size_bytes(folder: Path) -> int:
    """Of all files below, links followed to files but not to folders."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(size for size in sizes if size >= NOTE_BYTES)


def cautions(models: Sequence[Served]) -> Iterator[str]:
    """What of the repository a scenario cannot say."""
    stateful = [m.name for m in models if m.config.stateful]
    limited = [m.name for m in models if any(group.rate_limited for group in m.config.groups)]
    alone = [m.name for m in models if not m.config.dynamic and not m.config.stateful]
    batched = [f"{m.name} {m.config.max_batch_size}" for m in models if m.config.max_batch_size > 1]
    if stateful:
        yield f"sequence batching keeps a sequence on one instance, which is not simulated: {names(stateful)}."
    if limited:
        yield f"rate limiters are not simulated: {names(limited)}."
    if alone:
        yield f"without dynamic batching in Triton, a plan gathers batches all the same: {names(alone)}."
    if batched:
        yield f"max_batch_size is no limit of a plan, which batches up to what was measured: {names(batched)}."


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the options say of each model, in people's units; None where they do not."""

    rates: Mapping[str, str]
    latencies: Mapping[str, str]


def wishes(repository: Repository, rates: Sequence[str], latencies: Sequence[str]) -> Wishes:
    """`10 rps` for every model, `resnet50=10 rps` for one; the latter count more."""
    return Wishes(by_model(repository, "--rate", rate, rates), by_model(repository, "--slo", duration, latencies))


def by_model(repository: Repository, option: str, read: Quantity, texts: Sequence[str]) -> dict[str, str]:
    """The option's value for each model that has one."""
    known = [model.name for model in repository.models]
    found: dict[str, str] = {}
    for text in sorted(texts, key=lambda text: "=" in text):
        name, equals, value = text.rpartition("=")
        if equals and name not in known:
            hint = did_you_mean(name, known) or f" Known: {', '.join(known)}."
            raise RepositoryError(f"{option} {text}: no model is called `{name}`.{hint}")
        try:
            si = read(value)
        except ValueError as error:
            raise RepositoryError(f"{option} {text}: {error}") from None
        if not isfinite(si) or si <= 0:
            raise RepositoryError(f"{option} {text}: must be above 0. {read.hint}")
        found |= dict.fromkeys([name] if equals else known, value.strip())
    return found


def short_waits(repository: Repository, wished: Wishes) -> None:
    """RepositoryError where a batch may wait for longer than is promised."""
    for model in repository.models:
        promised = wished.latencies.get(model.name)
        if promised and model.config.max_queue_delay_s >= duration(promised):
            limit = f"{written(model.config.max_queue_delay_s)}, which a batch may wait by its {CONFIG}"
            raise RepositoryError(f"--slo {model.name}={promised}: must be above {limit}. Promise more.")


# The scenario


def profiled(repository: Repository, library: Library) -> dict[str, bool]:
    """Whether a profile of each model is known."""
    return {
        model.name: any(model.precision in (None, found.precision) for found in library.for_model(model.profile))
        for model in repository.models
    }


def unprofiled(known: Mapping[str, bool]) -> str:
    """What stands between the scenario and a plan: models without a profile; empty where there are none."""
    if not (lost := [name for name, found in known.items() if not found]):
        return ""
    return (
        f"No profile is known of {names(lost)}: before `planner plan`, name one for each as `profile:` (`planner "
        "profiles list` has them), or measure it with `planner calibrate` and name the folder with --profiles."
    )


def scenario_text(repository: Repository, wished: Wishes, profiled: Mapping[str, bool]) -> str:
    """A commented scenario. `profiled`: whether a profile of the model is known."""
    open_ones, many = todo(repository, wished), counted(len(repository.models), "model")
    head = [
        "# yaml-language-server: $schema=scenario.schema.json",
        "#",
        f"# Made by `planner from-triton` of {many} in {comment(repository.path.name)}.",
        "# The repository says how models are batched, but not how often they are asked, nor what is promised.",
        *([f"# Write what you know where {TODO} stands: {', '.join(open_ones)}."] if open_ones else []),
    ]
    left = [f"# Left out: {comment(line)}" for line in repository.left_out]
    said = [f"# {comment(line)}" for line in repository.cautions]
    lines = [*head, *left, *said, "", f"name: {quoted(repository.path.resolve().name)}", "", "models:"]
    for model in repository.models:
        lines += model_lines(model, wished, profiled[model.name])
    lines += ["", "# Of each model all that is asked together; `poisson` for people, `rate` and `count` for cameras."]
    lines += ["streams:"]
    for model in repository.models:
        lines.append(f"  - {{model: {quoted(model.name)}, poisson: {wished.rates.get(model.name, TODO)}}}")
    return "\n".join([*lines, "", *BUY, ""])


BUY = (
    "# What may be rented; for machines of your own write `own`, and nothing is rented.",
    "buy:",
    "  price: on-demand # or spot, reserved-1y, reserved-3y",
    "  # own: [{name: server, gpu: A10G, gpu_count: 2, price: $1.20/h}]",
)


def model_lines(model: Served, wished: Wishes, profiled: bool) -> Iterator[str]:
    """One model of the scenario, below what Triton says of it."""
    yield f"  # {comment(told(model))}."
    if model.weights_bytes is not None:
        size = f"{megabytes(model.weights_bytes)}, the size of version {model.version} on disk"
        yield f"  # Weights: about {size} (evidence: assumed)."
    yield f"  - name: {quoted(model.name)}"
    if not profiled and model.profile == model.name:
        yield "    # profile: NAME # no profile has this name: see `planner profiles list`, or `planner calibrate`"
    elif not profiled or model.profile != model.name:
        unknown = "" if profiled else " # not known here: see `planner profiles list`, or name its folder: --profiles"
        yield f"    profile: {quoted(model.profile)}{unknown}"
    if model.precision:
        yield f"    precision: {model.precision}"
    yield f"    slo: {{latency: {wished.latencies.get(model.name, TODO)}, attainment: 99 %}}"
    if model.config.max_queue_delay_s:
        yield f"    max_queue_delay: {written(model.config.max_queue_delay_s)}"


def told(model: Served) -> str:
    """`onnxruntime, batches up to 8 (preferred 4, 8), 2 on each of GPU 0, 1`."""
    config = model.config
    preferred = (
        f" (preferred {', '.join(map(str, config.preferred_batch_sizes))})" if config.preferred_batch_sizes else ""
    )
    batches = f"batches up to {config.max_batch_size}{preferred}" if config.max_batch_size > 1 else "no batches"
    waits = [f"given up or put last after {written(config.timeout_s)}"] if config.timeout_s else []
    groups = [str(group) for group in config.groups] or ["1 on every GPU"]
    return ", ".join([config.backend or "no backend named", batches, *groups, *waits])


def todo(repository: Repository, wished: Wishes) -> list[str]:
    """What only the reader knows: `the rate of bert`."""
    kinds = (("rate", wished.rates), ("latency", wished.latencies))
    missing = {kind: [m.name for m in repository.models if m.name not in known] for kind, known in kinds}
    return [f"the {kind} of {names(models)}" for kind, models in missing.items() if models]


def megabytes(size_bytes: float) -> str:
    """`97.5 MB`."""
    return f"{size_bytes / 1e6:,.1f} MB"


def written(seconds: float) -> str:
    """A wait in the unit Triton keeps: `5 ms`, `100 us`."""
    micro = round(seconds * 1e6)
    return f"{micro / 1e6:g} s" if micro % 1e6 == 0 else f"{micro / 1e3:g} ms" if micro % 1e3 == 0 else f"{micro} us"


def quoted(text: str) -> str:
    """A word as YAML takes it for a text."""
    plain = PLAIN.fullmatch(text) and text.lower() not in ("true", "false", "null")
    return text if plain else json.dumps(text, ensure_ascii=True)


def comment(text: str) -> str:
    """A text that cannot break its line."""
    return printable(text).rstrip(".")


# What is said on the way


def summary(repository: Repository, wished: Wishes, profiled: Mapping[str, bool], screen: Screen) -> str:
    """What was found, what was left out, what is still to be written."""
    models = repository.models
    columns = [
        Column("model", [m.name for m in models]),
        Column("backend", [m.config.backend or "-" for m in models]),
        Column("batch", [str(m.config.max_batch_size) for m in models], right=True),
        Column("wait", [written(m.config.max_queue_delay_s) for m in models], right=True),
        Column("instances", ["; ".join(map(str, m.config.groups)) or "1 on every GPU" for m in models]),
        Column("on disk", [megabytes(m.weights_bytes) if m.weights_bytes else "-" for m in models], right=True),
        Column("profile", [m.profile if profiled[m.name] else "none" for m in models]),
    ]
    lines = [screen.bold(f"{counted(len(models), 'model')} of {repository.path}"), *table(columns, screen)]
    parts = (("Left out", repository.left_out), ("Not in the scenario", repository.cautions))
    for title, texts in parts:
        lines += ["", screen.bold(title)] if texts else []
        lines += [line for text in texts for line in screen.wrap(f"- {text}", 2, 2)]
    if open_ones := todo(repository, wished):
        lines += ["", *screen.wrap(f"Still to be written where {TODO} stands: {', '.join(open_ones)} (--rate, --slo).")]
    if lost := unprofiled(profiled):
        lines += ["", *screen.wrap(lost)]
    return "\n".join(lines) + "\n"


def check_free(path: Path) -> None:
    """StoreError where a file stands already."""
    if path.exists():
        raise StoreError(f"{path}: exists already. Name another file with -o.")
