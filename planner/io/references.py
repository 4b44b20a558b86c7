"""References: names in a scenario that must hold together, and keys that go together."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from planner.model.parts.fields import NAME
from planner.model.parts.graphs import MODEL_KEYS, graph
from planner.model.parts.merging import Merging, one_source
from planner.model.parts.models import own_model
from planner.model.parts.rules import reuse
from planner.model.parts.streams import sending
from planner.units.errors import Steps, Wrong
from planner.units.reading import did_you_mean, meant_by
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
    served = [*models, *pipelines]
    names = list(dict.fromkeys(name for _, name in named(served)))
    yield from nothing_to_serve(data)
    yield from names_apart(models, pipelines, asked_of(streams, names))
    yield from names_in_streams(streams, names, is_one_nameless=len([*named(served)]) < len(served))
    for i, entry in models:
        yield from below(("models", i), own_model(entry))
    for i, entry in pipelines:
        yield from below(("pipelines", i), graph(entry))
    for i, entry in streams:
        yield from below(("streams", i), sending(entry))
    for key, rule in (("accuracy", reuse), ("sharing", one_source)):
        if isinstance(data.get(key), dict):
            yield from below((key,), rule(data[key]))


def asked_of(streams: Entries, names: Sequence[str]) -> set[str]:
    """Names that streams ask or may mean; all, where one does not say which, or as many as nobody asks are unknown."""
    models = [model for _, entry in streams if isinstance(model := entry.get("model"), str)]
    if len(models) < len(streams) or not models:
        return set(names)
    meant = {model: [model] if model in names else meant_by(model, names) for model in models}
    asked = {name for those in meant.values() for name in those}
    unknown = sum(not those for those in meant.values())
    return set(names) if unknown and unknown >= len(set(names) - asked) else asked


def names_apart(models: Entries, pipelines: Entries, asked: Set[str]) -> Iterator[Wrong]:
    """Names of models, pipelines and their stages that are not apart, and those that no stream asks."""
    taken: set[str] = set()
    yield from own_names("models", models, taken, asked)
    yield from own_names("pipelines", pipelines, taken, asked)
    stages = {i: mappings(entry, "stages") for i, entry in pipelines}
    for i, name in named(pipelines):
        yield from below(("pipelines", i), names_of_stages(name, stages[i], taken))


def own_names(key: str, entries: Entries, taken: set[str], asked: Set[str]) -> Iterator[Wrong]:
    """Names of models or pipelines that are `taken` before, and those that are not `asked`."""
    kind, others, remedy = NAMED[key]
    for i, name in named(entries):
        if name in taken:
            yield (key, i, "name"), f"`{name}` is the name of another {others}. Name them apart{remedy}."
        elif name not in asked:
            unasked = f"no stream asks `{name}`. Add a stream with `model: {name}` or leave the {kind} out."
            yield (key, i, "name"), unasked
        taken.add(name)


def named(entries: Entries) -> Iterator[tuple[int, str]]:
    """Number and name of those that have one."""
    return ((i, name) for i, entry in entries if isinstance(name := entry.get("name"), str) and re.match(NAME, name))


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


def names_in_streams(streams: Entries, names: Sequence[str], *, is_one_nameless: bool) -> Iterator[Wrong]:
    """Streams that ask a model which is not there; not those that may mean one which lacks a name."""
    for i, entry in streams:
        model = entry.get("model")
        if not names or not isinstance(model, str) or not re.match(NAME, model) or model in names:
            continue
        near = did_you_mean(model, names)
        if near or not is_one_nameless:
            hint = near or known_ones(model, names, "those of `models` and `pipelines`")
            yield ("streams", i, "model"), f"no model is called `{model}`.{hint}"


def below(path: Steps, problems: Iterable[Wrong]) -> Iterator[Wrong]:
    """Problems of a part, each with its path in the whole scenario."""
    for inner, text, *keys in problems:
        yield (*path, *inner), text, *keys


def mappings(data: dict[str, Any], key: str) -> Entries:
    """The items of a list that are mappings, with their numbers."""
    items = data.get(key)
    return [(i, item) for i, item in enumerate(items) if isinstance(item, dict)] if isinstance(items, list) else []
