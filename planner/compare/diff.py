"""The difference of two answers: what was added, removed and changed, and which figures differ by more than chance."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import ndiff
from enum import StrEnum
from math import hypot, isclose, isfinite, nan
from typing import Any

from planner.compare.answers import BANDS, FIGURES, SERVING, Answer, Attributes, Key, Side, exactly
from planner.compare.gate import INFEASIBLE, GateCondition
from planner.io.store import StoreError
from planner.io.strict_yaml import YamlError, parse
from planner.model.candidate import Candidate
from planner.model.plan import Interval, Plan, Rejection
from planner.model.statement import Code, Statement
from planner.questions.studies.results import SCHEMA as STUDY
from planner.questions.training.answer.option import SCHEMA as TRAINING
from planner.units.writing import dollars, names
from planner.words.candidates import candidate_name
from simulator.errors import InputError

DIFF = "planner.diff/v2"
ASKED_APART = 0.01
"""Rates that were asked count as changed beyond this share: another seed alone moves them by less."""
EQUAL = 1e-8
"""Relative difference that nine written digits cannot tell from none."""
COMMENT = re.compile(r"""("[^"\n]*"|'[^'\n]*')|(?:^|\s)#.*$""", re.MULTILINE)
"""And what stands in quotes, where a `#` begins none."""


class Sign(StrEnum):
    """How a thing changed."""

    ADDED = "+"
    CHANGED = "~"
    REMOVED = "-"


class FigureVerdict(StrEnum):
    """Whether a figure differs."""

    SAME = "same"
    NOISE = "within noise"
    """The interval of the difference holds zero."""
    DIFFERS = "differs"
    UNSURE = "interval unknown"
    """Simulated, and by how much chance moves it nobody knows."""
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An input, or a part of the answer, that is not as it was."""

    sign: Sign
    section: str
    """`inputs`, `machines`, `models`, ..."""
    what: str
    attribute: str = ""
    """What of it changed; empty where it was added or removed."""
    old: object = None
    new: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """A figure in both answers."""

    name: str
    of: str
    """A model, a point; empty for the whole answer."""
    unit: str
    """`s`, `USD/h`, `fraction`, ...; empty for counts."""
    old: Interval | None
    new: Interval | None
    difference: Interval | None = None
    """New less old, with the interval in which the true one lies with 95 %."""
    relative: float | None = None
    """As a share of the old figure; None where that is nothing."""
    overlap: bool | None = None
    """Whether the two intervals overlap; None where one has none."""
    verdict: FigureVerdict


@dataclass(frozen=True, slots=True)
class Note:
    """What helps to read a difference."""

    what: Statement
    rejection: Rejection | None = None
    """Why the fleet it is about was not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What differs."""

    old: Side
    new: Side
    same_arrivals: bool
    """Whether both met the same arrivals: differences are then the answers' own."""
    changes: tuple[Difference, ...]
    figures: tuple[FigureChange, ...]
    notes: tuple[Note, ...]
    schema: str = field(default=DIFF)

    def section(self, name: str) -> list[Difference]:
        """Changes of one section."""
        return [change for change in self.changes if change.section == name]

    @property
    def nothing(self) -> bool:
        """Whether the answers say the same."""
        feasible = self.old.feasible == self.new.feasible
        return feasible and not self.changes and all(f.verdict is FigureVerdict.SAME for f in self.figures)


def difference(old: Interval, new: Interval) -> Interval:
    """New less old, with the interval of two independent means: MOVER (Newcombe 1998, method 10; Zou and Donner 2008).

    56 of 70 less 48 of 80 is 0.20, from 0.0524 to 0.3339. Where both met the same arrivals their means rise and fall
    together, so the true interval is narrower than this one.
    """
    middle = new.mean - old.mean
    below, above = hypot(new.mean - new.low, old.high - old.mean), hypot(new.high - new.mean, old.mean - old.low)
    return Interval(middle, middle - below, middle + above)


def known(figure: Interval) -> bool:
    """Whether its interval is known."""
    return isfinite(figure.low) and isfinite(figure.high)


def exact(figure: Interval) -> bool:
    """Whether nothing in it is chance."""
    return figure.low == figure.high


