"""Runs a study: hands points to an engine, stores each that ends, goes on where an earlier run stopped."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planner.io.load import Loaded
from planner.io.store import StoreError, read_json
from planner.model.progress import silent
from planner.model.scenario import Scenario
from planner.questions.studies.base import ChangedValue, Unresolved, key_of
from planner.questions.studies.engine import Ask, Context, Engine, Inputs, Lost, Outcome, failed, fingerprint
from planner.questions.studies.figures import AskedFigure, Figure
from planner.questions.studies.journal import StudyJournal
from planner.questions.studies.results import (
    JSON,
    AxisAnswer,
    OutputAnswer,
    PointAnswer,
    SearchAnswer,
    StudyAnswer,
    sensitivity,
)
from planner.questions.studies.scenario import Axis, Find, Search, Study
from planner.questions.studies.threshold import bracket, holds, next_values
from planner.replay.run import PLANNING
from planner.search.names import with_known_names
from planner.search.simulation import gpu_named

Tell = Callable[[int, int, int], None]
"""Gets how many rows are done, of how many, and how many points were worked out."""


@dataclass(slots=True)
class StudyRow:
    """One combination of the axes' values: a point, or with a search the points that are tried."""

    at: tuple[int, ...]
    search: Search | None
    outcomes: dict[float | None, tuple[str, Outcome]] = field(default_factory=dict)
    """Key and outcome by the value that was tried; None: there is no search."""
    begun: set[float | None] = field(default_factory=set)

    def wanted(self) -> list[float | None]:
        """Values to be worked out next."""
        if self.search is None:
            return [value for value in (None,) if value not in self.begun]
        return [value for value in next_values(self.search, self.held()) if value not in self.begun]

    def held(self) -> dict[float, bool]:
        """True where all conditions held, by value."""
        assert self.search
        return {v: holds(self.search, outcome) for v, (_, outcome) in self.outcomes.items() if v is not None}

    @property
    def done(self) -> bool:
        """True where nothing is left to try."""
        return len(self.begun) == len(self.outcomes) and not self.wanted()


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of running a study."""

    answer: StudyAnswer
    computed: int
    """Points that were worked out now."""
    taken: int
    """Points that were there already."""
    lost: tuple[str, ...]
    """Why points are missing; they count as failed in the answer, and are tried anew with `--resume`."""


class StudyRunner:
    """A study on its way."""

    def __init__(self, study: Study, context: Context, journal: StudyJournal, engine: Engine, tell: Tell) -> None:
        self.study = study
        self.context = context
        self.journal = journal
        self.engine = engine
        self.tell = tell
        self.fingerprint = fingerprint(context)
        self.rows = [StudyRow(at, study.search) for at in study.combinations()]
        self.ready = deque((row, value) for row in self.rows for value in self.ask(row))
        self.waiting: dict[str, list[tuple[StudyRow, float | None]]] = {}
        """Rows that wait for the points under way, by key."""
        self.found_before = frozenset(journal.outcomes)
        self.taken: set[str] = set()
        self.computed = 0
        self.lost: list[str] = []
        self.rows_done = 0

    def has_points(self) -> bool:
        """True where some point of this study, as it is now, is there already."""
        return any(self.is_there(row, value) for row, value in self.ready)

    def is_there(self, row: StudyRow, value: float | None) -> bool:
        """True for a point that was there before."""
        try:
            return key_of(self.inputs(row, value), self.fingerprint) in self.found_before
        except Unresolved:
            return False

    def run(self) -> None:
        """Until every row is done."""
        while self.ready or self.waiting:
            while self.ready and len(self.waiting) < self.engine.window:
                self.start(*self.ready.popleft())
            if self.waiting:
                self.finish(*self.engine.take())

    def start(self, row: StudyRow, value: float | None) -> None:
        """Have a point worked out, unless it is known already or is no scenario at all."""
        try:
            inputs = self.inputs(row, value)
        except Unresolved as error:
            self.learn(row, value, "", failed(str(error)))
            return
        key = key_of(inputs, self.fingerprint)
        if key in self.journal.outcomes:
            self.taken |= {key} & self.found_before
            self.learn(row, value, key, self.journal.outcomes[key])
        elif key in self.waiting:
            self.waiting[key].append((row, value))
        else:
            self.waiting[key] = [(row, value)]
            self.engine.submit(key, inputs)

    def inputs(self, row: StudyRow, value: float | None) -> Inputs:
        """A point, resolved."""
        changes = self.study.changes_at(row.at)
        if row.search and value is not None:
            changes = (*changes, ChangedValue(row.search.path, row.search.written(value)))
        return self.study.base.resolve(changes, self.study.on)

    def finish(self, key: str, outcome: Outcome | Lost) -> None:
        """Store the outcome from an engine, and give it to the rows that wait for it."""
        waiting = self.waiting.pop(key)
        if isinstance(outcome, Lost):
            self.lost.append(outcome.reason)
            outcome = failed(outcome.reason)
        else:
            self.journal.keep(key, outcome)
            self.computed += 1
        for row, value in waiting:
            self.learn(row, value, key, outcome)

    def learn(self, row: StudyRow, value: float | None, key: str, outcome: Outcome) -> None:
        """Give a row an outcome; what it wants next comes first, so that rows end one after the other."""
        row.outcomes[value] = (key, outcome)
        self.ready.extendleft((row, further) for further in reversed(self.ask(row)))
        self.rows_done += row.done
        self.tell(self.rows_done, len(self.rows), self.computed)

    def ask(self, row: StudyRow) -> list[float | None]:
        """Values that a row wants now; each is asked for once."""
        wanted = row.wanted()
        row.begun |= set(wanted)
        return wanted


def run_study(
    study: Study, context: Context, engine: Engine, directory: Path, *, resume: bool = False, tell: Tell = silent
) -> Ran:
    """The answer to a study. Every point that ends is stored in `directory` at once; `resume` begins with those.

    The same study gives the same answer, whatever the engine, the order in which points end, and interruptions.
    StoreError where the folder has another study, whose results would be replaced.
    """
    for at in study.around((0,) * len(study.axes)):
        try:
            resolved = study.base.resolve(study.changes_at(at), study.on)
        except Unresolved:  # that point will say so itself
            continue
        if isinstance(resolved.loaded, Loaded):
            with_known_names(resolved.loaded, context.catalog, context.library)
        if resolved.on:
            gpu_named(resolved.on.gpu, context.catalog)
    with StudyJournal(directory, resume=resume) as journal:
        runner = StudyRunner(study, context, journal, engine, tell)
        if journal.outcomes and (other_study(study, directory) or not runner.has_points()):
            journal.refuse_other()
        with engine:
            runner.run()
        journal.sort([key for row in runner.rows for _, (key, _) in sorted_outcomes(row)])
    answer = answer_of(study, runner.rows, context, runner.fingerprint)
    return Ran(answer, runner.computed, len(runner.taken), tuple(dict.fromkeys(runner.lost)))


def other_study(study: Study, directory: Path) -> bool:
    """True where the results in a folder are those of a study that asks something else, whatever points they share."""
    try:
        kept = read_json(directory / JSON)
    except StoreError:  # no results
        return False
    own = {"name": study.name, "base": study.base_as_written, "ask": study.ask}
    return isinstance(kept, dict) and any(kept.get(key) != value for key, value in own.items())


def sorted_outcomes(row: StudyRow) -> list[tuple[float | None, tuple[str, Outcome]]]:
    """A row's outcomes by value."""
    return sorted(row.outcomes.items(), key=lambda item: -1.0 if item[0] is None else item[0])


