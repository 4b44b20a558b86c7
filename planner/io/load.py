"""Reads scenarios: strict YAML, `--set` overrides, validation; every error at once, each with its place."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from calibrate.io.files import printable
from planner.io.overrides import EVERY, child, item, place, read_override, take_away, words_of
from planner.io.references import structure
from planner.io.schemas import document_of, kind_of
from planner.io.strict_yaml import Problem, YamlDocument, YamlError, parse, read_text
from planner.io.traces.reading import read_counts, read_trace
from planner.io.traces.table import TraceError, TraceTable
from planner.model.checked import adapter, described, written
from planner.model.parts.pipelines import FanOutSpec
from planner.model.parts.streams import Phase, StreamSpec
from planner.model.replications import HORIZON_S, horizon_s, longest_slo_s, warmup_s
from planner.model.scenario import Scenario
from planner.units.errors import (
    UNKNOWN_KEY,
    Steps,
    Wrong,
    dotted,
    first_unknown,
    keys_of,
    message,
    mistakes,
    shown,
    unknown_key,
)
from planner.units.reading import did_you_mean, written_duration
from simulator.errors import InputError
from simulator.world.workload import Arrivals, FixedRate, Gamma, Poisson, Stream, Trace, Workload

T = TypeVar("T")
MADE = Path("scenario")
"""Stands for the file of a scenario that was made in Python, whose errors name the path of a field alone."""
MAX_SHOWN = 200
MAX_LINES = 100
LAST = 2**31
"""Line that sorts what overrides did after all lines of the file."""
REQUESTS_MAX = 5e7
"""Most requests of one replication: a few GB of memory and some minutes."""
RAREST_S = 86_400.0
"""A model that is asked less than once a day has nothing to replay."""
UPTIME_MIN_S = 60.0
"""Machines that fail more often than once a minute serve nobody."""
JITTER_MAX = 0.1
"""Share of the horizon that a frame may be late by, so that frames due in it mostly arrive in it."""


PROBLEMS_SHOWN = 12
"""Of many, which are often one mistake made again and again."""


class ScenarioError(InputError):
    """All that is wrong with a scenario, a line each: `file:line:column: path: what is wrong. what to write.`"""

    def __init__(self, problems: Sequence[str]) -> None:
        more = len(problems) - PROBLEMS_SHOWN
        rest = [f"and {more:,} more such lines: mend these first"] if more > 0 else []
        super().__init__("\n".join([*problems[:PROBLEMS_SHOWN], *rest]))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A scenario and what belongs to it."""

    scenario: Scenario
    sha256: str
    """Digest of the file's text, and of the overrides where there are any."""
    path: Path
    traces: Mapping[int, TraceTable] = field(default_factory=dict)
    """Recorded arrivals, by the number of the stream that sends them."""
    text: str = ""
    """The file as it was."""
    overrides: tuple[str, ...] = ()
    stated: Any = None
    """Contents of the file of `sharing.table` or `sharing.curve`, where it was read before merging asks for it."""


def load_scenario(path: Path, overrides: Sequence[str] = ()) -> Loaded:
    """The scenario in a YAML file after `key=value` overrides; ScenarioError lists all that is wrong."""
    return load_text(text_of(path), path, overrides)


def load_data(data: Mapping[str, Any], overrides: Sequence[str] = ()) -> Loaded:
    """The same of a scenario that was made in Python."""
    return load_text(written(data), MADE, overrides)


def load_text(text: str, path: Path, overrides: Sequence[str]) -> Loaded:
    """The scenario in a text. Files that it names lie in the folder of `path`."""
    reader = ScenarioReader(parsed(text, path))
    for override in overrides:
        reader.override(override)
    loaded = reader.loaded(path, {})
    if loaded:
        reader.check_demand(loaded)
    if loaded is None or reader.problems:
        raise refusal(path, reader.problems)
    sha256 = hashlib.sha256("\n--set ".join([text, *overrides]).encode())
    return replace(loaded, sha256=sha256.hexdigest(), text=text, overrides=tuple(overrides))