def compare(old: Answer, new: Answer) -> Diff:
    """What differs between two answers of the same kind."""
    was, now = old.side, new.side
    if was.schema != now.schema and not {was.schema, now.schema} <= {*SERVING}:
        both = f"{was.path} is `{was.schema}`, {now.path} is `{now.schema}`"
        raise StoreError(f"{both}: these have no figures in common. Compare plans and simulations, or two of a kind.")
    return Diff(
        old=old.side,
        new=new.side,
        same_arrivals=met_the_same(old, new),
        changes=(*inputs(old, new), *scenarios(old, new), *parts(old, new)),
        figures=tuple(figure(key, old.figures.get(key), new.figures.get(key)) for key in keys(old, new)),
        notes=tuple(notes(old, new)),
    )


def met_the_same(old: Answer, new: Answer) -> bool:
    """Whether both met the same arrivals."""
    return bool(old.arrivals and new.arrivals and old.arrivals.same_as(new.arrivals))


def inputs(old: Answer, new: Answer) -> Iterator[Difference]:
    """Inputs that changed, but for the sum of the scenario's text. What only one kind of answer tells is no change."""
    for name in dict.fromkeys((*old.inputs, *new.inputs)):
        if name == "scenario_sha256":
            continue  # the lines that changed say more, and a note where none did
        both = name in old.inputs and name in new.inputs
        before, after = old.inputs.get(name), new.inputs.get(name)
        if both and not equal(before, after):
            yield Difference(sign=Sign.CHANGED, section="inputs", what=name, old=before, new=after)
        if not both and old.side.schema == new.side.schema:
            sign = Sign.ADDED if name in new.inputs else Sign.REMOVED
            yield Difference(sign=sign, section="inputs", what=name, old=before, new=after)


def scenarios(old: Answer, new: Answer) -> Iterator[Difference]:
    """Lines of the scenario that came and went, and `--set` values, where answers keep them and ask other things."""
    if not (old.source and new.source and old.source.scenario_text and new.source.scenario_text):
        return
    if asks_the_same(old.source, new.source):
        return
    for line in ndiff(scenario_lines(old.source), scenario_lines(new.source)):
        if line[:2] in ("+ ", "- ") and line[2:].strip():
            yield Difference(sign=Sign(line[0]), section="scenario", what=line[2:].strip())


def asks_the_same(old: Plan, new: Plan) -> bool:
    """Whether two scenarios differ in comments and layout alone."""
    return old.scenario_overrides == new.scenario_overrides and content(old.scenario_text) == content(new.scenario_text)


def scenario_lines(plan: Plan) -> list[str]:
    """A scenario's text without comments, and what was set besides."""
    text = COMMENT.sub(r"\1", plan.scenario_text)
    if content(text) != content(plan.scenario_text):  # a text of several lines may hold what looks like one
        text = plan.scenario_text
    return [*map(str.rstrip, text.splitlines()), *(f"--set {override}" for override in plan.scenario_overrides)]


def content(text: str) -> Any:
    """What a scenario says; the text itself where it is no YAML."""
    try:
        return parse(text).data
    except YamlError:
        return text


OF_BOTH = ("SLOs", "memory")
"""Sections that tell only of what both answers have: what came or went stands elsewhere."""


def parts(old: Answer, new: Answer) -> Iterator[Difference]:
    """Parts that came, went or changed, section by section. GPUs stand for machines where an answer names none."""
    sections = [name for name in old.parts if name in new.parts]
    if "machines" in sections:
        sections.remove("GPUs")
    for section in sections:
        before, after = old.parts[section], new.parts[section]
        for what in dict.fromkeys((*before, *after)):
            if what in before and what in after:
                yield from attributes(section, what, before[what], after[what])
            elif section not in OF_BOTH:
                sign = Sign.ADDED if what in after else Sign.REMOVED
                had, has = before.get(what), after.get(what)
                yield Difference(sign=sign, section=section, what=what, old=had, new=has)


def attributes(section: str, what: str, before: Attributes, after: Attributes) -> Iterator[Difference]:
    """What of a part changed."""
    for name in dict.fromkeys((*before, *after)):
        had, has = before.get(name), after.get(name)
        if not equal(had, has, ASKED_APART if name == "offered_rps" else EQUAL):
            yield Difference(sign=Sign.CHANGED, section=section, what=what, attribute=name, old=had, new=has)


