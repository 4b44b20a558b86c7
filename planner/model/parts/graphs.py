"""Rules between the keys of a stage, and between the stages of a pipeline."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from planner.model.parts.models import own_model
from planner.units.errors import Wrong
from planner.units.reading import did_you_mean, fraction, latency
from planner.units.writing import seconds as written
from simulator.near import known_ones
from simulator.world.pipelines import cycle_in

MODEL_KEYS = ("model", "profile", "factory")
"""Keys by which a stage names a model."""
BESIDE_MODEL = ("input", "precision", "runtime", "max_queue_delay")
ENGINE_KEYS = ("decode", "encode")
"""Keys by which a stage names the codec of an engine for video."""
BESIDE_ENGINE = ("memory", "engine_rate")
BESIDE_ENCODE = ("preset",)
OF_FRAMES = (*ENGINE_KEYS, "measured")
"""Keys beside which a size of frames is stated."""
WORK_KEYS = (*OF_FRAMES, "host", "copy")


def spread(fan_out: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors where a fan-out is stated in two ways."""
    ways = [key for key in ("poisson", "geometric", "counts", "trace") if fan_out.get(key)]
    if len(ways) > 1:
        yield (ways[1],), f"cannot stand beside `{ways[0]}`: counts vary in one way. Keep one of them."
    counts = fan_out.get("counts", (1,))
    if isinstance(counts, list | tuple) and not any(counts):
        yield ("counts",), "must hold one count above 0. Give some, or leave the stage out."
    if "mean" in fan_out and ways and ways[-1] in ("counts", "trace"):
        yield ("mean",), f"cannot stand beside `{ways[-1]}`, which has a mean of its own. Leave it out."
    if bool(fan_out.get("trace")) != bool(fan_out.get("column")):
        yield (), "`trace` and `column` go together: a file, and its column of counts. Give both.", "trace", "column"