def read_yaml(path: Path) -> tuple[str, YamlDocument]:
    """Text and content of a YAML file; ScenarioError lists all that is wrong with its form."""
    text = text_of(path)
    return text, parsed(text, path)


def text_of(path: Path) -> str:
    """Text of a file; ScenarioError where it cannot be had."""
    try:
        return read_text(path)
    except ValueError as error:
        raise ScenarioError([f"{path}: {error}"]) from None


def parsed(text: str, path: Path) -> YamlDocument:
    """The document in a text; ScenarioError lists all that is wrong with its form, or says that it is an answer."""
    try:
        document = parse(text)
    except YamlError as error:
        raise ScenarioError([line(path, problem) for problem in error.problems]) from None
    if kind_of(document.data) is not None:
        hint = f"`planner explain {path}` reads a plan; name the scenario it was made from."
        raise ScenarioError([f"{path}: is an answer (`{document.data['schema']}`), not a scenario. {hint}"])
    return document


def refusal(path: Path, problems: Sequence[Problem]) -> ScenarioError:
    """All problems of a scenario in the order of the text, of very many the first."""
    ordered = sorted(problems, key=lambda problem: (problem.line, problem.column))
    lines = list(dict.fromkeys(line(path, problem) for problem in ordered))
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"{path}: and {len(lines) - MAX_LINES} more."]
    return ScenarioError(lines)


def line(path: Path, problem: Problem) -> str:
    """The problem as one line; what comes from an override names that instead of the file."""
    if problem.override:
        where = f"--set {problem.override}: "
    elif path == MADE:
        where = ""
    elif problem.line:
        where = f"{path}:{problem.line}:{problem.column}: "
    else:
        where = f"{path}: "
    text = where + (f"{problem.path}: " if problem.path else "") + problem.message
    return printable(text)  # keys and values are the writer's


class WasRead(Protocol):
    """A scenario of any kind, and the text that it was read from."""

    @property
    def path(self) -> Path:
        """The file's."""

    @property
    def text(self) -> str:
        """The file as it was."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """Changes by `--set`."""


def refused(loaded: WasRead, problems: Sequence[Wrong]) -> ScenarioError:
    """Errors in values of a scenario that was read before, each with its place: the `--set` that brought it,
    else where it stands in the file."""
    try:
        reader = ScenarioReader(parse(loaded.text))
    except YamlError:  # it never lay in a file
        found = [Problem(0, 0, text, dotted(path)) for path, text, *_ in problems]
        return ScenarioError([line(loaded.path, problem) for problem in found])
    for override in loaded.overrides:
        reader.override(override)
    known = len(reader.problems)
    for path, text, *keys in problems:
        reader.report(path, text, keys)
    return ScenarioError([line(loaded.path, problem) for problem in reader.problems[known:]])


def workload(loaded: Loaded) -> Workload:
    """The demand of a scenario as the simulator takes it."""
    specs = enumerate(loaded.scenario.streams)
    return Workload(tuple(stream for i, spec in specs for stream in sources(loaded, i, spec)))


def sources(loaded: Loaded, i: int, spec: StreamSpec) -> Iterator[Stream]:
    """Simulated streams of one group; cameras that are spread in time have a stream each."""
    if spec.rate and spec.phase is Phase.SPREAD:
        for camera in range(spec.count):
            yield Stream(spec.model, FixedRate(spec.rate, camera / (spec.count * spec.rate), spec.jitter))
        return
    yield Stream(spec.model, arrivals(spec, loaded.traces.get(i)), spec.count)


def arrivals(spec: StreamSpec, table: TraceTable | None) -> Arrivals:
    """How one source of the group sends."""
    if spec.rate:
        return FixedRate(spec.rate, 0.0 if spec.phase is Phase.ALIGNED else None, spec.jitter)
    if spec.poisson:
        return Poisson(spec.poisson)
    if spec.gamma:
        return Gamma(spec.gamma.rate, spec.gamma.cv)
    assert table is not None, "a checked stream has one kind of arrivals"
    scaled = table.at_rate(spec.trace.rate) if spec.trace and spec.trace.rate else table
    return Trace(scaled.times_s, scaled.period_s)


def schema(kind: type = Scenario) -> dict[str, Any]:
    """JSON Schema of a file that holds such an object, for editors: people's units are texts or numbers."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | described(kind)


