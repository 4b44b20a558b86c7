"""Break-even: against load and against the number of models, which way of serving costs least."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isinf
from typing import TypeVar

from planner.answer import Trial
from planner.catalog import Catalog, offers
from planner.cost import Fleet
from planner.load import Loaded, workload
from planner.merging.analysis import NOTHING_MERGED, MergeError, Option, options
from planner.merging.weigh import SAME_USD, tried_on
from planner.names import with_known_names
from planner.prediction.question import Question, ask, predictor_of
from planner.replications import longest_slo_s, warmup_s
from planner.scenario import MemoryPolicy, Merging, Objective, Scenario
from planner.sizing import Profiles
from planner.units import HOURS_PER_MONTH

SCHEMA = "planner.breakeven/v1"
N = TypeVar("N", float, int)
LOADS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Rates over those of the scenario."""
FURTHER_LOADS = (4.0, 6.0, 8.0, 12.0)
"""Tried one by one after those, as long as the same way wins everywhere: what is sought is where that ends."""
COUNTS = 5
"""Numbers of models, evenly up to all."""
FLEETS_MAX = 8
"""Fleets tried for each way, cheapest first; a way that needs more counts as too dear to matter."""
HORIZON_S = 20.0
"""Judged time of each of two replays: what is sought is where ways cross, not whether a promise is surely kept."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one way costs at one point; infinite where no fleet tried keeps the promises on the mean."""

    way: str
    usd_per_month: float
    """Machines, retraining, and the first training written off."""
    gpu_count: int
    fleet: str
    measured: bool = True
    """False where a model was measured on no GPU on offer, and nothing predicts it there."""
    foretold: bool = False
    """Whether the fleet rests on predictions."""


@dataclass(frozen=True, slots=True)
class Row:
    """All ways at one load, or with so many models."""

    at: float
    cells: tuple[Cell, ...]

    @property
    def wins(self) -> str:
        """The cheapest way, the simpler one of equals; empty where none serves."""
        least = min(cell.usd_per_month for cell in self.cells)
        return "" if isinf(least) else next(c.way for c in self.cells if c.usd_per_month <= least + SAME_USD)


@dataclass(frozen=True, slots=True)
class Breakeven:
    """Where each way wins."""

    scenario: str
    by_load: tuple[Row, ...]
    """`at`: rates over those of the scenario."""
    by_models: tuple[Row, ...]
    """`at`: number of models, the first of the scenario."""
    training_known: bool = True
    """Whether the scenario says what a training takes, so that it is in the figures."""
    schema: str = SCHEMA


def breakeven(
    loaded: Loaded,
    catalog: Catalog,
    library: Profiles,
    loads: Sequence[float] = (),
    counts: Sequence[int] = (),
    progress: Callable[[str, float], None] = lambda _text, _done: None,
) -> Breakeven:
    """Which way costs least at each load, and with the first so many models of the scenario.

    MergeError where there is nothing to compare.
    """
    loaded = with_known_names(loaded, catalog, library)
    found, rejected = offers(catalog, loaded.scenario.buy)
    if not found:
        raise MergeError("\n".join(f"{no.candidate}: {no.reason} {no.way_out}" for no in rejected))
    most = len(loaded.scenario.models)
    counts = counts or sorted({max(1, round(most * (i + 1) / COUNTS)) for i in range(COUNTS)})
    if too_many := [n for n in counts if not 1 <= n <= most]:
        raise MergeError(f"--models {too_many[0]}: the scenario has {most} models. Write numbers from 1 to {most}.")
    by_load = rows(loads or LOADS, with_load, loaded, catalog, library, partial(progress, "comparing ways by load"))
    by_models = rows(counts, with_models, loaded, catalog, library, partial(progress, "comparing ways by models"))
    for load in () if loads else FURTHER_LOADS:
        if len({row.wins for row in by_load}) > 1:
            break
        by_load += rows([load], with_load, loaded, catalog, library, partial(progress, f"comparing ways at {load:g} x"))
    name = loaded.scenario.name or loaded.path.stem
    known = loaded.scenario.sharing.retraining is not None
    return Breakeven(name, tuple(by_load), tuple(by_models), known)


def rows(
    points: Sequence[N],
    given_at: Callable[[Loaded, N], Loaded],
    loaded: Loaded,
    catalog: Catalog,
    library: Profiles,
    tell: Callable[[float], None],
) -> list[Row]:
    """One row for each point of an axis."""
    found: list[Row] = []
    for i, at in enumerate(points):
        tell(i / len(points))
        found.append(Row(at, compared(given_at(loaded, at), catalog, library)))
    return found