def work(stage: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors where a stage does not do exactly one thing."""
    named = next((key for key in MODEL_KEYS if stage.get(key)), None)
    works = [named] if named else []
    works += [key for key in WORK_KEYS if stage.get(key) is not None]
    if "measured" in works and "host" in works:
        works.remove("host")  # its time where nobody measured it
    if not works:
        keys = (*MODEL_KEYS, *WORK_KEYS)
        if not any(did_you_mean(key, keys) for key in stage):  # that is a key that is not known, which is told
            yield (), "does nothing. Give one of `model`, `decode`, `encode`, `host`, `measured` and `copy`.", *keys
        return
    if len(works) > 1:
        yield (works[1],), f"cannot stand beside `{works[0]}`: a stage does one thing. Make two stages of it."
    yield from misplaced(stage, works[0])
    if named:
        yield from own_model(stage)


def misplaced(stage: Mapping[str, Any], work: str) -> Iterator[Wrong]:
    """Keys that go only with other work."""
    for owners, keys in (
        (MODEL_KEYS, BESIDE_MODEL),
        (OF_FRAMES, ("resolution",)),
        (ENGINE_KEYS, BESIDE_ENGINE),
        (("encode",), BESIDE_ENCODE),
    ):
        named = "model" if owners is MODEL_KEYS else "` or `".join(owners)
        for key in keys if work not in owners else ():
            if key in stage:
                yield (key,), f"goes only with `{named}`, not with `{work}`. Leave it out."


def _listed(stages: object) -> list[tuple[int, Mapping[str, Any]]]:
    """Those of a list that have keys, with their numbers."""
    items = stages if isinstance(stages, list) else []
    return [(i, one) for i, one in enumerate(items) if isinstance(one, Mapping)]


def graph(pipeline: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors in the stages of a pipeline, and in how they follow one another."""
    places: dict[str, int] = {}
    before: dict[str, list[str]] = {}
    doubled = False
    for i, stage in _listed(pipeline.get("stages")):
        for path, text, *keys in (*work(stage), *spreads(stage)):
            yield ("stages", i, *path), text, *keys
        name = stage.get("name")
        if not isinstance(name, str):
            continue
        if name in places:
            doubled = True
            yield ("stages", i, "name"), f"`{name}` is the name of another stage. Name them apart."
        else:
            places[name] = i
            before[name] = names_before(stage)
    yield from slow_stages(pipeline)
    if doubled:
        return  # which of them `after` means is not known
    for name, earlier in before.items():
        for text in ways_wrong(earlier, list(before)):
            yield ("stages", places[name], "after"), text
    yield from beside_decoders(pipeline, {one for each in before.values() for one in each})
    yield from circles(places, {name: [one for one in each if one in before] for name, each in before.items()})


def slow_stages(pipeline: Mapping[str, Any]) -> Iterator[Wrong]:
    """Stages whose SLO asks for nothing that the pipeline's does not: as late, and of no more items."""
    whole_s, whole = slo_of(pipeline)
    for i, stage in _listed(pipeline.get("stages")):
        own_s, own = slo_of(stage)
        if own_s > whole_s > 0 and own <= whole:
            rule = f"must not be above the pipeline's own, {written(whole_s)}, got {written(own_s)}"
            yield ("stages", i, "slo", "latency"), f"{rule}. Lower it, or leave the stage's `slo` out."


def slo_of(asked: Mapping[str, Any]) -> tuple[float, float]:
    """Latency and attainment of an SLO; zeros where there is none that can be read."""
    slo: Any = asked.get("slo")
    try:
        return latency(slo["latency"]), fraction(slo.get("attainment", 0.99))
    except (KeyError, ValueError, TypeError, AttributeError):
        return 0.0, 0.0


def beside_decoders(pipeline: Mapping[str, Any], followed: Collection[str]) -> Iterator[Wrong]:
    """Models that frames enter beside a decoder that they enter too, and whose frames nothing takes."""
    stages = _listed(pipeline.get("stages"))
    first = [one for _, one in stages if one.get("decode") and one.get("after") in (None, ())]
    named = [one["name"] for one in first if isinstance(one.get("name"), str)]
    idle = [name for name in named if name not in followed]
    for i, stage in stages:
        if idle and stage.get("after") in (None, ()) and any(stage.get(key) for key in MODEL_KEYS):
            rule = f"frames enter here beside `{idle[0]}`, after which nothing comes"
            yield ("stages", i), f"{rule}. Write `after: {idle[0]}`.", "after"


def ways_wrong(earlier: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    """Stages before one that are not there, or that are named twice."""
    for number, one in enumerate(earlier):
        if one not in known:
            hint = did_you_mean(one, known) or known_ones(one, known, "those of `stages`")
            yield f"no stage is called `{one}`.{hint}"
        elif one in earlier[:number]:
            yield f"names `{one}` twice. Keep one."


def spreads(stage: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors in the fan-outs on the ways to a stage, and ways that are none."""
    after = stage.get("after")
    if after == []:
        yield ("after",), "must not be empty. Name the stage before, or leave `after` out: frames then enter here."
    ways = {("after", i): way for i, way in enumerate(after)} if isinstance(after, list) else {("after",): after}
    for path, way in ways.items():
        fan_out = way.get("fan_out") if isinstance(way, Mapping) else None
        if isinstance(fan_out, Mapping):
            yield from (((*path, "fan_out", *inner), text) for inner, text, *_ in spread(fan_out))


def names_before(stage: Mapping[str, Any]) -> list[str]:
    """Names of the stages that a stage comes after."""
    after = stage.get("after") or []
    each = after if isinstance(after, list) else [after]
    names = (one.get("stage") if isinstance(one, Mapping) else one for one in each)
    return [name for name in names if isinstance(name, str)]


def _stuck(before: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Those that frames never reach: each waits for another one of them."""
    left = dict(before)
    while free := [name for name, earlier in left.items() if not left.keys() & set(earlier)]:
        for name in free:
            del left[name]
    return left


def circles(places: Mapping[str, int], before: Mapping[str, list[str]]) -> Iterator[Wrong]:
    """Stages that run in a circle, each circle once; the first says which stages nothing reaches because of them."""
    found = list(_circles(_stuck(before)))
    in_one = {name for circle in found for name in circle}
    behind = [name for name in _stuck(before) if name not in in_one]
    are = "is" if len(behind) == 1 else "are"
    unreached = f", so that {', '.join(behind)} {are} never reached" if behind else ""
    for circle in found:
        drawn = " -> ".join([*circle, circle[0]])
        remedy = "Leave one `after` of them out." if len(circle) > 1 else f"Leave `{circle[0]}` out of it."
        yield ("stages", places[circle[0]], "after"), f"runs in a circle: {drawn}{unreached}. {remedy}"
        unreached = ""


def _circles(stuck: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """The stages of each circle among those that frames never reach."""
    while circle := cycle_in(stuck)[1:]:
        yield circle
        rest = {name: [one for one in stuck[name] if one not in circle] for name in stuck if name not in circle}
        stuck = _stuck(rest)
