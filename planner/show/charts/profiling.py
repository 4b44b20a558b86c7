"""Charts of an anatomy: operations and working set by layer, training memory by kind, and the roofline."""

from collections.abc import Sequence

from calibrate.io.plot import NAMES_MAX
from planner.prediction.roofline import Bound
from planner.questions.profiling.anatomy import Anatomy
from planner.questions.profiling.whatif import training_memory
from planner.show.charts.axes import Axis, axis_around, axis_to
from planner.show.charts.blocks import Chart, Dot, Graph, Line, Mark, Rule, colour, stacked, upright

BATCHES = (16, 32, 64, 128, 256)
"""Of the picture of training memory."""
COLOURS = {Bound.ARITHMETIC: colour(1), Bound.BANDWIDTH: colour(0), Bound.OVERHEAD: colour(9), Bound.NONE: colour(9)}
ROOM = 1.05
"""Height over the highest bar."""


def anatomy(seen: Anatomy) -> list[list[Chart]]:
    """All charts."""
    return [[operations(seen), working_set(seen)], [training(seen), *roofline(seen)]]


def title(seen: Anatomy) -> str:
    """`resnet50 on T4, batch 8, fp32`."""
    where = f" on {seen.gpu.name}" if seen.gpu else ""
    return f"{seen.facts.model}{where}, batch {seen.batch}, {seen.precision}"


def bars(title: str, names: Sequence[str], parts: Sequence[tuple[str, Sequence[float]]], about: str = "") -> Graph:
    """Bars on top of one another, one for each name."""
    boxes = list(stacked(parts))
    few = len(names) <= NAMES_MAX
    ticks = list(enumerate(names)) if few else []
    x = Axis(-0.5, len(names) - 0.5, ticks, about if few else f"{len(names)} layers, in the order they run")
    y = axis_to(max((box.high for box in boxes), default=1.0) * ROOM, lambda value: f"{value:g}")
    return Graph(title, x, y, boxes)


def operations(seen: Anatomy) -> Graph:
    """Operations of each layer."""
    times = [time for time in seen.roofline.layers if time.flops]
    parts = [("operations", [time.flops / 1e9 for time in times])]
    return bars("Operations of a layer, billion (a multiply-add is two)", [time.layer.name for time in times], parts)


def working_set(seen: Anatomy) -> Graph:
    """What each layer reads and writes."""
    layers = [layer for layer in seen.facts.layers if layer.kernels]
    parts = [
        ("inputs", [seen.batch * layer.input_bytes / layer.calls / 1e6 for layer in layers]),
        ("weights", [layer.weight_bytes / 1e6 for layer in layers]),
        ("outputs", [seen.batch * layer.output_bytes / layer.calls / 1e6 for layer in layers]),
    ]
    return bars("Working set of a layer, MB (4-byte floats)", [layer.name for layer in layers], parts)


def training(seen: Anatomy) -> Graph:
    """Memory of a training step by batch size, with the band of its sum and what the GPU has."""
    batches = sorted({*BATCHES, seen.batch})
    held = [training_memory(seen.facts, batch) for batch in batches]
    parts = [
        ("weights", [each.weights / 1e9 for each in held]),
        ("gradients", [each.gradients / 1e9 for each in held]),
        ("momentum", [each.optimizer / 1e9 for each in held]),
        ("activations", [each.activations.mid / 1e9 for each in held]),
        ("allocator", [each.allocator.mid / 1e9 for each in held]),
    ]
    chart = bars("Training memory by batch size, GB", [str(batch) for batch in batches], parts, "batch size")
    marks: list[Mark] = [*chart.marks]
    marks += [upright(i, each.total.low / 1e9, each.total.high / 1e9, "fg") for i, each in enumerate(held)]
    highest = max(each.total.high for each in held) / 1e9
    if seen.gpu:
        limit = seen.gpu.memory_bytes / 1e9
        highest = max(highest, limit)
        marks.append(Rule(limit, "limit", f"memory of {seen.gpu.name}: {limit:g} GB", dashed=True, level=True))
    y = axis_to(highest * ROOM, lambda value: f"{value:g}")
    return Graph(chart.title, chart.x, y, marks, "Lines: the 80 % band of the sum.")


def roofline(seen: Anatomy) -> list[Graph]:
    """Operations a second against operations a byte; nothing without a GPU."""
    times = [time for time in seen.roofline.layers if time.flops and time.bytes]
    if not times or seen.gpu is None:
        return []
    limits = seen.roofline.ceilings
    low, high = min(0.1, *(t.intensity for t in times)), max(1e3, *(t.intensity for t in times))
    knee = min(high, max(low, limits.flops_per_s / limits.bytes_per_s))
    roof = [(at, min(limits.flops_per_s, at * limits.bytes_per_s) / 1e12) for at in (low, knee, high)]
    dots = [
        Dot(t.intensity, t.flops / t.time_s / 1e12, COLOURS[t.bound], title=t.layer.name, name=f"bound by {t.bound}")
        for t in times
    ]
    rates = [*(rate for _, rate in roof), *(dot.y for dot in dots)]
    x = axis_around([low, high], lambda value: f"{value:g}", title="operations a byte", log=True)
    y = axis_around(rates, lambda value: f"{value:g}", title="TFLOP/s", log=True)
    return [Graph("Roofline: operations a second against operations a byte", x, y, [Line(roof, name="ceiling"), *dots])]
