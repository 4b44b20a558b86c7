"""A study in words: how many points, their figures, what matters most, why points are not feasible."""

import math
from collections.abc import Iterator, Mapping, Sequence

from planner.model.scenario import SEED_MAX
from planner.questions.studies.engine import Ask
from planner.questions.studies.figures import Figure, middle
from planner.questions.studies.results import JSON, AxisAnswer, OutputAnswer, PointAnswer, StudyAnswer, Swing, figure_of
from planner.questions.studies.scenario import parts_of
from planner.units.writing import counted, decimals, dollars, gigabytes, per_second, percent, ranges, seconds
from simulator.grouping import grouped
from simulator.world.profile import Evidence

REASONS_SHOWN = 5
PREDICTED = "~: predicted; nobody measured some model on this GPU. Each replication draws speeds from their bands."
NOT_ASKED = "The study has no point with these values."
CLOSEST = "A row that is not feasible shows the fleet that came closest; it is no answer."
MONEY = frozenset({"USD", "USD/h"})
"""Units of money."""
TITLES = {
    "gpu_count": "GPUs",
    "cost_usd_per_hour": "cost an hour",
    "lower_bound_usd_per_hour": "lower bound an hour",
    "attainment": "SLO attainment",
    "p99_s": "mean p99",
    "p99_over_slo": "mean p99 over SLO",
    "mean_s": "mean latency",
    "processed_fraction": "processed",
    "goodput_rps": "goodput",
    "offered_rps": "request rate",
    "power_w": "power",
    "load_share": "waiting for weights",
    "swaps_per_s": "swaps a second",
    "peak_memory_bytes": "peak memory",
    "time_s": "time",
    "cost_usd": "cost",
    "energy_j": "energy",
    "co2_kg": "CO2",
    "memory_bytes": "memory",
    "step_s": "time of a step",
}
"""What people call figures."""
SHOWN_LONG_S = 600.0
"""Times from here on are shown in hours."""


def not_measured(points: Sequence[PointAnswer]) -> Iterator[str]:
    """Which points rest on speeds that others published, or that are assumed."""
    for ground in (Evidence.PUBLISHED, Evidence.ASSUMED):
        those = [number for number, point in enumerate(points, start=1) if point.speed_evidence == ground]
        whose = "all points" if len(those) == len(points) else f"points {ranges(those)}"
        drawn = "; each replication draws its own" if any(points[number - 1].uncertain for number in those) else ""
        if those:
            yield f"Speeds of {whose} are {ground}, not measured{drawn}."


def headline(answer: StudyAnswer) -> str:
    """How many points there are, and what came of them."""
    feasible = sum(point.feasible for point in answer.points)
    failed = sum(point.failed for point in answer.points)
    shape = " x ".join(f"{axis.name} ({len(axis.values)})" for axis in answer.axes)
    what = f"{answer.name}: {counted(len(answer.points), 'point')}" + (f", {shape}" if shape else "")
    seed = "" if answer.seed is None else "; one seed for all"
    if answer.seed is not None and answer.seed <= SEED_MAX:  # plans have one of their own, which nobody can give
        seed += f", {answer.seed}"
    lost = f", {failed} failed" if failed else ""
    if answer.search:
        return f"{what}; searched for the {answer.search.find} {answer.search.path}, found {feasible}{lost}{seed}"
    return f"{what}; {feasible} feasible{lost}{seed}"


def outputs_of(answer: StudyAnswer) -> list[OutputAnswer]:
    """All figures, the threshold among them where one was searched for."""
    if not (search := answer.search):
        return list(answer.outputs)
    better = "high" if search.find == "largest" else "low"
    threshold = OutputAnswer(name="threshold", unit=search.unit, better=better, interval=True)
    return [threshold, *answer.outputs]


def title(answer: StudyAnswer, name: str) -> str:
    """`cost an hour`, `p99 of yolov3`; of a threshold `largest load`."""
    if name == "threshold" and (search := answer.search):
        return f"{search.find} {search.path}"
    figure, model = parts_of(name)
    called = TITLES.get(figure, figure.replace("_", " "))
    return f"{called} of {model}" if model else called


