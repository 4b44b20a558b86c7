"""What a page says of a study: what matters most, lines, heat maps, what no point beats, and every point."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, nan

from markupsafe import Markup

from planner.layout import counted
from planner.page.cells import Bar, Bars, Cell, Figure, Row, Stat, Table, heads
from planner.page.charts import (
    COLOURS,
    STRIP,
    Scale,
    Spot,
    colour,
    dot,
    grid,
    line,
    path,
    plot_area,
    rect,
    scatter,
    strip,
    svg,
)
from planner.page.strips import Legend
from planner.studies.report import FORETOLD, bracketed, headline, number, refusals, shown
from planner.studies.results import AxisAnswer, OutputAnswer, PointAnswer, StudyAnswer, Swing, figure_of
from planner.studies.scenario import Label

BAR = 14
SPOTS_NAMED = 12
"""Points of a Pareto chart that carry a name; more would cover each other."""
POINTS_SHOWN = 2000
"""Rows of the table: a page stays below 1 MB, and the CSV has them all."""


@dataclass(frozen=True, slots=True)
class Heat:
    """Two axes crossed: one figure in each field."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[Cell, int], ...]], ...]
    """Each with its name; each field with its shade in per cent, -1 where it has no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPage:
    """Everything that the template shows."""

    title: str
    headline: str
    stats: tuple[Stat, ...]
    findings: tuple[str, ...]
    foretold: str
    tornado: tuple[Bars, ...]
    lines: tuple[Figure, ...]
    legend: tuple[Legend, ...]
    lines_note: str
    heats: tuple[Heat, ...]
    pareto: Figure | None
    points: Table
    points_note: str
    refusals: tuple[str, ...]
    provenance: tuple[tuple[str, str], ...]


def study_page(answer: StudyAnswer) -> StudyPage:
    """The page of a study."""
    seen = View(answer)
    lines, legend, note = seen.lines()
    return StudyPage(
        title=answer.name,
        headline=headline(answer),
        stats=seen.stats(),
        findings=tuple(seen.findings()),
        foretold=FORETOLD if any(point.foretold for point in answer.points) else "",
        tornado=tuple(seen.tornado()),
        lines=lines,
        legend=legend,
        lines_note=note,
        heats=tuple(seen.heats()),
        pareto=seen.pareto(),
        points=seen.points(),
        points_note=f"The first {POINTS_SHOWN:,}; results.csv has them all."
        if len(answer.points) > POINTS_SHOWN
        else "",
        refusals=tuple(refusals(answer)),
        provenance=tuple(provenance(answer)),
    )


class View:
    """A study and what is looked up in it again and again."""

    def __init__(self, answer: StudyAnswer) -> None:
        self.answer = answer
        self.at = {tuple(point.axes.values()): point for point in answer.points}
        self.base = tuple(axis.values[axis.reference] for axis in answer.axes)
        self.outputs = [*self._threshold(), *answer.outputs]
        self.numeric = [o for o in self.outputs if any(isfinite(self.figure(p, o)) for p in answer.points)]

    def _threshold(self) -> Iterator[OutputAnswer]:
        if search := self.answer.search:
            better = "high" if search.find == "largest" else "low"
            yield OutputAnswer(name="threshold", unit=search.unit, better=better, interval=True)

    def figure(self, point: PointAnswer | None, output: OutputAnswer) -> float:
        """A point's figure, good or bad; NaN where it has none."""
        return nan if point is None or point.failed else figure_of(point, output.name)

    def ends(self, point: PointAnswer, output: OutputAnswer) -> tuple[float, float]:
        """Of its interval; NaN where it has none."""
        found = point.threshold if output.name == "threshold" else point.values.get(output.name)
        match found:
            case {"low": float() | int() as low, "high": float() | int() as high}:
                return low, high
        return nan, nan

    def point(self, changes: Mapping[int, Label]) -> PointAnswer | None:
        """The point with the base's values but for some axes, by their numbers."""
        return self.at.get(tuple(changes.get(i, value) for i, value in enumerate(self.base)))

    def stats(self) -> tuple[Stat, ...]:
        """How large it is and what came of it."""
        points = self.answer.points
        feasible, failed = sum(p.feasible for p in points), sum(p.failed for p in points)
        return (
            Stat("points", Cell(f"{len(points):,}", len(points)), counted(sum(p.tried for p in points), "answer")),
            Stat("feasible", Cell(f"{feasible:,}", feasible), "", "good" if feasible else "bad"),
            *([Stat("failed", Cell(f"{failed:,}", failed), "", "bad")] if failed else []),
            Stat("axes", Cell(str(len(self.answer.axes)), len(self.answer.axes)), self.answer.design),
            *(
                [Stat("seed", Cell(str(self.answer.seed)), "the same for all points")]
                if self.answer.seed is not None
                else []
            ),
        )

    def swings(self, output: OutputAnswer) -> list[Swing]:
        """What each axis does to a figure, those that move it."""
        return [s for s in self.answer.sensitivity if s.output == output.name and s.low_figure != s.high_figure]

    def findings(self) -> Iterator[str]:
        """For each figure what moves it most, and where it is best of all."""
        for output in self.numeric:
            best = self.best(output)
            moved = self.swings(output)
            told = []
            if moved:
                s = moved[0]
                low, high = number(s.low_figure, output), number(s.high_figure, output)
                told.append(f"{s.axis} matters most, from {low} at {s.low} to {high} at {s.high}")
            if best:
                told.append(
                    f"best of all feasible points: {number(self.figure(best, output), output)} at {name_of(best)}"
                )
            if told:
                yield f"{output.name}: {'; '.join(told)}."

    def best(self, output: OutputAnswer) -> PointAnswer | None:
        """The feasible point with the best figure; None where no end of it is better."""
        those = [p for p in self.answer.points if p.feasible and isfinite(self.figure(p, output))]
        if not output.better or not those:
            return None
        sign = 1 if output.better == "low" else -1
        return min(those, key=lambda p: sign * self.figure(p, output))

    def tornado(self) -> Iterator[Bars]:
        """For each figure a bar for each axis, the longest first."""
        for output in self.numeric:
            if moved := self.swings(output):
                yield self._tornado(output, moved)

    def _tornado(self, output: OutputAnswer, moved: Sequence[Swing]) -> Bars:
        low, high = min(s.low_figure for s in moved), max(s.high_figure for s in moved)
        room = (high - low) / 20
        across = Scale(low - room, high + room, 0, STRIP)

        def bar(s: Swing) -> Bar:
            parts = [rect(across(s.low_figure), 2, across(s.high_figure) - across(s.low_figure), BAR - 4, "fill")]
            if s.reference_figure is not None and isfinite(s.reference_figure):
                parts.append(line(across(s.reference_figure), 0, across(s.reference_figure), BAR, "limit"))
            words = f"{number(s.low_figure, output)} at {s.low} to {number(s.high_figure, output)} at {s.high}"
            return Bar(s.axis, strip(parts, BAR, f"{output.name} by {s.axis}: {words}"), words)

        unit = Scale(across.low, across.high, 0, 1)
        ticks = unit.ticks((x, tick(x, output)) for x in unit.steps(3))
        ordered = sorted(moved, key=lambda s: s.low_figure - s.high_figure)
        return Bars(f"What moves {output.name}", tuple(map(bar, ordered)), ticks)

    def crossing(self) -> tuple[int | None, int | None]:
        """Number of the axis that lines run along, the numeric one with most values, and of the one that parts them."""
        axes = self.answer.axes
        along = max(
            (i for i, a in enumerate(axes) if a.numbers and len(a.values) > 2),
            key=lambda i: len(axes[i].values),
            default=None,
        )
        others = [i for i, a in enumerate(axes) if i != along and 1 < len(a.values) <= COLOURS]
        return along, next(iter(others), None)

    def lines(self) -> tuple[tuple[Figure, ...], tuple[Legend, ...], str]:
        """A chart for each figure along one axis, a line for each value of another."""
        along, by = self.crossing()
        if along is None:
            return (), (), ""
        axes = self.answer.axes
        values: tuple[Label, ...] = axes[by].values if by is not None else ("",)
        legend = tuple(Legend(colour(i), str(v)) for i, v in enumerate(values)) if by is not None else ()
        held = [f"{a.name} = {self.base[i]}" for i, a in enumerate(axes) if i not in (along, by)]
        drawn = f"Along {axes[along].name}" + (f", a line for each {axes[by].name}" if by is not None else "")
        note = drawn + (f"; {', '.join(held)}" if held else "") + ". Hollow: not feasible. Bands: intervals."
        charts = [f for o in self.numeric if (f := self._line_chart(o, along, by, values))]
        return tuple(charts), legend, note

    def _line_chart(self, output: OutputAnswer, along: int, by: int | None, values: Sequence[Label]) -> Figure | None:
        axis = self.answer.axes[along]
        rows = [[self.point({along: x} if by is None else {along: x, by: v}) for x in axis.values] for v in values]
        ys = [
            y for row in rows for p in row if p for y in (self.figure(p, output), *self.ends(p, output)) if isfinite(y)
        ]
        if not ys or axis.numbers is None:
            return None
        reach = (min(axis.numbers), max(axis.numbers)), (min(ys), max(ys))
        across, up = plot_area(*reach, lambda y: tick(y, output), axis.log)
        ticks = axis.numbers if len(axis.numbers) <= 6 else across.steps(4)
        parts = grid(across, up, [(x, tick_of(x, axis)) for x in ticks], [(y, tick(y, output)) for y in up.steps(4)])
        for i, row in enumerate(rows):
            parts += self._series(row, axis.numbers, output, across, up, colour(i))
        return Figure(svg(parts, f"{output.name} along {axis.name}"), output.name)

    def _series(
        self,
        row: Sequence[PointAnswer | None],
        xs: Sequence[float],
        output: OutputAnswer,
        across: Scale,
        up: Scale,
        style: str,
    ) -> Iterator[Markup]:
        known = [(x, p) for x, p in zip(xs, row, strict=True) if p and isfinite(self.figure(p, output))]
        ends = [(x, *self.ends(p, output)) for x, p in known]
        band = [(across(x), up(low), up(high)) for x, low, high in ends if isfinite(low) and isfinite(high)]
        if len(band) > 1:
            bounds = [(x, low) for x, low, _ in band] + [(x, high) for x, _, high in reversed(band)]
            yield path(bounds, f"{style} ribbon", closed=True)
        places = [(across(x), up(self.figure(p, output))) for x, p in known]
        for pair in pairwise(places):
            yield path(pair, f"{style} series")
        for (x, y), (_, p) in zip(places, known, strict=True):
            title = f"{name_of(p)}: {number(self.figure(p, output), output)}"
            yield dot(x, y, style if p.feasible else "off", title, 3.5)

    def heats(self) -> Iterator[Heat]:
        """For each figure a table of two axes crossed, the others as in the base."""
        axes = [i for i, a in enumerate(self.answer.axes) if len(a.values) > 1]
        if len(axes) < 2 or self.answer.design != "grid":
            return
        down, across = sorted(sorted(axes, key=lambda i: -len(self.answer.axes[i].values))[:2])
        for output in self.numeric:
            yield self._heat(output, down, across)

    def _heat(self, output: OutputAnswer, down: int, across: int) -> Heat:
        rows, columns = self.answer.axes[down], self.answer.axes[across]
        fields = [[self.point({down: r, across: c}) for c in columns.values] for r in rows.values]
        values = [y for row in fields for p in row if isfinite(y := self.figure(p, output))]
        low, high = min(values, default=0.0), max(values, default=1.0)

        def field(p: PointAnswer | None) -> tuple[Cell, int]:
            y = self.figure(p, output)
            if p is None or not isfinite(y):
                return Cell("-"), -1
            words = number(y, output)
            shade = round(70 * (y - low) / (high - low)) if high > low else 0
            return Cell(words if p.feasible else f"({words})", y), shade

        named = tuple((str(r), tuple(map(field, row))) for r, row in zip(rows.values, fields, strict=True))
        return Heat(output.name, f"{rows.name} / {columns.name}", tuple(map(str, columns.values)), named)

    def pareto(self) -> Figure | None:
        """The first two figures of which less or more is better, against each other."""
        ends = [o for o in self.numeric if o.better and not o.name.startswith("lower_bound")]
        ends = sorted(ends, key=lambda o: ("usd" not in o.name, o.name == "gpu_count"))[:2]
        points = [p for p in self.answer.points if p.feasible and all(isfinite(self.figure(p, o)) for o in ends)]
        if len(ends) < 2 or len(points) < 3:
            return None
        signs = [1 if o.better == "low" else -1 for o in ends]
        costs = [tuple(s * self.figure(p, o) for s, o in zip(signs, ends, strict=True)) for p in points]
        if any(len({c[i] for c in costs}) < 2 for i in (0, 1)):
            return None
        best = [not any(o[0] <= c[0] and o[1] <= c[1] and o != c for o in costs) for c in costs]
        names = [name_of(p) for p, kept in zip(points, best, strict=True) if kept]
        xs, ys = ([self.figure(p, o) for p in points] for o in ends)
        across, up = plot_area((min(xs), max(xs)), (min(ys), max(ys)), lambda y: tick(y, ends[1]))
        letters = iter("ABCDEFGHIJKL"[: len(names)] if len(names) <= SPOTS_NAMED else "")
        spots = [
            Spot(x, y, next(letters, "") if kept else "", name_of(p), "best" if kept else "off")
            for x, y, p, kept in zip(xs, ys, points, best, strict=True)
        ]
        ticks = [(x, tick(x, ends[0])) for x in across.steps(3)], [(y, tick(y, ends[1])) for y in up.steps(4)]
        spots.sort(key=lambda spot: spot.style == "best")  # those that matter above the others
        chart = scatter(spots, ends[0].name, ends[1].name, ticks, (across, up))
        listed = "; ".join(f"{s.name}: {s.title}" for s in spots if s.name)
        return Figure(
            chart, f"{ends[1].name} against {ends[0].name}", f"Filled: no other point beats them in both. {listed}"
        )

    def points(self) -> Table:
        """A row for each."""
        answer = self.answer
        axes, plain_outputs = answer.axes, answer.outputs

        def row(i: int, p: PointAnswer) -> Row:
            cells = [Cell(f"{'~' * p.foretold}{i + 1}", i + 1)]
            cells += [Cell(str(p.axes[a.name]), place(a, p)) for a in axes]
            if answer.search:
                key = f"points.{i}.threshold.mid" if p.threshold else ""
                cells.append(
                    Cell(bracketed(p.threshold, answer.search.unit), number_or_none(figure_of(p, "threshold")), key)
                )
            for o in plain_outputs:
                value = number_or_none(figure_of(p, o.name))
                inner = ".mid" if isinstance(p.values.get(o.name), dict) else ""
                cells.append(
                    Cell(
                        shown(p.values.get(o.name), o),
                        value,
                        f"points.{i}.values.{o.name}{inner}" if value is not None else "",
                    )
                )
            told = "failed" if p.failed else "yes" if p.feasible else "no"
            return Row((*cells, Cell(told), Cell(p.evidence or "-")), bad=not p.feasible)

        titles = ["#", *(a.name for a in axes), *(["threshold"] if answer.search else [])]
        titles += [*(o.name for o in plain_outputs), "feasible", "evidence"]
        figures = ["#", *(a.name for a in axes if a.numbers), *(o.name for o in self.numeric)]
        rows = tuple(row(i, p) for i, p in enumerate(answer.points[:POINTS_SHOWN]))
        return Table("All points", heads(*titles, right=figures), rows)