def answer_of(study: Study, rows: Sequence[StudyRow], context: Context, known: str) -> StudyAnswer:
    """The whole answer."""
    from planner.io.warm import versions

    axes = tuple(map(axis_answer, study.axes))
    points = tuple(point_of(study, row) for row in rows)
    outputs = tuple(map(output_answer, study.outputs))
    names = [output.name for output in outputs]
    swung = ["threshold", *names] if study.search else names
    return StudyAnswer(
        name=study.name,
        ask=study.ask,
        base=study.base_as_written,
        seed=seed_of_points(study),
        versions=versions(),
        fingerprint=known,
        prices_as_of=min((p.as_of for i in context.catalog.instances for p in i.prices.values()), default=""),
        on=f"{study.on.count} x {study.on.gpu}" if study.on else "",
        changes=tuple(map(str, study.changes)),
        design=study.design,
        axes=axes,
        search=searched(study.search),
        outputs=outputs,
        points=points,
        sensitivity=sensitivity(axes, swung, points, study.ask),
    )


def seed_of_points(study: Study) -> int | None:
    """Start of all random numbers of a study's replays; None where it trains. Plans have one of their own."""
    scenario = study.base.resolve(study.changes, study.on).loaded.scenario
    if not isinstance(scenario, Scenario):
        return None
    return PLANNING if study.ask is Ask.PLAN else scenario.seed


