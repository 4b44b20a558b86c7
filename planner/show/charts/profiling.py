"""Charts of an anatomy: operations, working set and cells at work by layer, training memory by kind, the roofline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from calibrate.layers.work import LayerWork
from planner.prediction.rules.roofline import Bound, LayerTime
from planner.questions.profiling.anatomy import Anatomy
from planner.questions.profiling.systolic import Dataflow, SystolicArray, map_model
from planner.questions.profiling.whatif import training_memory
from planner.show.charts.kit.axes import ChartAxis, axis_around, axis_to, plain
from planner.show.charts.kit.blocks import Box, Chart, Dot, Graph, Line, Rule, colour, stacked, upright
from simulator.world.hardware import GPU

BATCHES = (16, 32, 64, 128, 256)
"""Of the picture of training memory."""
COLOURS = {Bound.ARITHMETIC: colour(1), Bound.BANDWIDTH: colour(0), Bound.OVERHEAD: colour(9), Bound.NONE: colour(9)}
NAMES_MAX = 40
"""Layers up to which each is named on its axis; more would overlap."""
ROOM = 1.05
"""Height over the highest bar."""
STAY = {Dataflow.WS: "weights stay", Dataflow.IS: "inputs stay", Dataflow.OS: "outputs stay"}
BESIDE = 0.27
"""Width of each of three bars side by side."""


def anatomy(seen: Anatomy) -> list[list[Chart]]:
    """All charts."""
    return [[operations(seen), working_set(seen)], [training(seen), *roofline(seen), *cells_at_work(seen)]]


def title(seen: Anatomy) -> str:
    """`resnet50 on T4, batch 8, fp32`."""
    where = f" on {seen.gpu.name}" if seen.gpu else ""
    return f"{seen.facts.model}{where}, batch {seen.batch}, {seen.precision}"


def bars(title: str, names: Sequence[str], heights: Sequence[Mapping[str, float]], about: str = "") -> Graph:
    """Bars on top of one another, one for each name."""
    boxes = list(stacked(heights))
    few = len(names) <= NAMES_MAX
    x = ChartAxis(
        -0.5,
        len(names) - 0.5,
        list(enumerate(names)) if few else [],
        about if few else f"{len(names)} layers, in the order they run",
    )
    most = max((box.high for box in boxes), default=1.0)
    return Graph(title, x, axis_to(most * ROOM, plain), boxes)


def operations(seen: Anatomy) -> Graph:
    """Operations of each layer."""
    times = [time for time in seen.roofline.layers if time.flops]
    heights = [{"operations": time.flops / 1e9} for time in times]
    return bars("Operations of a layer, billion (a multiply-add is two)", [time.layer.name for time in times], heights)


def working_set(seen: Anatomy) -> Graph:
    """What each layer reads and writes."""
    layers = [layer for layer in seen.facts.layers if layer.kernels]
    heights = [working_set_mb(layer, seen.batch) for layer in layers]
    return bars("Working set of a layer, MB (4-byte floats)", [layer.name for layer in layers], heights)


def working_set_mb(layer: LayerWork, batch: int) -> dict[str, float]:
    """Of one layer, by kind."""
    samples = batch / layer.calls
    return {
        "inputs": samples * layer.input_bytes / 1e6,
        "weights": layer.weight_bytes / 1e6,
        "outputs": samples * layer.output_bytes / 1e6,
    }


def training(seen: Anatomy) -> Graph:
    """Memory of a training step by batch size, with the band of its sum and what the GPU has."""
    batches = sorted({*BATCHES, seen.batch})
    held = [training_memory(seen.facts, batch) for batch in batches]
    kinds = [kind for kind in held[0].kinds() if any(each.kinds()[kind] for each in held)]
    heights = [{kind: each.kinds()[kind] / 1e9 for kind in kinds} for each in held]
    chart = bars("Training memory by batch size, GB", [str(batch) for batch in batches], heights, "batch size")
    bands = [upright(i, each.total.low / 1e9, each.total.high / 1e9, "fg") for i, each in enumerate(held)]
    limits = limit(seen.gpu) if seen.gpu else []
    most = max([*(each.total.high / 1e9 for each in held), *(rule.at for rule in limits)])
    marks = [*chart.marks, *bands, *limits]
    return replace(chart, y=axis_to(most * ROOM, plain), marks=marks, note="Lines: the 80 % band of the sum.")


def limit(gpu: GPU) -> list[Rule]:
    """What the GPU has."""
    size_gb = gpu.memory_bytes / 1e9
    return [Rule(size_gb, "limit", f"memory of {gpu.name}: {size_gb:g} GB", dashed=True, level=True)]


def roofline(seen: Anatomy) -> list[Graph]:
    """Operations a second against operations a byte; nothing without a GPU."""
    times = [time for time in seen.roofline.layers if time.flops and time.bytes]
    if not times or seen.gpu is None:
        return []
    limits = seen.roofline.ceilings
    intensities = [t.intensity for t in times]
    low, high = min(0.1, *intensities), max(1e3, *intensities)
    knee = min(high, max(low, limits.flops_per_s / limits.bytes_per_s))
    roof = [(at, min(limits.flops_per_s, at * limits.bytes_per_s) / 1e12) for at in (low, knee, high)]
    dots = list(map(layer_dot, times))
    rates = [*(rate for _, rate in roof), *(dot.y for dot in dots)]
    x = axis_around([low, high], plain, title="operations a byte", log=True)
    y = axis_around(rates, plain, title="TFLOP/s", log=True)
    return [Graph("Roofline: operations a second against operations a byte", x, y, [Line(roof, name="ceiling"), *dots])]


def layer_dot(time: LayerTime) -> Dot:
    """One layer."""
    rate, name = time.flops / time.time_s / 1e12, f"bound by {time.bound}"
    return Dot(time.intensity, rate, COLOURS[time.bound], title=time.layer.name, name=name)


def cells_at_work(seen: Anatomy) -> list[Graph]:
    """How many of a systolic array's cells multiply, layer by layer and dataflow by dataflow; nothing without one."""
    if seen.on_array is None:
        return []
    array = seen.on_array.array
    names = [mapped.layer.name for mapped in seen.on_array.layers]
    boxes = [box for number, flow in enumerate(Dataflow) for box in shares(seen, array, flow, number - 1)]
    most = max(box.high for box in boxes)
    x = bars("", names, []).x
    return [Graph(f"Cells of {array.name} at work, %", x, axis_to(most * ROOM, plain), boxes)]


def shares(seen: Anatomy, array: SystolicArray, flow: Dataflow, place: int) -> Iterator[Box]:
    """A bar for each layer, so many bars to the right of its name."""
    for number, mapped in enumerate(map_model(seen.facts, array, flow, seen.batch)):
        middle = number + place * BESIDE
        left, right = middle - BESIDE / 2, middle + BESIDE / 2
        yield Box(left, right, 0, 100 * mapped.utilization, colour(place + 1), mapped.layer.name, STAY[flow])
