"""Study files read from YAML: axes, values, the threshold, outputs, each with its place where something is wrong."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import starmap
from math import prod
from os.path import exists
from pathlib import Path
from typing import Any

from planner.io.load import LAST, ScenarioError, ScenarioReader, line, read_yaml, refusal
from planner.io.overrides import read_override, words_of
from planner.io.strict_yaml import Problem, YamlError
from planner.model.scenario import Scenario
from planner.questions.studies.base import LOAD, Base, ChangedValue, Unresolved, read_base
from planner.questions.studies.engine import Ask, Inputs, WorkerMachine
from planner.questions.studies.figures import AskedFigure
from planner.questions.studies.scenario import (
    FEASIBLE,
    Axis,
    Condition,
    Design,
    Label,
    Search,
    SearchSpec,
    Study,
    StudySpec,
    Value,
    figures_of,
    output_of,
    parts_of,
    with_unit,
)
from planner.questions.training.scenario import byte_rate, flop_rate
from planner.units.errors import Steps, shown
from planner.units.reading import NUMBER, did_you_mean, duration, fraction, memory, price, rate, ratio_of
from simulator.near import known_ones

POINTS_MAX = 100_000
"""Most points of one study: some hours of planning, and a table that a spreadsheet still opens."""
STEPS_MAX = 1000
DEFAULT = {
    Ask.PLAN: ("fleet", "gpu_count", "cost_usd_per_hour", "attainment", "p99_s"),
    Ask.SIMULATE: ("attainment", "p99_s", "utilization"),
    Ask.TRAIN: ("option", "gpu_count", "time_s", "cost_usd"),
}
"""Outputs where none are named."""
CONDITION = re.compile(rf"\s*([\w.\-]+(?:\[[^\[\]]+\])?)\s*(>=|<=|>|<)\s*({NUMBER})\s*")
QUANTITIES = ((duration, "s"), (rate, "/s"), (memory, "bytes"), (fraction, "fraction"), (price, "USD/h"))
"""Quantities that values of one axis may be written as in several units."""
RANGE = ("from", "to", "steps", "log")
OF_STUDIES = {"base", "ask", "axes", "design", "search", "outputs"}
"""Keys that no base has."""


@dataclass(frozen=True)
class StudyStart:
    """The base with the changes that all points have."""

    base: Base
    on: WorkerMachine | None
    changes: tuple[ChangedValue, ...]

    def resolve(self, *more: ChangedValue) -> Inputs:
        """A point with `more` changes; Unresolved where it is no scenario."""
        return self.base.resolve((*self.changes, *more), self.on)

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Names of the models; a training has none."""
        scenario = self.resolve().loaded.scenario
        return tuple(model.name for model in scenario.models) if isinstance(scenario, Scenario) else ()


def load_study(path: Path, overrides: Sequence[str] = (), seed: int | None = None) -> Study:
    """The study in a YAML file, its base changed by `path=value`; ScenarioError lists all that is wrong."""
    text, document = read_yaml(path)
    reader = StudyReader(document)
    study = reader.study(path, text, [read_change(override, path) for override in overrides], seed)
    if study is None or reader.problems:
        raise refusal(path, reader.problems)
    return study


def read_change(text: str, path: Path) -> ChangedValue:
    """A change by `--set`; ScenarioError where it is none."""
    try:
        change = ChangedValue(*read_override(text), text)
        if (key := words_of(change.path)[0]) in OF_STUDIES:
            raise ValueError(f"`{key}` is a key of the study, and --set changes its base. Change it in the file.")
        return change
    except YamlError as error:
        wrong = f"the value {error}"
    except ValueError as error:
        wrong = str(error)
    raise ScenarioError([line(path, Problem(LAST, 0, wrong, "", text))])