def equal(before: object, after: object, apart: float = EQUAL) -> bool:
    """Whether two values are the same; numbers up to a share that may lie between them, NaN like NaN."""
    if isinstance(before, float) and isinstance(after, float):
        return isclose(before, after, rel_tol=apart) or (before != before and after != after)
    return before == after


def keys(old: Answer, new: Answer) -> list[Key]:
    """Figures of either, those of the whole answer first; what only one kind of answer tells is left out."""
    alike, both = old.side.schema == new.side.schema, old.figures.keys() & new.figures.keys()
    comparable = [key for key in dict.fromkeys((*old.figures, *new.figures)) if alike or key in both]
    return sorted(comparable, key=lambda key: bool(key.of))


def figure(key: Key, old: Interval | None, new: Interval | None) -> FigureChange:
    """One figure of both answers."""
    change = FigureChange(
        name=key.name,
        of=key.of,
        unit=key.unit,
        old=old,
        new=new,
        verdict=one_sided(old, new),
    )
    if old is None or new is None or not (isfinite(old.mean) and isfinite(new.mean)):
        return change
    apart = exactly(new.mean - old.mean) if key.name in BANDS else difference(old, new)
    return replace(
        change,
        difference=apart,
        relative=apart.mean / old.mean if old.mean else None,
        overlap=overlap(old, new),
        verdict=judge(old, new, apart),
    )


def overlap(old: Interval, new: Interval) -> bool | None:
    """Whether two intervals overlap; None where one is not known, or nothing in either is chance."""
    both_exact = exact(old) and exact(new)
    if both_exact or not known(old) or not known(new):
        return None
    return old.low <= new.high and new.low <= old.high


def one_sided(old: Interval | None, new: Interval | None) -> FigureVerdict:
    """Of a figure that some answer does not have, or where it is not known."""
    if old is None or new is None:
        return FigureVerdict.ADDED if old is None else FigureVerdict.REMOVED
    if isfinite(old.mean):
        return FigureVerdict.REMOVED
    return FigureVerdict.ADDED if isfinite(new.mean) else FigureVerdict.SAME


def judge(old: Interval, new: Interval, apart: Interval) -> FigureVerdict:
    """Whether a figure differs by more than chance."""
    if equal(old.mean, new.mean):
        return FigureVerdict.SAME
    if not known(apart):
        return FigureVerdict.UNSURE
    return FigureVerdict.NOISE if not exact(apart) and apart.low <= 0 <= apart.high else FigureVerdict.DIFFERS


# Notes


def notes(old: Answer, new: Answer) -> Iterator[Note]:
    """What helps to read the difference."""
    if old.side.feasible != new.side.feasible:
        yield Note(Statement(code=Code.NO_LONGER_FEASIBLE if old.side.feasible else Code.FEASIBLE_NOW))
    if old.arrivals and new.arrivals and figures_of_parts(old) != figures_of_parts(new):
        yield Note(chance(met_the_same(old, new), old))
    if apart := p99_of_two_kinds(old, new):
        yield Note(Statement(code=Code.P99_OF_TWO_KINDS, subjects=apart))
    if old.source and new.source:
        yield from fleets(old.source, new.source)
    if old.arrivals and has_hidden_changes(old, new):
        yield Note(Statement(code=Code.HIDDEN_CHANGES))


def p99_of_two_kinds(old: Answer, new: Answer) -> tuple[str, ...]:
    """Models of both whose p99 is a mean in one answer, and in the other what draws of speeds keep."""
    both = old.parts.get("models", {}).keys() & new.parts.get("models", {}).keys()
    return tuple(sorted(both & (old.p99_of_draws ^ new.p99_of_draws)))


def figures_of_parts(answer: Answer) -> dict[Key, Interval]:
    """Figures of models and points, which chance moves."""
    return {key: figure for key, figure in answer.figures.items() if key.of}


def has_hidden_changes(old: Answer, new: Answer) -> bool:
    """Whether the scenarios differ and no line of them shows it."""
    if any(change.section == "scenario" for change in scenarios(old, new)):
        return False
    if old.source and new.source and old.source.scenario_text and asks_the_same(old.source, new.source):
        return False
    return old.inputs.get("scenario_sha256") != new.inputs.get("scenario_sha256")