Recording = tuple[Callable[[Path, Any], object], str, Any]
"""What reads a recording, its file, and the column in it."""
Rules = Callable[[dict[str, Any]], Iterable[Wrong]]
"""Says what is wrong between the parts of a document that is a mapping."""


class ScenarioReader:
    """Turns a document into a scenario and gathers the problems on the way."""

    def __init__(self, document: YamlDocument) -> None:
        self.document = document
        self.problems = document.problems
        self.overridden: dict[Steps, str] = {}
        self.taken_away: list[Steps] = []

    def report(self, path: Steps, message: str, keys: Sequence[str] = (), at_key: bool = False) -> None:
        """Notes a problem with the value at `path`, at its place or the nearest one that is known; or one of its
        `keys`, which do not go together."""
        path = as_written(self.document.data, path)
        name = dotted(path)[:MAX_SHOWN]
        if override := self.cause(path, keys):
            self.problems.append(Problem(LAST, 0, message, name, override))
            return
        self.problems.append(Problem(*self.document.place(path, at_key=at_key), message, name))

    def cause(self, path: Steps, keys: Sequence[str]) -> str | None:
        """The override that brought a value or the mapping that it is in, or set one of its `keys`; None where none
        did."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.overridden:
                return self.overridden[path[:end]]
        ways = [(*path, key) for key in keys]
        if path and path not in self.document.places:
            ways.append(path)
        begins = ((way[: len(one)] == one, text) for one in ways for way, text in self.overridden.items())
        return next((text for is_one, text in begins if is_one), None)

    def override(self, text: str) -> None:
        """Applies one `path=value`."""
        if not isinstance(self.document.data, dict):
            return  # no scenario at all, which is reported where it is read
        try:
            name, value = read_override(text)
            for path in self.every(name):
                self.assign(path, value, text)
        except YamlError as error:
            self.problems.append(Problem(LAST, 0, f"the value {error}", "", text))
        except ValueError as error:
            self.problems.append(Problem(LAST, 0, str(error), "", text))

    def assign(self, name: str, value: Any, cause: str) -> None:
        """Sets the value at a path, which `cause` asked for; ValueError where there is no such path."""
        path = self.steps(name)
        if value is None:
            take_away(self.document.data, path)
            self.taken_away.append(path)
        else:
            place(self.document.data, path, value)
        self.overridden[path] = cause

    def every(self, name: str) -> Iterator[str]:
        """The path of each stream for `streams[*].rate`."""
        before, of_all, after = name.partition(EVERY)
        if not of_all:
            yield name
            return
        target: Any = self.document.data
        for step in self.steps(before):
            target = child(target, step)
        if not isinstance(target, list) or not target:
            near = did_you_mean(before, list(self.document.data))
            raise ValueError(f"`{before}` is no list with items, and `{EVERY}` means each of them.{near}")
        for i in range(len(target)):
            yield from self.every(f"{before}[{i}]{after}")

    def steps(self, name: str) -> Steps:
        """The path of a value; it names list items by number or by name: `models[yolov3].slo.latency`."""
        path: Steps = ()
        target = self.document.data
        for word in words_of(name):
            if target is None and word.isdecimal():
                raise ValueError(
                    f"`{dotted(path)}` is not there, nor its item `{word}`. Write all of it: `{dotted(path)}=...`."
                )
            step = item(target, word, dotted(path)) if isinstance(target, list) else word
            path = (*path, step)
            target = child(target, step)
        return path

    def validated(self, kind: type[T], wanted: Sequence[str], rules: Rules = lambda _: ()) -> T | None:
        """The document as such an object; None, and problems, where it is none. `wanted`: keys at its top."""
        data = self.document.data
        if not isinstance(data, dict):
            self.report((), f"must be a mapping with {listed(wanted)}, got {shown(data)}.")
            return None
        if (other := document_of(data)) and not data.keys() & set(wanted):
            self.report((), f"is {other}. Name a file with {listed(wanted)}.")
            return None
        for path in self.taken_away:
            if (unknown := first_unknown(path, kind)) and unknown not in self.document.places:
                self.report(unknown, unknown_key(unknown, kind))
        refused: set[Steps] = set()
        for path, text, *keys in rules(data):
            self.report(path, text, keys)
            refused |= {(*path, key) for key in keys[:1]}
        try:
            made: T = adapter(kind).validate_json(json.dumps(data), strict=True)  # type: ignore[arg-type]
            return made
        except ValidationError as error:
            for path, problem, detail in mistakes(error):
                if path in refused:
                    continue  # it does not go where it stands, whatever its value
                text = message(path, problem, detail, kind)
                self.report(path, text, keys_of(detail), at_key=problem == UNKNOWN_KEY)
        return None

    def scenario(self) -> Scenario | None:
        """The scenario, or None where the document holds none."""
        scenario = self.validated(Scenario, ("models", "streams"), structure)
        if scenario:
            self.check_times(scenario)
            if scenario.horizon is not None and scenario.models:
                self.check_horizon(scenario, scenario.horizon)
        return scenario

    def check_times(self, scenario: Scenario) -> None:
        """Notes durations that leave nothing to serve or to judge."""
        for stands, wait_s, slo_s in waits(scenario):
            if wait_s >= slo_s:
                limit = f"must be below the latency of the SLO, {slo_s:g} s, got {wait_s:g} s. Make it shorter."
                self.report((*stands, "max_queue_delay"), limit)
        longest_s = JITTER_MAX * (scenario.horizon or HORIZON_S)
        for i, stream in enumerate(scenario.streams):
            if stream.jitter > longest_s:
                limit = f"must be at most {longest_s:g} s, a tenth of the horizon, got {stream.jitter:g} s."
                self.report(("streams", i, "jitter"), f"{limit} Make it less, or the horizon longer.")
        if scenario.failures and scenario.failures.mean_time_between < UPTIME_MIN_S:
            got = f"must be at least {UPTIME_MIN_S:g} s, got {scenario.failures.mean_time_between:g} s."
            self.report(("failures", "mean_time_between"), f"{got} Machines that fail so often serve nobody.")

    def check_demand(self, loaded: Loaded) -> None:
        """Notes demand that is too little to replay, or too much."""
        scenario, demand = loaded.scenario, workload(loaded)
        rates_rps = demand.rates_rps()
        replayed_s = RAREST_S if scenario.horizon is None else scenario.horizon * scenario.replications
        within_s = min(replayed_s, RAREST_S)
        rare = [asked.name for asked in scenario.asked if rates_rps[asked.name] * within_s < 1]
        for name in rare:
            seen = f"is asked {rates_rps[name]:.3g} times a second"
            seldom = f"less than once in {written_duration(within_s)}: nothing to judge it by"
            remedy = "Raise the rate" + (" or the horizon" if within_s < RAREST_S else "")
            self.report(scenario.place(name), f"{seen}, {seldom}. {remedy}, or leave the model out.")
        if not rare:
            self.check_requests(scenario, horizon_s(scenario, demand), sum(rates_rps.values()))

    def check_requests(self, scenario: Scenario, duration_s: float, rate_rps: float) -> None:
        """Notes more requests than one replication can hold."""
        if duration_s * rate_rps > REQUESTS_MAX:
            much = f"{rate_rps:.3g} requests/s for {written_duration(duration_s)} are more than {REQUESTS_MAX:,.0f}"
            limit_s = REQUESTS_MAX / rate_rps
            limit = f"{limit_s // 3600:.0f} h" if limit_s > 7200 else f"{limit_s:.3g} s"
            remedy = f"Set a `horizon` below {limit}, or ask less."
            path: Steps = ("streams",) if scenario.horizon is None else ("horizon",)
            self.report(path, f"{much} in one replication. {remedy}")

    def check_horizon(self, scenario: Scenario, horizon_s: float) -> None:
        """Notes a horizon that leaves no request to judge."""
        early_s, late_s = warmup_s(scenario), longest_slo_s(scenario)
        if early_s >= horizon_s and scenario.warmup is not None:
            limit = f"must be shorter than the horizon of {horizon_s:g} s, got {early_s:g} s."
            self.report(("warmup",), f"{limit} Make the horizon longer.")
        elif early_s + late_s >= horizon_s:
            why = f"a warm-up of {early_s:g} s and the longest latency, {late_s:g} s"
            self.report(("horizon",), f"must be longer than {why}, got {horizon_s:g} s. Make it longer.")

    def loaded(self, path: Path, known: dict[Recording, Any]) -> Loaded | None:
        """The scenario in the file at `path` with its recordings, read once for all that share `known`; None, and
        problems, where something is wrong: all is said in one go."""
        scenario, found = self.scenario(), self.recorded(path.parent, known)
        if scenario is None or self.problems:
            return None
        traces = {i: found["streams", i, "trace", "file"] for i, one in enumerate(scenario.streams) if one.trace}
        return Loaded(counted(scenario, found) if found else scenario, "", path, traces)

    def recorded(self, folder: Path, known: dict[Recording, Any]) -> dict[Steps, Any]:
        """What the recordings hold that the document names, by place; notes those that cannot be read."""
        data = self.document.data if isinstance(self.document.data, dict) else {}
        named = [one for key in ("streams", "pipelines") for one in recordings((key,), data.get(key))]
        found: dict[Steps, Any] = {}
        for where, one in named:
            try:
                if one not in known:
                    read, file, column = one
                    known[one] = read(folder / file, column)
                found[where] = known[one]
            except TraceError as error:
                self.report(where, str(error))
        return found


def waits(scenario: Scenario) -> Iterator[tuple[Steps, float, float]]:
    """Where each model stands, alone or as a stage, how long its batches wait for more, and the latency of its SLO."""
    for i, model in enumerate(scenario.models):
        yield ("models", i), model.max_queue_delay, model.slo.latency
    for i, pipeline in enumerate(scenario.pipelines):
        for k, stage in enumerate(pipeline.stages):
            if stage.is_model:
                yield ("pipelines", i, "stages", k), stage.max_queue_delay, pipeline.slo.latency


def as_written(data: Any, path: Steps) -> Steps:
    """The path in the document: the item of a list that has only one may be written without the list, and a mapping
    that a plain value stands for, `fan_out: 3`, without its key."""
    steps: list[str | int] = []
    for step in path:
        if isinstance(data, dict) and isinstance(step, int):
            continue
        steps.append(step)
        match data:
            case dict():
                data = data.get(step)
            case list() if isinstance(step, int) and step < len(data):
                data = data[step]
            case _:
                data = None
        if isinstance(data, str | int | float):
            break
    return tuple(steps)


def counted(scenario: Scenario, found: Mapping[Steps, Any]) -> Scenario:
    """The same with the counts of recorded fan-outs in the place of the files that hold them."""
    stages = [list(pipeline.stages) for pipeline in scenario.pipelines]
    for where, counts in found.items():
        match where:
            case ("pipelines", int(i), "stages", int(k), "after", *number, "fan_out", "trace"):
                stage, n = stages[i][k], int(number[0]) if number else 0  # one way alone needs no list
                edge = replace(stage.after[n], fan_out=FanOutSpec(counts=counts))
                stages[i][k] = replace(stage, after=(*stage.after[:n], edge, *stage.after[n + 1 :]))
    pipelines = zip(scenario.pipelines, stages, strict=True)
    return replace(scenario, pipelines=tuple(replace(one, stages=tuple(made)) for one, made in pipelines))


def recordings(path: Steps, data: Any) -> Iterator[tuple[Steps, Recording]]:
    """Files of recordings that a document names, by place."""
    match data:
        case {"trace": str(file), "column": str(column)}:
            yield (*path, "trace"), (read_counts, file, column)
        case {"trace": {"file": str(file), **others}} if isinstance(others.get("column"), str | None):
            yield (*path, "trace", "file"), (read_trace, file, others.get("column"))
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, below in inside:
        yield from recordings((*path, step), below)


def listed(keys: Sequence[str]) -> str:
    """`` `model`, `data` and `train` ``."""
    *first, last = (f"`{key}`" for key in keys)
    return " and ".join([", ".join(first), last]) if first else last
