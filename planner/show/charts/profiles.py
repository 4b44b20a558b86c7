"""Charts of what was measured: of a model time by batch size, memory by kind, layers; of a device what was probed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from calibrate.io.points import COPIED_BYTES, OPTIMIZERS, PASSED_BYTES, WORKERS_MAX
from calibrate.layers.naming import OWN, options_of
from planner.io.raw import numbers_in, part_of, without_hiccups
from planner.model.choices import Picture
from planner.show.charts.kit.axes import ChartAxis, axis_around, plain
from planner.show.charts.kit.blocks import Chart, Dot, Graph, Line, Look, Mark, Point, Rule, colour
from planner.show.charts.profiling import bars
from planner.units.writing import share
from simulator.errors import InputError
from simulator.world.profile import FitQuality, Profile

STEPS = 100
"""Points of a curve."""
KINDS = ("weights", "gradients", "optimizer", "activations")
WAYS = {
    "to_device_pinned": "from pinned memory",
    "to_device_pageable": "from pageable memory",
    "from_device_pinned": "back to pinned memory",
    "from_device_pageable": "back to pageable memory",
    "host": "within main memory",
}
"""Copies, as their probe calls them."""
BINARY = {1 << 30: "GB", 1 << 20: "MB", 1 << 10: "kB"}
"""Of 1024: caches are made in powers of two."""
SIZES_NAMED = 6
"""Sizes that have room along an axis."""
LAYER_PARTS = {"input": "input_bytes", "output": "output_bytes", "weights": "weight_bytes"}

Raw = Mapping[str, Any]
"""What the file of a profile holds besides."""


def profile_charts(profile: Profile, measured: Raw, what: Picture) -> list[list[Chart]]:
    """One of the pictures of a profile; InputError where its layers are not known."""
    match what:
        case Picture.LATENCY:
            return [[time(profile, measured), rate(profile, measured)]]
        case Picture.MEMORY:
            return [[inference(profile, measured), *trainings(measured)]]
    return [[chart] for chart in layers(profile, measured)]


def time(profile: Profile, measured: Raw) -> Graph:
    """Every run, the means, the fit and its band."""
    curve = profile.latency
    points = measured.get("points", {}).get("latency", {})
    runs = [(int(batch), 1e3 * run_s) for batch, one in points.items() for run_s in one["samples"].get("wall_s", [])]
    fitted = [(batch, 1e3 * curve(batch)) for batch in between(curve.x)]
    means = [(x, 1e3 * y) for x, y in zip(curve.x, curve.y, strict=True)]
    label = _of_means(profile, measured) if points else str(profile.latency_evidence)
    marks: list[Mark] = [
        Line(runs, "off", Look.DOTS),
        *band(profile.latency_fit, fitted),
        Line(fitted, name=form(profile.latency_fit)),
        *(Dot(*mean, colour(1), name=label) for mean in means),
        *knee(profile, measured),
    ]
    drawn = heights([*fitted, *runs, *means])
    return Graph("Time of a batch, ms (both axes logarithmic)", batch_axis(curve.x), drawn, marks)


def _of_means(profile: Profile, measured: Raw) -> str:
    """Which runs the means are of."""
    of_batch = dict(zip(profile.latency.x, profile.latency.y, strict=True))
    return "mean, without hiccups" if without_hiccups(measured, of_batch) else "mean, measured"


def rate(profile: Profile, measured: Raw) -> Graph:
    """Samples a second."""
    curve = profile.latency
    fitted = [(batch, batch / curve(batch)) for batch in between(curve.x)]
    means = [(x, x / y) for x, y in zip(curve.x, curve.y, strict=True)]
    marks: list[Mark] = [Line(fitted), *(Dot(*mean, colour(1)) for mean in means), *knee(profile, measured)]
    drawn = heights([*fitted, *means])
    return Graph("Samples a second (both axes logarithmic)", batch_axis(curve.x), drawn, marks)


def compared(profiles: Sequence[Profile]) -> list[list[Chart]]:
    """Times and rates of a model on several GPUs, one line each."""
    return [
        [
            _beside(profiles, "Time of a batch, ms (both axes logarithmic)", lambda batch, time_s: 1e3 * time_s),
            _beside(profiles, "Samples a second (both axes logarithmic)", lambda batch, time_s: batch / time_s),
        ]
    ]


def _beside(profiles: Sequence[Profile], title: str, figure: Callable[[float, float], float]) -> Graph:
    marks: list[Mark] = []
    drawn: list[Point] = []
    for n, profile in enumerate(profiles):
        curve = profile.latency
        line = [(batch, figure(batch, curve(batch))) for batch in between(curve.x)]
        name = f"{profile.gpu}, {profile.precision}, {profile.runtime}: {profile.latency_evidence}"
        marks += [Line(line, colour(n), name=name)]
        means = [(x, figure(x, y)) for x, y in zip(curve.x, curve.y, strict=True)]
        marks += [Dot(*mean, colour(n)) for mean in means]
        drawn += [*line, *means]
    return Graph(
        title, batch_axis(sorted({x for profile in profiles for x in profile.latency.x})), heights(drawn), marks
    )


def between(batches: Sequence[float]) -> list[float]:
    """Batch sizes in equal ratios from the first to the last."""
    first, last = batches[0], batches[-1]
    return [first * (last / first) ** (i / STEPS) for i in range(STEPS + 1)]


def batch_axis(batches: Sequence[float]) -> ChartAxis:
    """The measured batch sizes."""
    around = axis_around(batches, plain, log=True)
    return ChartAxis(around.low, around.high, [(batch, plain(batch)) for batch in batches], "batch size", log=True)


def heights(points: Sequence[Point]) -> ChartAxis:
    """All that is drawn."""
    return axis_around([y for _, y in points], plain, log=True)


def band(fit: FitQuality | None, fitted: Sequence[Point]) -> Iterator[Line]:
    """Where most other batches are expected."""
    if fit and fit.band:
        above = [(x, y * (1 + fit.band)) for x, y in fitted]
        below = [(x, y / (1 + fit.band)) for x, y in reversed(fitted)]
        name = f"90 % of unmeasured batches: within {share(fit.band, 1)}"
        yield Line([*above, *below], colour(0), Look.RIBBON, name)


def form(quality: FitQuality | None) -> str:
    """How the curve was made, and how good that is."""
    if quality is None:
        return "between them by straight lines, which bend on these axes"
    if quality.error_mean is None or quality.error_max is None:
        return f"fit: {quality.form}, too few points to judge it"
    worst = f"worst {share(quality.error_max, 1)} at {quality.error_max_at:g}"
    return f"fit: {quality.form}, held-out error {share(quality.error_mean, 1)}, {worst}"


def knee(profile: Profile, measured: Raw) -> list[Rule]:
    """Where work begins to outweigh what every batch costs."""
    at = measured.get("knee")
    if not at or not profile.latency.x[0] < at < profile.latency.x[-1]:
        return []
    return [Rule(at, "off", f"knee at {at:.3g}", dashed=True)]


def inference(profile: Profile, measured: Raw) -> Graph:
    """Memory of inference by batch size."""
    curve = profile.workspace
    held = [{"weights": profile.weight_bytes / 1e6, "activations": size / 1e6} for size in curve.y]
    return bars(f"Inference, MB{limit(measured, 'inference')}", [*map(plain, curve.x)], held, "batch size")


def trainings(measured: Raw) -> Iterator[Graph]:
    """Memory of training by batch size, with each optimizer that was measured."""
    for optimizer in OPTIMIZERS:
        points = measured.get("points", {}).get(f"memory.{optimizer}", {})
        good = {batch: point["values"] for batch, point in points.items() if point["status"] == "ok"}
        held = [{kind: values.get(f"{kind}_bytes", 0.0) / 1e6 for kind in KINDS} for values in good.values()]
        title = f"Training with {optimizer}, MB{limit(measured, f'training.{optimizer}')}"
        if points:
            yield bars(title, list(good), held, "batch size")


def limit(measured: Raw, phase: str) -> str:
    """The batch size that did not fit."""
    fails = measured.get("limits", {}).get(phase, {}).get("fails")
    return f" (batch {fails} does not fit)" if fails else ""


def layers(profile: Profile, measured: Raw) -> list[Graph]:
    """Operations and memory of each layer; one that runs twice has two bars."""
    known = measured.get("layers") or []
    if not known:
        remedy = f"Measure it: planner calibrate {options_of(profile.model) or OWN}"
        raise InputError(f"{profile.model} on {profile.gpu}: its layers are not known. {remedy}.")
    names = [str(layer["name"]) for layer in known]
    operations = [{"operations": layer.get("flops", 0) / 1e6} for layer in known]
    held = [{name: layer.get(key, 0) / 1e6 for name, key in LAYER_PARTS.items()} for layer in known]
    return [
        bars("Operations of a sample, million (a multiply-add is two)", names, operations),
        bars("Working set of a sample, MB", names, held),
    ]


# Devices


def device_charts(raw: Mapping[str, Any]) -> list[list[Chart]]:
    """All that can be drawn of a device's file; InputError where that is nothing."""
    probes = {name: part_of(raw, "probes", name) for name in ("knees", "copy", "loader")}
    graphs = [passes(probes["knees"]), copies(part_of(probes["copy"], "samples")), loading(probes["loader"])]
    drawn: list[Chart] = [graph for graph in graphs if graph]
    if not drawn:
        remedy = "Measure it: planner calibrate --what knees,copy,loader"
        raise InputError(f"of {part_of(raw, 'gpu').get('name')} nothing was probed that can be drawn. {remedy}.")
    return [drawn]