def numeric(answer: StudyAnswer) -> list[OutputAnswer]:
    """Figures that are numbers."""
    good = [point for point in answer.points if not point.failed]
    return [o for o in outputs_of(answer) if any(math.isfinite(figure_of(point, o.name)) for point in good)]


def name_of(point: PointAnswer) -> str:
    """`gpu=T4, load=2`."""
    return ", ".join(f"{axis}={value}" for axis, value in point.axes.items())


def swings_title(answer: StudyAnswer) -> str:
    """What the effects of the axes are called."""
    return f"What changes with {answer.axes[0].name}" if len(answer.axes) == 1 else "What matters most"


def reference(answer: StudyAnswer) -> str:
    """At which point an axis is varied; empty where no other axis is held."""
    at = ", ".join(f"{axis.name}={axis.values[axis.reference]}" for axis in answer.axes)
    return f"Each axis varied alone, the others at the reference point: {at}." if len(answer.axes) > 1 else ""


def state(point: PointAnswer) -> str:
    """`yes`, `no` or `failed`: whether it is feasible."""
    if point.failed:
        return "failed"
    return "yes" if point.feasible else "no"


def held(threshold: Figure, unit: str) -> str:
    """`1.78 x`: the last value that held."""
    return "-" if threshold is None else with_unit(threshold["mid"], unit)


def with_unit(value: float, unit: str) -> str:
    """`74.4 ms`, in the unit that was asked."""
    return f"{value:.3g}{unit and ' '}{unit}"


def bracketed(threshold: Figure, unit: str) -> str:
    """`1.78 x [1.83]`: what held, and the nearest that did not."""
    if threshold is None:
        return "-"
    low, mid, high = (threshold[end] for end in ("low", "mid", "high"))
    other = high if low == mid else low
    return f"{held(threshold, unit)} [{'not tried' if other is None else f'{other:.3g}'}]"


def shown(figure: Figure, output: OutputAnswer) -> str:
    """A figure with its interval; `-` where there is none."""
    match figure:
        case None:
            return "-"
        case str():
            return figure
        case {"low": low, "mid": mid, "high": high} if low is not None and high is not None and low != high:
            return f"{number(mid, output)} [{number(low, output)}, {number(high, output, up=True)}]"
    return number(middle(figure), output)


def number(value: float | None, output: OutputAnswer, *, up: bool = False) -> str:
    """A number in its unit, as people read it."""
    if value is None or not math.isfinite(value):
        return "-"
    if output.name == "threshold":
        return with_unit(value, output.unit)
    match output.unit:
        case "s":
            return f"{value / 3600:.{decimals(value / 3600)}f} h" if value >= SHOWN_LONG_S else seconds(value)
        case unit if unit in MONEY:
            return dollars(value)
        case "fraction":
            return f"{percent(value, up=up)} %"
        case "bytes":
            return gigabytes(value)
        case "J":
            return f"{value / 3.6e6:.{decimals(value / 3.6e6)}f} kWh"
        case "W" | "kg":
            return f"{value:,.{decimals(value)}f} {output.unit}"
        case "/s":
            return per_second(value)
    return f"{value:.4g}"


def refusals(answer: StudyAnswer) -> list[str]:
    """Why points are not feasible, each reason once."""
    why = grouped((point.reason, str(i)) for i, point in enumerate(answer.points, start=1) if not point.feasible)
    texts = [f"{joined(numbers)}: {reason}" for reason, numbers in why.items()]
    more = len(texts) - REASONS_SHOWN
    return texts if more <= 0 else [*texts[:REASONS_SHOWN], f"... and {more} more reasons, in {JSON}"]


def joined(numbers: Sequence[str]) -> str:
    """`3, 4, 7`; of many the first."""
    return ", ".join(numbers) if len(numbers) <= 6 else f"{', '.join(numbers[:5])} and {len(numbers) - 5} more"