class StudyReader(ScenarioReader):
    """Turns a document into a study and gathers the problems on the way."""

    def study(self, path: Path, text: str, overrides: Sequence[ChangedValue], seed: int | None) -> Study | None:
        """The study, or None where the document holds none."""
        spec = self.validated(StudySpec, ("base", "axes"))
        if spec is None or self.problems:
            return None
        if (path.parent / spec.base).resolve() == path.resolve():
            self.report(("base",), "is this study itself. Name a scenario.")
            return None
        if not exists(path.parent / spec.base):
            self.report(("base",), no_base(path.parent / spec.base, spec.base))
            return None
        base = read_base(path.parent / spec.base, spec.ask)
        start = StudyStart(
            base=base,
            on=WorkerMachine(spec.on.gpu, spec.on.count) if spec.on else None,
            changes=(*fixed_changes(spec, base, seed), *overrides),
        )
        ask = spec.ask or base.ask(start.on)
        self.check_ask(spec, ask, base)
        self.check_overrides(spec, overrides)
        if self.problems or not self.check_base(spec, start):
            return None
        study = Study(
            name=spec.name or path.stem,
            path=path,
            text=text,
            ask=ask,
            base=base,
            base_as_written=spec.base.as_posix(),
            on=start.on,
            changes=start.changes,
            axes=tuple(self.axes(spec, start)),
            design=spec.design,
            search=self.search(spec.search, ask, start),
            outputs=tuple(self.outputs(spec.outputs or DEFAULT[ask], ask, start.models)),
        )
        self.check_size(study.axes, spec.design)
        return study

    def check_ask(self, spec: StudySpec, ask: Ask, base: Base) -> None:
        """Notes a question that the base does not answer."""
        if base.training != (ask is Ask.TRAIN):
            kind = "training: `ask: train`" if base.training else "serving: `ask: plan` or `ask: simulate`"
            self.report(("ask",), f"`{ask}` does not go with {spec.base}, a scenario of {kind}.")
        if (ask is Ask.SIMULATE) != (spec.on is not None):
            hint = "Write e.g. `on: {gpu: V100, count: 1}`." if ask is Ask.SIMULATE else "Leave it out."
            self.report(("on",), f"goes with `ask: simulate`, and only with that. {hint}")
        if spec.seed is not None and base.training:
            self.report(("seed",), "a training draws no random numbers. Leave it out.")
        if not spec.axes and spec.search is None:
            self.report(("axes",), "nothing is varied. Give an axis, e.g. `load: [0.5, 1, 2]`, or a `search`.")

    def check_overrides(self, spec: StudySpec, overrides: Sequence[ChangedValue]) -> None:
        """Notes changes of what is varied anyway."""
        varied = {*spec.axes, *([spec.search.path] if spec.search else [])}
        for change in overrides:
            if change.path in varied:
                rule = f"`{change.path}` is varied by the study, so that this would change nothing. Leave it out."
                self.problems.append(Problem(LAST, 0, rule, "", change.text))

    def check_base(self, spec: StudySpec, start: StudyStart) -> bool:
        """True where the base resolves; problems of `set` are noted at their places, all others at the base's."""
        try:
            start.resolve()
        except Unresolved as error:
            of_set = {str(ChangedValue(at, value)): ("set", at) for at, value in spec.set.items()}
            elsewhere = [no for no in error.problems if no.override not in of_set]
            for no in error.problems:
                if no.override in of_set:
                    self.report(of_set[no.override], no.message)
            if elsewhere:
                raise ScenarioError([line(start.base.path, problem) for problem in elsewhere]) from None
            return False
        return True

    def axes(self, spec: StudySpec, start: StudyStart) -> Iterator[Axis]:
        """The axes, each value tried on the base."""
        for name, written in spec.axes.items():
            at: Steps = ("axes", name)
            if spec.search and name == spec.search.path:
                self.report(at, "is what `search` looks for. Keep it in one of the two.")
            is_path = not (isinstance(written, dict) and "cases" in written)
            if is_path and name != LOAD and not start.base.training and (hint := did_you_mean(name, [LOAD])):
                self.report(at, f"unknown key.{hint} It multiplies the rates of all streams.", at_key=True)
                continue
            values = tuple(self.values(name, written))
            labels = [value.label for value in values]
            if twice := [label for i, label in enumerate(labels) if label in labels[:i]]:
                self.report(at, f"has `{twice[0]}` twice. Keep one.")
            self.check_values(start, values, at, written)
            numbers, unit = numbers_of(labels)
            log = isinstance(written, dict) and bool(written.get("log"))
            yield Axis(name, values, numbers, unit, log, reference(start, values))

    def values(self, name: str, written: Any) -> Iterator[Value]:
        """The values of one axis."""
        at: Steps = ("axes", name)
        match written:
            case list() if written:
                for i, item in enumerate(written):
                    if isinstance(item, dict):
                        self.report((*at, i), "must be a value. Name mappings: `{cases: {label: {path: value}}}`.")
                    yield Value(label_of(item), (ChangedValue(name, item),))
            case dict() if isinstance(written.get("cases"), dict) and written["cases"]:
                self.check_keys(at, written, ("cases",))
                yield from self.cases((*at, "cases"), written["cases"])
            case dict() if written.keys() >= {"from", "to", "steps"}:
                self.check_keys(at, written, RANGE)
                yield from self.stepped(name, written)
            case _:
                forms = "a list of values, `{from: 1, to: 8, steps: 4}` or `{cases: {label: {path: value}}}`"
                got = "an empty list" if written == [] else shown(written)
                self.report(at, f"must be {forms}, got {got}.")

    def check_keys(self, at: Steps, written: Mapping[str, Any], known: Sequence[str]) -> None:
        """Notes unknown keys."""
        for key in written.keys() - set(known):
            hint = did_you_mean(key, list(known))
            self.report((*at, key), f"unknown key.{hint} Known: {', '.join(known)}.", at_key=True)

    def cases(self, at: Steps, cases: Mapping[str, Any]) -> Iterator[Value]:
        """Values that change several things at once."""
        for label, changes in cases.items():
            if not isinstance(changes, dict):
                self.report((*at, label), f"must be a mapping of paths to values, got {shown(changes)}.")
                continue
            yield Value(label, tuple(starmap(ChangedValue, changes.items())))

    def stepped(self, name: str, written: Mapping[str, Any]) -> Iterator[Value]:
        """Values at equal steps, or with `log` at equal ratios."""
        at: Steps = ("axes", name)
        steps, log = written["steps"], written.get("log", False)
        if not isinstance(steps, int) or isinstance(steps, bool) or not 2 <= steps <= STEPS_MAX:
            self.report((*at, "steps"), f"must be a whole number from 2 to {STEPS_MAX}, got {shown(steps)}.")
            return
        if not isinstance(log, bool):
            self.report((*at, "log"), f"must be `true` or `false`, got {shown(log)}.")
            return
        ends = self.ends(at, written["from"], written["to"], ("from", "to"))
        if ends is None:
            return
        low, high, unit = ends
        if log and low <= 0:
            self.report((*at, "from"), f"must be above 0 with `log: true`, got {low:g}.")
            return
        for number in between(low, high, steps, log=log):
            label = with_unit(number, unit)
            yield Value(label, (ChangedValue(name, label),))

    def ends(self, at: Steps, low: Any, high: Any, keys: Sequence[str | int]) -> tuple[float, float, str] | None:
        """Both ends of a range in one unit, the smaller of theirs; None where they are none."""
        start, end = measured(low), measured(high)
        for key, written, known in zip(keys, (low, high), (start, end), strict=True):
            if known is None:
                remedy = "Write e.g. `0.5` or `50 ms`, and dollars without their sign."
                self.report((*at, key), f"must be a number, or one with a unit, got {shown(written)}. {remedy}")
        if start is None or end is None:
            return None
        (first, unit), (last, other) = start, end
        if unit != other:
            ratio = ratio_of(unit, other, byte_rate, flop_rate)
            if ratio is None:
                named = f"`{unit or 'none'}` and `{other or 'none'}`"
                self.report(
                    (*at, keys[1]), f"must have a unit like that of the other end, got {named}. Write both alike."
                )
                return None
            if ratio > 1:
                first, unit = float(Decimal(repr(first)) * ratio), other
            else:
                last = float(Decimal(repr(last)) / ratio)
        if first >= last:
            self.report((*at, keys[1]), f"must be above the other end, {first:g}, got {last:g}. Exchange them.")
            return None
        return first, last, unit

    def place_of(self, at: Steps, written: Any, i: int) -> Steps:
        """Where the value number `i` of an axis stands."""
        match written:
            case list():
                return (*at, i)
            case {"cases": dict() as cases}:
                return (*at, "cases", [label for label, changes in cases.items() if isinstance(changes, dict)][i])
        return at

    def check_values(self, start: StudyStart, values: Sequence[Value], at: Steps, written: Any) -> None:
        """Notes values with which the base is no scenario, the other axes left alone; what is wrong of all, once."""
        wrong = [self.wrong(start, value, at) for value in values]
        of_all = [text for text in wrong[0] if all(text in those for those in wrong)] if len(wrong) > 1 else []
        for text in of_all:
            self.report(at, text)
        for i, those in enumerate(wrong):
            for text in those:
                if text not in of_all:
                    self.report(self.place_of(at, written, i), text)

    def wrong(self, start: StudyStart, value: Value, at: Steps) -> list[str]:
        """What keeps the base from being a scenario with a value."""
        try:
            start.resolve(*value.changes)
        except Unresolved as error:
            return [
                f"{no.path}: {no.message}" if no.path and no.path not in at else no.message for no in error.problems
            ]
        return []

    def search(self, spec: SearchSpec | None, ask: Ask, start: StudyStart) -> Search | None:
        """The threshold to look for; None where there is none, and with problems where the spec is wrong."""
        if spec is None:
            return None
        at: Steps = ("search",)
        ends = self.ends((*at, "between"), *spec.between, keys=(0, 1))
        conditions = [self.condition((*at, "where", i), text, ask, start.models) for i, text in enumerate(spec.where)]
        if ends is None or self.problems:
            return None
        low, high, unit = ends
        if low <= 0:
            self.report((*at, "between", 0), f"must be above 0, got {low:g}.")
            return None
        search = Search(
            path=spec.path,
            low=low,
            high=high,
            unit=unit,
            find=spec.find,
            conditions=tuple(filter(None, conditions)),
            tolerance=spec.tolerance,
            whole=spec.path != LOAD and not unit and all(isinstance(end, int) for end in spec.between),
        )
        lowest = search.written(low)
        path: Steps = (*at, "path")
        for problem in self.wrong(start, Value(lowest, (ChangedValue(spec.path, lowest),)), path):
            self.report(path, problem)
        return search

    def condition(self, at: Steps, text: str, ask: Ask, models: Sequence[str]) -> Condition | None:
        """One of `where`."""
        if text == FEASIBLE:
            return Condition(text, text, ">=", 1.0)
        match = CONDITION.fullmatch(text)
        if match is None:
            self.report(at, f"must be `{FEASIBLE}` or e.g. `cost_usd_per_hour<=6`, got {shown(text)}.")
            return None
        name, sign, limit = match.groups()
        known = self.output(at, name, ask, models)
        if known and not known.about.number:
            self.report(at, f"`{name}` is in words, which cannot be compared. Name a number.")
        return Condition(text, name, sign, float(limit))

    def outputs(self, names: Sequence[str], ask: Ask, models: Sequence[str]) -> Iterator[AskedFigure]:
        """Figures to keep; notes those that no point has."""
        for i, name in enumerate(names):
            if found := self.output(("outputs", i), name, ask, models):
                yield found
            if name in names[:i]:
                self.report(("outputs", i), f"`{name}` is there already. Keep one.")

    def output(self, at: Steps, name: str, ask: Ask, models: Sequence[str]) -> AskedFigure | None:
        """A figure; notes a name that is none, or of a model that is not there."""
        try:
            found = output_of(name, ask)
        except KeyError:
            known = list(figures_of(ask))
            hint = did_you_mean(parts_of(name)[0], known)
            listed = "" if hint else known_ones(parts_of(name)[0], known, f"docs/studies.md has those of `ask: {ask}`")
            self.report(at, f"unknown output `{name}`.{hint}{listed}")
            return None
        if found.model and found.model not in models:
            hint = did_you_mean(found.model, list(models)) or known_ones(found.model, models, "those of the base")
            self.report(at, f"no model `{found.model}`.{hint}")
        return found

    def check_size(self, axes: Sequence[Axis], design: Design) -> None:
        """Notes a study that would never end."""
        each = [max(1, len(axis.values)) for axis in axes]
        count = prod(each) if design is Design.GRID else 1 + sum(values - 1 for values in each)
        if count > POINTS_MAX:
            self.report(("axes",), f"make {count:,} points, more than {POINTS_MAX:,}. Leave values out.")