def axis_answer(axis: Axis) -> AxisAnswer:
    """Facts about an axis."""
    return AxisAnswer(
        name=axis.name,
        values=tuple(value.label for value in axis.values),
        numbers=axis.numbers,
        unit=axis.unit,
        log=axis.log,
        reference=axis.reference,
    )


def output_answer(output: AskedFigure) -> OutputAnswer:
    """Facts about an output."""
    about = output.about
    return OutputAnswer(name=output.name, unit=about.unit, better=about.better, interval=about.interval)


def searched(search: Search | None) -> SearchAnswer | None:
    """The threshold that was searched for."""
    if search is None:
        return None
    return SearchAnswer(
        path=search.path,
        between=(search.written(search.low), search.written(search.high)),
        unit=search.unit,
        find=search.find,
        where=tuple(condition.text for condition in search.conditions),
        tolerance=search.tolerance,
    )


def point_of(study: Study, row: StudyRow) -> PointAnswer:
    """The answer to one combination."""
    labels = {axis.name: axis.values[i].label for axis, i in zip(study.axes, row.at, strict=True)}
    shown, threshold, reason = chosen(row)
    key, outcome = row.outcomes[shown]
    return PointAnswer(
        axes=labels,
        threshold=threshold,
        values={output.name: outcome["values"].get(output.name) for output in study.outputs},
        evidence=outcome["evidence"],
        predicted=bool(outcome["predicted"]),
        speed_evidence=outcome["speed_evidence"],
        uncertain=bool(outcome["uncertain"]),
        feasible=bool(outcome["feasible"]) if row.search is None else threshold is not None,
        failed=bool(outcome["failed"]),
        reason=reason or outcome["reason"],
        tried=len(row.outcomes),
        key=key,
    )


def chosen(row: StudyRow) -> tuple[float | None, Figure, str]:
    """The value of a row that is shown, the threshold, and a remark on it."""
    if row.search is None:
        return None, None, ""
    search, found = row.search, bracket(row.search, row.held())
    largest = search.find is Find.LARGEST
    if found.good is None:
        easiest = search.low if largest else search.high
        why = row.outcomes[easiest][1]["reason"] or f"{', '.join(c.text for c in search.conditions)} does not hold"
        return easiest, None, f"not even at {search.written(easiest)}: {why}"
    ends = {"low": found.good, "high": found.bad} if largest else {"low": found.bad, "high": found.good}
    beyond = f"holds at {search.written(found.good)}, the end of the search" if found.bad is None else ""
    return found.good, {"low": ends["low"], "mid": found.good, "high": ends["high"]}, beyond
