"""References: names in a scenario that must hold together, and keys that go together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from planner.model.parts.graphs import MODEL_KEYS, graph
from planner.model.parts.merging import Merging, one_source
from planner.model.parts.models import own_model
from planner.model.parts.rules import reuse
from planner.model.parts.streams import sending
from planner.units.errors import Steps, Wrong
from planner.units.reading import did_you_mean
from simulator.near import known_ones

Entries = Sequence[tuple[int, dict[str, Any]]]
"""Items of a list, with their numbers."""
NAMED = {
    "models": ("model", "model", " and use `profile`"),
    "pipelines": ("pipeline", "model or pipeline", ""),
}
"""What a list names, what else has names, and what helps besides names that differ."""


def structure(data: dict[str, Any]) -> Iterator[Wrong]:
    """Errors between the parts of a scenario: names, references, and keys that go together."""
    models, streams, pipelines = (mappings(data, key) for key in ("models", "streams", "pipelines"))
    names = [name for _, name in named([*models, *pipelines])]
    asked = {str(entry.get("model")) for _, entry in streams}
    yield from nothing_to_serve(data)
    yield from names_apart(models, pipelines, asked, asked - set(names))
    yield from names_in_streams(streams, names)
    for i, entry in models:
        yield from below(("models", i), own_model(entry))
    for i, entry in pipelines:
        yield from below(("pipelines", i), graph(entry))
    for i, entry in streams:
        yield from below(("streams", i), sending(entry))
    for key, rule in (("accuracy", reuse), ("sharing", one_source)):
        if isinstance(data.get(key), dict):
            yield from below((key,), rule(data[key]))


def names_apart(models: Entries, pipelines: Entries, asked: Set[str], unknown: Set[str]) -> Iterator[Wrong]:
    """Names of models, pipelines and their stages that are not apart, and those that no stream asks."""
    taken: set[str] = set()
    yield from own_names("models", models, taken, asked, unknown)
    yield from own_names("pipelines", pipelines, taken, asked, unknown)
    stages = {i: mappings(entry, "stages") for i, entry in pipelines}
    for i, name in named(pipelines):
        yield from below(("pipelines", i), names_of_stages(name, stages[i], taken))


def own_names(key: str, entries: Entries, taken: set[str], asked: Set[str], unknown: Set[str]) -> Iterator[Wrong]:
    """Names of models or pipelines that are `taken` before, and those that no stream asks: unless one asks for an
    `unknown` name, which is told at the stream."""
    kind, others, remedy = NAMED[key]
    for i, name in named(entries):
        if name in taken:
            yield (key, i, "name"), f"`{name}` is the name of another {others}. Name them apart{remedy}."
        elif asked and name not in asked and not unknown:
            unasked = f"no stream asks `{name}`. Add a stream with `model: {name}` or leave the {kind} out."
            yield (key, i, "name"), unasked
        taken.add(name)


def named(entries: Entries) -> Iterator[tuple[int, str]]:
    """Number and name of those that have one."""
    return ((i, entry["name"]) for i, entry in entries if isinstance(entry.get("name"), str))


def nothing_to_serve(data: Mapping[str, Any]) -> Iterator[Wrong]:
    """Scenarios without models, and merging where pipelines ask for their own."""
    if data.get("pipelines"):
        if data.get("merging", Merging.NONE) != Merging.NONE:
            yield ("merging",), "goes only with `models`, not with `pipelines`. Leave one of them out."
    elif "models" not in data:
        yield ("models",), "is missing. Add it."
    elif data["models"] == []:
        yield ("models",), "must not be empty. Add at least one item."


def names_of_stages(name: str, stages: Entries, taken: Set[str]) -> Iterator[Wrong]:
    """Stages of a pipeline that are served by the name of another model, or of which none runs a model."""
    for i, stage in stages:
        if (served := f"{name}.{stage.get('name')}") in taken:
            yield ("stages", i, "name"), f"`{served}` is the name of a model. Rename one of them."
    if stages and not any(stage.get(key) for _, stage in stages for key in MODEL_KEYS):
        yield ("stages",), "run no model: there is nothing to plan GPUs for. Add one that does."


def names_in_streams(streams: Entries, names: Sequence[str]) -> Iterator[Wrong]:
    """Streams that ask a model which is not there."""
    for i, entry in streams:
        model = entry.get("model")
        if names and isinstance(model, str) and model not in names:
            hint = did_you_mean(model, names) or known_ones(model, names, "those of `models` and `pipelines`")
            yield ("streams", i, "model"), f"no model is called `{model}`.{hint}"


def below(path: Steps, problems: Iterable[Wrong]) -> Iterator[Wrong]:
    """Problems of a part, each with its path in the whole scenario."""
    for inner, text, *keys in problems:
        yield (*path, *inner), text, *keys


def mappings(data: dict[str, Any], key: str) -> Entries:
    """The items of a list that are mappings, with their numbers."""
    items = data.get(key)
    return [(i, item) for i, item in enumerate(items) if isinstance(item, dict)] if isinstance(items, list) else []