def number_or_none(value: float) -> float | None:
    """What a table sorts by."""
    return value if isfinite(value) else None


def place(axis: AxisAnswer, point: PointAnswer) -> float:
    """Where a point lies on an axis: its number, or which of its values it has."""
    i = axis.values.index(point.axes[axis.name])
    return axis.numbers[i] if axis.numbers else float(i)


def tick_of(x: float, axis: AxisAnswer) -> str:
    """As the study wrote it, where it did."""
    if axis.numbers and x in axis.numbers:
        return str(axis.values[axis.numbers.index(x)])
    return f"{x:g}"


def tick(value: float, output: OutputAnswer) -> str:
    """A figure on an axis: round, so that `$20` will do."""
    return f"${value:g}" if output.unit.startswith("USD") else number(value, output)


def name_of(point: PointAnswer) -> str:
    """`gpu=T4, load=2`."""
    return ", ".join(f"{axis}={value}" for axis, value in point.axes.items())


def provenance(answer: StudyAnswer) -> Iterator[tuple[str, str]]:
    """What made the answer."""
    yield "question", f"{answer.ask} {answer.base}" + (f", {answer.on}" if answer.on else "")
    yield from (("changed for all points", change) for change in answer.changes)
    if search := answer.search:
        where = " and ".join(search.where)
        ends = " to ".join(map(str, search.between))
        yield (
            "searched for",
            f"{search.find} {search.path} from {ends} where {where}, within {search.tolerance * 100:g} %",
        )
    yield from answer.versions.items()
    yield "oldest price in the catalog", answer.prices_as_of or "-"
    yield "SHA-256 of catalog, profiles and versions", answer.fingerprint
    yield "schema", answer.schema