def chance(same: bool, old: Answer) -> Statement:
    """How far intervals may be trusted for differences."""
    if old.arrivals and old.side.schema == STUDY:
        seed = Statement(code=Code.SAME_SEED, subjects=(str(old.arrivals.seed),))
        return seed if same else Statement(code=Code.OTHER_SEEDS)
    return Statement(code=Code.SAME_ARRIVALS if same else Code.OTHER_ARRIVALS)


def fleets(old: Plan, new: Plan) -> Iterator[Note]:
    """What became of the older fleet, and what the newer one was before."""
    was, now = old.recommendation, new.recommendation
    if was.candidate == now.candidate or not was.models or not now.models:
        return
    yield from fleet_notes(was.candidate, new, Code.OLD_FLEET_MEETS, Code.OLD_FLEET_REJECTED)
    yield from fleet_notes(now.candidate, old, Code.NEW_FLEET_MET, Code.NEW_FLEET_REJECTED)


def fleet_notes(candidate: Candidate, plan: Plan, meets: Code, rejected: Code) -> Iterator[Note]:
    """What a plan says of a fleet that it does not recommend; nothing where it does not name it."""
    fleet = (candidate_name(candidate),)
    if other := next((one for one in plan.alternatives if one.candidate == candidate), None):
        figures = {"cost_usd_per_hour": other.cost_usd_per_hour}
        yield Note(Statement(code=meets, subjects=fleet, figures=figures))
    elif no := next((no for no in plan.rejections if no.subject == candidate), None):
        yield Note(Statement(code=rejected, subjects=fleet), no)


# Conditions


def crossed(diff: Diff, conditions: Sequence[GateCondition]) -> list[str]:
    """One line for each condition that holds, and for each figure. What is lost outright makes every condition hold."""
    if conditions and (lost := lost_feasibility(diff)):
        return [f"--fail-on {condition.text}: {lost}." for condition in conditions]
    return [line for c in conditions if c.name != INFEASIBLE for line in crossings(diff, c)]


def lost_feasibility(diff: Diff) -> str:
    """What was feasible and no longer is; empty where nothing is lost."""
    if diff.old.feasible and not diff.new.feasible:
        return f"{diff.new.path} is infeasible, {diff.old.path} is not"
    points = [c.what for c in diff.section("points") if c.attribute == "feasible" and c.new is False]
    return f"infeasible now at {names(points, 3)}" if points else ""


def crossings(diff: Diff, condition: GateCondition) -> list[str]:
    """The figures for which a condition holds; InputError where it cannot be checked."""
    figures = concerned(diff, condition)
    if not figures:
        raise InputError(f"--fail-on {condition.text}: {diff.new.path} has no {condition.name} to check.")
    if not condition.relative and any(f.name == "cost_usd" for f in figures):
        raise InputError(f"--fail-on {condition.text}: a training has no cost by the hour. Write e.g. `cost>+5%`.")
    lines = [crossing(f, condition) for f in figures]
    return [line for line in lines if line]


def concerned(diff: Diff, condition: GateCondition) -> list[FigureChange]:
    """The figures that a condition is about; of trainings those of the cheapest."""
    meant = [name for name, kind in FIGURES.items() if kind.metric == condition.name]
    figures = [f for f in diff.figures if f.name in meant and f.new is not None]
    return [f for f in figures if f.of == "cheapest"] if diff.new.schema == TRAINING else figures


def crossing(figure: FigureChange, condition: GateCondition) -> str:
    """What a condition found of one figure; empty where it does not hold, or a change has nothing to start from.

    A figure that is no longer known meets nothing: every condition holds of it.
    """
    new = figure.new.mean if figure.new else nan
    old = figure.old.mean if figure.old else nan
    whose = f"{figure.of}: " if figure.of else ""
    if isfinite(old) and not isfinite(new):
        return f"--fail-on {condition.text}: {whose}there was a figure, and there is none any more."
    if not condition.crossed(old, new):
        return ""
    noise = ", within noise" if condition.signed and figure.verdict is FigureVerdict.NOISE else ""
    found = condition.found(old, new, dollars if figure.name == "cost_usd" else None)
    return f"--fail-on {condition.text}: {whose}{found}{noise}."
