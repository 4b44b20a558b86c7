"""The scenario that a study changes: read once, resolved anew for every point."""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from planner.io.demand import with_load
from planner.io.load import Loaded, Recording, ScenarioReader, read_yaml
from planner.io.strict_yaml import Problem, YamlDocument
from planner.model.parts.merging import Merging
from planner.model.scenario import Scenario
from planner.questions.studies.engine import Ask, Inputs, WorkerMachine
from planner.questions.training.reading import LoadedTraining, odd, training_of
from simulator.errors import InputError

LOAD = "load"
"""The path that scales the rates of all streams."""
SERVING_KEYS = {"models", "streams"}
TRAINING_KEYS = {"model", "data", "train"}


class Unresolved(Exception):
    """Changes with which a base is no scenario."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{no.path}: {no.message}" if no.path else no.message for no in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """A value that a base has instead of its own."""

    path: str
    value: Any
    text: str = ""
    """The change as a person wrote it."""

    def __str__(self) -> str:
        """`path=value` as `--set` reads it, for JSON is YAML."""
        return self.text or f"{self.path}={json.dumps(self.value, ensure_ascii=False)}"


def read_base(path: Path, ask: Ask | None) -> "Base":
    """The scenario at `path`; ScenarioError where it is no YAML. Its keys show its kind; else `ask` does."""
    _, document = read_yaml(path)
    keys = document.data.keys() if isinstance(document.data, dict) else set()
    training = not SERVING_KEYS & keys and bool(TRAINING_KEYS & keys or ask is Ask.TRAIN)
    return Base(path, document, training)


@dataclass(frozen=True, slots=True)
class Base:
    """A scenario before it is changed."""

    path: Path
    document: YamlDocument
    training: bool
    recorded: dict[Recording, Any] = field(default_factory=dict)
    """Content of recordings: read once for all points."""
    stated: dict[Path, Any] = field(default_factory=dict)
    """Content of files on merged models, by file."""

    def resolve(self, changes: Sequence[ChangedValue], on: WorkerMachine | None) -> Inputs:
        """The scenario after changes in their order, `load` last; Unresolved says what is wrong."""
        document = replace(self.document, data=deepcopy(self.document.data), problems=list(self.document.problems))
        reader = ScenarioReader(document)
        machine = apply(reader, changes, on)
        factor = self.factor(reader, changes)
        loaded = self.trained(reader) if self.training else self.served(reader, factor)
        if loaded is None or reader.problems:
            raise Unresolved(reader.problems)
        return Inputs(self.ask(machine), loaded, machine)

    def ask(self, machine: WorkerMachine | None) -> Ask:
        """The command that answers a point."""
        if self.training:
            return Ask.TRAIN
        return Ask.SIMULATE if machine else Ask.PLAN

    def served(self, reader: ScenarioReader, factor: float) -> Loaded | None:
        """A scenario of serving with its recordings, its rates times a factor; None, or problems, where it is none."""
        loaded = reader.loaded(self.path, self.recorded)
        if loaded is None:
            return None
        loaded = self.known(reader, loaded)
        if not reader.problems:
            try:
                loaded = with_load(loaded, factor)
            except InputError as error:
                reader.report(("streams",), str(error))
            else:
                reader.check_demand(loaded)
        return loaded

    def known(self, reader: ScenarioReader, loaded: Loaded) -> Loaded:
        """With the content of the file on merged models, which a worker may not have."""
        about = loaded.scenario.sharing
        file = about.curve or about.table
        if file is None or loaded.scenario.merging is Merging.NONE:
            return loaded
        from planner.placing.merging.options import stated

        try:
            if file not in self.stated:
                self.stated[file] = stated(loaded)
        except InputError as error:
            reader.report(("sharing", "curve" if about.curve else "table"), str(error))
        return replace(loaded, stated=self.stated.get(file))

    def trained(self, reader: ScenarioReader) -> LoadedTraining | None:
        """A scenario of training; None, or problems, where it is none."""
        scenario = training_of(reader)
        return None if scenario is None else LoadedTraining(scenario, self.path, tuple(odd(scenario)))

    def factor(self, reader: ScenarioReader, changes: Sequence[ChangedValue]) -> float:
        """The last change of the load; 1 where there is none, and a problem where it is no factor."""
        of_load = [change for change in changes if change.path == LOAD]
        if not of_load:
            return 1.0
        change, factor = of_load[-1], of_load[-1].value
        is_number = isinstance(factor, int | float) and not isinstance(factor, bool)
        if not self.training and is_number and 0 < factor < 1e9:
            return float(factor)
        rule = "a training has no streams" if self.training else "it must be a number above 0, e.g. `2`"
        text = f"`load` multiplies the rates of all streams: {rule}."
        reader.problems.append(Problem(0, 0, text, "", str(change)))
        return 1.0


def apply(reader: ScenarioReader, changes: Sequence[ChangedValue], on: WorkerMachine | None) -> WorkerMachine | None:
    """Make all changes of a base but that of its load, in their order; the machine after them."""
    machine = on
    for change in changes:
        try:
            if machine and change.path in ("on.gpu", "on.count"):
                machine = moved(machine, change)
            elif change.path != LOAD and isinstance(reader.document.data, dict):
                for path in reader.every(change.path):
                    reader.assign(path, change.value, str(change))
        except ValueError as error:
            reader.problems.append(Problem(0, 0, str(error), "", str(change)))
    return machine


def moved(machine: WorkerMachine, change: ChangedValue) -> WorkerMachine:
    """The machine with another GPU, or more of them."""
    value = change.value
    if change.path == "on.gpu" and isinstance(value, str):
        return replace(machine, gpu=value)
    if change.path == "on.count" and isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10_000:
        return replace(machine, count=value)
    wanted = "the name of a kind of GPU" if change.path == "on.gpu" else "a whole number from 1 to 10000"
    raise ValueError(f"`{change.path}` must be {wanted}, got {json.dumps(value)[:40]}.")


def key_of(inputs: Inputs, fingerprint: str) -> str:
    """SHA-256 of all that a point's answer depends on: of files what is in them, not their names."""
    recorded, stated = [], None
    if isinstance(inputs.loaded, Loaded):
        recorded = [
            (i, sha256(table.times_s.tobytes()).hexdigest(), table.period_s)
            for i, table in sorted(inputs.loaded.traces.items())
        ]
        stated = sha256(repr(inputs.loaded.stated).encode()).hexdigest()
    on = asdict(inputs.on) if inputs.on else None
    scenario = inputs.loaded.scenario
    if isinstance(scenario, Scenario):
        streams = tuple(replace(s, trace=s.trace and replace(s.trace, file=Path())) for s in scenario.streams)
        scenario = replace(scenario, streams=streams, sharing=replace(scenario.sharing, table=None, curve=None))
    parts = [fingerprint, inputs.ask, on, asdict(scenario), recorded, stated]
    return sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