def with_load(loaded: Loaded, factor: float) -> Loaded:
    """The scenario with all rates times a factor."""
    if not 0 < factor < inf:
        raise MergeError(f"--loads {factor:g}: must be above 0. Write e.g. 0.5,1,2.")

    def times(rate_rps: float | None) -> float | None:
        return None if rate_rps is None else rate_rps * factor

    streams = []
    for s in loaded.scenario.streams:
        if s.trace and s.trace.rate is None and factor != 1:
            raise MergeError(f"streams: {s.name or s.model} replays a recording; give its `rate`, so that it can grow.")
        gamma = s.gamma and replace(s.gamma, rate=s.gamma.rate * factor)
        trace = s.trace and replace(s.trace, rate=times(s.trace.rate))
        streams.append(replace(s, rate=times(s.rate), poisson=times(s.poisson), gamma=gamma, trace=trace))
    return replace(loaded, scenario=replace(loaded.scenario, streams=tuple(streams)))


def with_models(loaded: Loaded, count: int) -> Loaded:
    """The scenario with its first so many models."""
    models = loaded.scenario.models[:count]
    kept = {model.name for model in models}
    numbers = [i for i, s in enumerate(loaded.scenario.streams) if s.model in kept]
    scenario = replace(loaded.scenario, models=models, streams=tuple(loaded.scenario.streams[i] for i in numbers))
    traces = {new: loaded.traces[old] for new, old in enumerate(numbers) if old in loaded.traces}
    return replace(loaded, scenario=scenario, traces=traces)


def compared(loaded: Loaded, catalog: Catalog, library: Profiles) -> tuple[Cell, ...]:
    """Each way's cheapest fleet, simpler ways first."""
    short = replace(
        loaded.scenario,
        replications=2,
        horizon=HORIZON_S + warmup_s(loaded.scenario) + longest_slo_s(loaded.scenario),
        merging=Merging.AUTO,
    )
    given = replace(loaded, scenario=short)
    merged = [option for option in options(given, library) if option.merging is not Merging.NONE]
    ways = [
        ("resident", NOTHING_MERGED, MemoryPolicy.RESIDENT),
        ("swapped", NOTHING_MERGED, MemoryPolicy.SWAP),
        *((f"merged {option.merging}", option, MemoryPolicy.AUTO) for option in merged),
    ]
    return tuple(cell(way, option, memory, given, catalog, library) for way, option, memory in ways)


def cell(way: str, option: Option, memory: MemoryPolicy, loaded: Loaded, catalog: Catalog, library: Profiles) -> Cell:
    """The cheapest fleet on which one way keeps every promise on the mean of its replays."""
    scenario = replace(loaded.scenario, memory=memory)
    given = replace(loaded, scenario=scenario)
    question, _ = ask(scenario, workload(given), catalog, library, option.merged)
    if not question.served:
        return Cell(way, inf, 0, "", measured=all_known(scenario, catalog, library))
    program, refused = question.program(), list[Fleet]()
    for _ in range(FLEETS_MAX):
        solution = program.propose(Objective.COST, refused, scenario.buy.max_cost or inf)
        if solution is None or solution.fleet is None:
            break
        for swap in question.policies:
            trial = tried(question, solution.fleet, swap=swap)
            if trial and not trial.replay.short:
                usd = trial.cost_usd_per_hour * HOURS_PER_MONTH + option.bill.usd_per_month
                foretold = any(p.portion.sized.profile.foretold for p in trial.packing.placed)
                return Cell(way, usd, len(trial.cards), trial.label, foretold=foretold)
        refused.append(solution.fleet)
    return Cell(way, inf, 0, "")


def all_known(scenario: Scenario, catalog: Catalog, library: Profiles) -> bool:
    """Whether each model was measured, or is predicted, on some kind of GPU on offer."""
    known = predictor_of(scenario, catalog, library) or library
    kinds = {offer.gpu.name for offer in offers(catalog, scenario.buy)[0]}
    return all(any(known.get(m.known_as, kind, m.precision) for kind in kinds) for m in scenario.models)


def tried(question: Question, fleet: Fleet, *, swap: bool) -> Trial | None:
    """A fleet replayed; only the offers of which it has some."""
    bought = [(offer, n) for offer, n in zip(question.offers, fleet, strict=True) if n]
    return tried_on(question, tuple(offer for offer, _ in bought), tuple(n for _, n in bought), swap)