def no_base(path: Path, written: Path) -> str:
    """What is wrong with a base that is not there, with a close name beside it."""
    beside = sorted(file.name for file in path.parent.glob("*.yaml"))
    return f"`{written}`: no such file.{did_you_mean(path.name, beside)} Name a scenario."


def fixed_changes(spec: StudySpec, base: Base, seed: int | None) -> Iterator[ChangedValue]:
    """Changes of the base that the study itself makes at all points; a training has no seed."""
    yield from starmap(ChangedValue, spec.set.items())
    started = spec.seed if seed is None else seed
    if started is not None and not base.training:
        yield ChangedValue("seed", started)


def reference(start: StudyStart, values: Sequence[Value]) -> int:
    """Number of the value with which the base is what it is anyway, else of the one in the middle."""
    try:
        plain = start.resolve()
        for i, value in enumerate(values):
            changed = start.resolve(*value.changes)
            if (changed.loaded.scenario, changed.on) == (plain.loaded.scenario, plain.on):
                return i
    except Unresolved:  # which is said where values are checked
        pass
    return len(values) // 2


def measured(written: Any) -> tuple[float, str] | None:
    """`15 fps` is 15 and `fps`; None where it is no number."""
    if isinstance(written, int | float) and not isinstance(written, bool):
        return float(written), ""
    match = re.fullmatch(rf"\s*({NUMBER})\s*([^\d\s,.].*?)?\s*", written) if isinstance(written, str) else None
    return (float(match[1]), match[2] or "") if match else None


def label_of(value: Any) -> Label:
    """A value in a table: a list's items joined."""
    match value:
        case bool() | None:
            return json.dumps(value)
        case int() | float() | str():
            return value
        case list():
            return ", ".join(str(label_of(item)) for item in value) or "any"
    return json.dumps(value)


def between(low: float, high: float, steps: int, *, log: bool) -> Iterator[float]:
    """Numbers from one end to the other, at equal steps or equal ratios, of six digits where they are not whole."""
    for i in range(steps):
        share = i / (steps - 1)
        number = low * (high / low) ** share if log else low + (high - low) * share
        yield number if number.is_integer() else float(f"{number:.6g}")


def numbers_of(labels: Sequence[Label]) -> tuple[tuple[float, ...] | None, str]:
    """Labels as numbers in one unit: the one they are written in, else the quantity's own."""
    pairs = [pair for label in labels if (pair := measured(label))]
    if not pairs or len(pairs) < len(labels):
        return None, ""
    units = {unit for _, unit in pairs}
    if len(units) == 1:
        return tuple(number for number, _ in pairs), units.pop()
    for quantity, unit in QUANTITIES:
        with suppress(ValueError):
            return tuple(quantity(label) for label in labels), unit
    return None, ""