def passes(probe: Mapping[str, Any]) -> Graph | None:
    """Time for each byte of a working set, by its size, and where caches end."""
    samples = part_of(probe, "samples")
    times = [(size, median(taken)) for size in PASSED_BYTES if (taken := numbers_in(samples.get(f"{size}_s")))]
    if not times:
        return None
    each = [(size, 1e9 * time_s / size) for size, time_s in times]
    ends = numbers_in(part_of(probe, "details").get("knees_bytes"))
    knees = [Rule(end, "limit", f"a cache ends at {written(end)}", dashed=True) for end in ends]
    marks: list[Mark] = [Line(each), Line(each, look=Look.DOTS), *knees]
    heights = axis_around([time_ns for _, time_ns in each], plain, log=True)
    return Graph(
        "Time for each byte of a working set, ns", sizes([size for size, _ in each], "working set"), heights, marks
    )


def copies(samples: Mapping[str, Any]) -> Graph | None:
    """Rate of copies by their size, from and to each kind of memory."""
    series = {name: line for way, name in WAYS.items() if (line := _rates(samples, way))}
    points = [point for line in series.values() for point in line]
    if not points:
        return None
    marks: list[Mark] = [Line(line, colour(n), name=name) for n, (name, line) in enumerate(series.items())]
    heights = axis_around([rate for _, rate in points], plain, log=True)
    return Graph(
        "Copies between host and device, GB/s", sizes([size for size, _ in points], "size of a copy"), heights, marks
    )