def left_out(swing: Swing, ask: Ask) -> str:
    """Values that have no figure."""
    why = "failed" if ask is Ask.SIMULATE else "not feasible"
    return f"{joined([str(value) for value in swing.left_out])} ({why})" if swing.left_out else ""


def moving(answer: StudyAnswer) -> set[str]:
    """Axes that move a figure."""
    return {swing.axis for swing in answer.sensitivity if swing.low_figure != swing.high_figure}


def feasible_by(answer: StudyAnswer) -> dict[str, dict[str, tuple[int, int]]]:
    """By axis that makes points feasible or not, all others alike: of each value, points that are, and all."""
    return {axis.name: feasible_at(answer, axis) for axis in answer.axes if decides(answer, axis)}


def decides(answer: StudyAnswer, axis: AxisAnswer) -> bool:
    """Of two points that differ by this axis alone, one is feasible and the other is not."""
    found = grouped(
        (tuple(str(value) for name, value in point.axes.items() if name != axis.name), point.feasible)
        for point in answer.points
    )
    return any(len(set(kinds)) > 1 for kinds in found.values())


def feasible_at(answer: StudyAnswer, axis: AxisAnswer) -> dict[str, tuple[int, int]]:
    """Feasible points at each value of an axis, and all there."""
    found = {}
    for value in axis.values:
        points = [point for point in answer.points if point.axes[axis.name] == value]
        found[str(value)] = sum(point.feasible for point in points), len(points)
    return found


def least_and_most(counts: Mapping[str, tuple[int, int]]) -> str:
    """`0 of 18 points at $10, 15 of 18 at $350`: the values of an axis with the least and the greatest share."""
    ranked = sorted(counts, key=lambda value: counts[value][0] / max(1, counts[value][1]))
    (few, of_few), (many, of_many) = counts[ranked[0]], counts[ranked[-1]]
    return f"{few} of {counted(of_few, 'point')} at {ranked[0]}, {many} of {of_many} at {ranked[-1]}"


def findings(answer: StudyAnswer) -> Iterator[str]:
    """For each figure what moves it most, and where it is best of all."""
    for output in numeric(answer):
        parts = [*most_moved(answer, output), *best_of_all(answer, output)]
        if parts:
            yield f"{title(answer, output.name)}: {'; '.join(parts)}."


def most_moved(answer: StudyAnswer, output: OutputAnswer) -> Iterator[str]:
    """The axis that matters most; of an only one where it moves the figure."""
    moved = (s for s in answer.sensitivity if s.output == output.name and s.low_figure != s.high_figure)
    if s := next(moved, None):
        low, high = number(s.low_figure, output), number(s.high_figure, output)
        if len(answer.axes) > 1:
            yield f"{s.axis} matters most, from {low} at {s.low} to {high} at {s.high}"
        else:
            yield f"from {low} at {s.axis}={s.low} to {high} at {s.axis}={s.high}"


def best_of_all(answer: StudyAnswer, output: OutputAnswer) -> Iterator[str]:
    """The feasible point with the best figure; nothing where no end of it is better."""
    points = [p for p in answer.points if p.feasible and math.isfinite(figure_of(p, output.name))]
    if output.better and points:
        choose = min if output.better == "low" else max
        best = choose(points, key=lambda p: figure_of(p, output.name))
        yield f"best of all feasible points: {number(figure_of(best, output.name), output)} at {name_of(best)}"


def provenance(answer: StudyAnswer) -> Iterator[tuple[str, str]]:
    """Question, changes and versions that made the answer."""
    yield "question", f"{answer.ask} {answer.base}" + (f", {answer.on}" if answer.on else "")
    yield from (("changed for all points", change) for change in answer.changes)
    if search := answer.search:
        ends = " to ".join(map(str, search.between))
        where = f"where {' and '.join(search.where)}, within {search.tolerance * 100:g} %"
        yield "searched for", f"{search.find} {search.path} from {ends} {where}"
    yield from answer.versions.items()
    yield "oldest price in the catalog", answer.prices_as_of or "-"
    yield "SHA-256 of catalog, profiles and versions", answer.fingerprint
    yield "schema", answer.schema
