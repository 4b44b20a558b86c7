"""Demand: how requests arrive and what machines are paid by, as far as a plan still knows its scenario."""

from dataclasses import asdict, dataclass, replace

from planner.io.load import Loaded, ScenarioReader
from planner.io.strict_yaml import YamlError, parse
from planner.io.traces.table import TraceTable
from planner.model.parts.streams import Phase, StreamSpec
from planner.model.plan import ModelAnswer, Plan
from planner.model.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSource:
    """A group of like sources, as `check_slo.py` draws them."""

    kind: str
    """`fixed`, `poisson` or `gamma`."""
    count: int
    rate_rps: float
    """Each."""
    phase: str = ""
    """For `fixed`: `random`, `aligned` or `spread`."""
    jitter_s: float = 0.0
    """For `fixed`: scale of a frame's delay, which is half-normal."""
    cv: float = 1.0
    """For `gamma`: coefficient of variation of the gaps."""


def scenario_of(plan: Plan) -> Scenario | None:
    """The scenario a plan was made from; None where the plan does not hold it."""
    if not plan.scenario_text:
        return None
    try:
        reader = ScenarioReader(parse(plan.scenario_text))
    except YamlError:
        return None
    for override in plan.scenario_overrides:
        reader.override(override)
    return reader.scenario()


def sources_of(scenario: Scenario | None, model: ModelAnswer) -> list[dict[str, object]]:
    """Who asks a model. What is not known - recordings, older plans - asks at random, at the rate that is left."""
    specs = [spec for spec in scenario.streams if spec.model == model.name] if scenario else []
    known = [source for spec in specs if (source := source_of(spec))]
    left_rps = model.offered_rps - sum(source.count * source.rate_rps for source in known)
    if len(known) < max(1, len(specs)) and left_rps > 0:
        known.append(DemandSource(kind="poisson", count=1, rate_rps=left_rps))
    return [asdict(source) for source in known]


def recorded(scenario: Scenario | None, model: ModelAnswer) -> bool:
    """True where random requests stand in for arrivals that the plan does not hold."""
    return scenario is None or any(spec.trace for spec in scenario.streams if spec.model == model.name)


def source_of(spec: StreamSpec) -> DemandSource | None:
    """A group of a scenario; None for a recording, whose times the plan does not hold."""
    if spec.rate:
        phase = Phase(spec.phase).value
        return DemandSource(kind="fixed", count=spec.count, rate_rps=spec.rate, phase=phase, jitter_s=spec.jitter)
    if spec.poisson:
        return DemandSource(kind="poisson", count=spec.count, rate_rps=spec.poisson)
    if spec.gamma:
        return DemandSource(kind="gamma", count=spec.count, rate_rps=spec.gamma.rate, cv=spec.gamma.cv)
    return None


def with_load(loaded: Loaded, factor: float) -> Loaded:
    """The scenario with all rates times a factor; a recording that states no rate grows from its own."""
    if factor == 1:
        return loaded
    streams = enumerate(loaded.scenario.streams)
    grown = tuple(with_rates(stream, factor, loaded.traces.get(i)) for i, stream in streams)
    return replace(loaded, scenario=replace(loaded.scenario, streams=grown))


def with_rates(stream: StreamSpec, factor: float, table: TraceTable | None) -> StreamSpec:
    """A stream with its rates times a factor."""
    trace = stream.trace
    if trace and table:
        trace = replace(trace, rate=(trace.rate or table.rate_rps) * factor)
    return replace(
        stream,
        rate=stream.rate and stream.rate * factor,
        poisson=stream.poisson and stream.poisson * factor,
        gamma=stream.gamma and replace(stream.gamma, rate=stream.gamma.rate * factor),
        trace=trace,
    )