def _rates(samples: Mapping[str, Any], way: str) -> list[Point]:
    """GB/s of copies by their size."""
    times_s = {size: numbers_in(samples.get(f"{way}_{size}_s")) for size in COPIED_BYTES}
    return [(float(size), size / median(taken) / 1e9) for size, taken in times_s.items() if taken]


def loading(probe: Mapping[str, Any]) -> Graph | None:
    """Pictures a second by the number of processes that load them."""
    values = part_of(probe, "values")
    rates = [(n, *numbers_in([values.get(f"workers_{n}_samples_per_s")])) for n in range(WORKERS_MAX + 1)]
    known: list[Point] = [(pair[0], pair[1]) for pair in rates if len(pair) == 2]
    if len(known) < 2:
        return None
    counts, heights = axis_around([n for n, _ in known], plain), axis_around([0.0, *(rate for _, rate in known)], plain)
    axis = ChartAxis(counts.low, counts.high, [(n, plain(n)) for n, _ in known], "workers (0: the process itself)")
    return Graph("Pictures loaded a second", axis, heights, [Line(known), Line(known, look=Look.DOTS)])


def sizes(known: Sequence[float], title: str) -> ChartAxis:
    """Sizes in bytes, every fourth power of two or so named."""
    around = axis_around(known, plain, log=True)
    named = sorted(set(known))
    step = -(-len(named) // SIZES_NAMED)
    return ChartAxis(around.low, around.high, [(size, written(size)) for size in named[::step]], title, log=True)


def written(size: float) -> str:
    """`64 kB`, of 1024 bytes each: caches are sold by powers of two."""
    unit = next((unit for unit in BINARY if size >= unit), 1)
    return f"{size / unit:g} {BINARY.get(unit, 'B')}"
