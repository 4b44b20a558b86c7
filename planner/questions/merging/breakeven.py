"""Break-even: the cheapest way of serving, by load and by number of models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isinf
from typing import TypeVar

from planner.catalog.catalog import Catalog
from planner.catalog.offers import offers
from planner.io.demand import with_load
from planner.io.load import Loaded, workload
from planner.model.parts.merging import Merging
from planner.model.progress import Progress, silent
from planner.model.replications import longest_slo_s, warmup_s
from planner.model.scenario import MemoryPolicy, Objective, Scenario
from planner.placing.fleets import Fleet
from planner.placing.merging.layers import MergeError
from planner.placing.merging.options import NOTHING_MERGED, Option, options
from planner.placing.sizing import Profiles
from planner.replay.trial import Trial
from planner.search.merged import SAME_USD, tried_on
from planner.search.names import with_known_names
from planner.search.question import Question, ask, predictor_of
from planner.units.reading import HOURS_PER_MONTH
from planner.units.writing import counted
from planner.words.candidates import candidate_name
from planner.words.statements import rejection_line
from simulator.world.profile import Evidence, speed_evidence_of

SCHEMA = "planner.breakeven/v1"
N = TypeVar("N", float, int)
LOADS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Rates over those of the scenario."""
FURTHER_LOADS = (4.0, 6.0, 8.0, 12.0)
"""Rates tried one by one after those, as long as the same way wins everywhere, to find where that ends."""
COUNTS = 5
"""Numbers of models, evenly up to all."""
FLEETS_MAX = 8
"""Fleets tried for each way, cheapest first; a way that needs more counts as too dear to matter."""
REPLICATIONS = 2
"""Replays of each fleet: the crossing of two ways matters, not whether an SLO is surely met."""
HORIZON_S = 20.0
"""Judged time of each replay."""


@dataclass(frozen=True, slots=True)
class BreakevenCell:
    """The cost of one way at one point; infinite where no fleet that was tried meets the SLOs on the mean."""

    way: str
    usd_per_month: float
    """Machines, retraining, and the first training written off."""
    gpu_count: int
    fleet: str
    measured: bool = True
    """False where a model was measured on no GPU on offer, and nothing predicts it there."""
    predicted: bool = False
    """The fleet rests on predictions."""
    speed_evidence: Evidence | None = None
    """Where its speeds come from, by `speed_evidence_of`; None where there is no fleet."""
    uncertain: bool = False
    """Whether some of them are at the slow end of a band, for the user did not measure them."""


@dataclass(frozen=True, slots=True)
class BreakevenRow:
    """All ways at one load, or with so many models."""

    at: float
    cells: tuple[BreakevenCell, ...]

    @property
    def wins(self) -> str:
        """The cheapest way, the simpler one of equals; empty where none serves."""
        least = min(cell.usd_per_month for cell in self.cells)
        if isinf(least):
            return ""
        return next(cell.way for cell in self.cells if cell.usd_per_month <= least + SAME_USD)


@dataclass(frozen=True, slots=True)
class Breakeven:
    """The cheapest way at each load, and for each number of models."""

    scenario: str
    by_load: tuple[BreakevenRow, ...]
    """`at`: rates over those of the scenario."""
    by_models: tuple[BreakevenRow, ...]
    """`at`: number of models, the first of the scenario."""
    training_known: bool = True
    """The scenario states the cost of a training, so that it is in the figures."""
    schema: str = SCHEMA


def breakeven(
    loaded: Loaded,
    catalog: Catalog,
    library: Profiles,
    loads: Sequence[float] = (),
    counts: Sequence[int] = (),
    progress: Progress = silent,
) -> Breakeven:
    """The cheapest way at each load, and with the first so many models of the scenario.

    MergeError where there is nothing to compare.
    """
    loaded = with_known_names(loaded, catalog, library)
    on_offer, rejected = offers(catalog, loaded.scenario.buy)
    if not on_offer:
        raise MergeError("\n".join(map(rejection_line, rejected)))
    comparison = Comparison(catalog, library, progress)
    counts = model_counts(loaded, counts)
    by_load = comparison.rows(loads or LOADS, at_load, loaded, "comparing ways by load")
    by_models = comparison.rows(counts, with_models, loaded, "comparing ways by models")
    for load in () if loads else FURTHER_LOADS:
        if len({row.wins for row in by_load}) > 1:
            break
        by_load += comparison.rows([load], at_load, loaded, f"comparing ways at {load:g} x")
    return Breakeven(
        scenario=loaded.scenario.name or loaded.path.stem,
        by_load=tuple(by_load),
        by_models=tuple(by_models),
        training_known=loaded.scenario.sharing.retraining is not None,
    )


def model_counts(loaded: Loaded, counts: Sequence[int]) -> Sequence[int]:
    """Numbers of models to compare; MergeError for one that the scenario does not have."""
    most = len(loaded.scenario.models)
    wanted = f"numbers from 1 to {most}" if most > 1 else "1"
    for count in counts:
        if not 1 <= count <= most:
            raise MergeError(f"--models {count}: the scenario has {counted(most, 'model')}. Write {wanted}.")
    return counts or sorted({max(1, round(most * step / COUNTS)) for step in range(1, COUNTS + 1)})


# Scenarios to compare


def at_load(loaded: Loaded, factor: float) -> Loaded:
    """The scenario with all rates times a factor; MergeError where it is none."""
    if not 0 < factor < inf:
        raise MergeError(f"--loads {factor:g}: must be above 0. Write e.g. 0.5,1,2.")
    return with_load(loaded, factor)


def with_models(loaded: Loaded, count: int) -> Loaded:
    """The scenario with its first so many models."""
    models = loaded.scenario.models[:count]
    names = {model.name for model in models}
    numbers = [i for i, stream in enumerate(loaded.scenario.streams) if stream.model in names]
    streams = tuple(loaded.scenario.streams[i] for i in numbers)
    traces = {new: loaded.traces[old] for new, old in enumerate(numbers) if old in loaded.traces}
    return replace(loaded, scenario=replace(loaded.scenario, models=models, streams=streams), traces=traces)


# Comparing


@dataclass(frozen=True)
class Comparison:
    """Ways of serving side by side, by what is known of GPUs and models."""

    catalog: Catalog
    library: Profiles
    progress: Progress = silent

    def rows(
        self, points: Sequence[N], at_point: Callable[[Loaded, N], Loaded], loaded: Loaded, title: str
    ) -> list[BreakevenRow]:
        """One row for each point of an axis."""
        found = []
        for i, point in enumerate(points):
            self.progress(f"{title}: {i} of {len(points)}", 0.0)
            found.append(BreakevenRow(point, self.cells(at_point(loaded, point))))
        return found

    def cells(self, loaded: Loaded) -> tuple[BreakevenCell, ...]:
        """Each way's cheapest fleet, simpler ways first."""
        scenario = replace(
            loaded.scenario,
            replications=REPLICATIONS,
            horizon=HORIZON_S + warmup_s(loaded.scenario) + longest_slo_s(loaded.scenario),
            merging=Merging.AUTO,
        )
        short = replace(loaded, scenario=scenario)
        merged = [option for option in options(short, self.library) if option.merging is not Merging.NONE]
        return (
            self.cell("resident", NOTHING_MERGED, MemoryPolicy.RESIDENT, short),
            self.cell("swapped", NOTHING_MERGED, MemoryPolicy.SWAP, short),
            *(self.cell(f"merged {option.merging}", option, MemoryPolicy.AUTO, short) for option in merged),
        )

    def cell(self, way: str, option: Option, memory: MemoryPolicy, loaded: Loaded) -> BreakevenCell:
        """The cheapest fleet on which one way meets every SLO on the mean of its replays."""
        scenario = replace(loaded.scenario, memory=memory)
        demand = workload(replace(loaded, scenario=scenario))
        question, _ = ask(scenario, demand, self.catalog, self.library, option.merged)
        if not question.served:
            return BreakevenCell(way, inf, 0, "", measured=self.all_known(scenario))
        trial = cheapest(question)
        if trial is None:
            return BreakevenCell(way, inf, 0, "")
        profiles = [placed.portion.sized.profile for placed in trial.packing.placed]
        return BreakevenCell(
            way=way,
            usd_per_month=trial.cost_usd_per_hour * HOURS_PER_MONTH + option.bill.usd_per_month,
            gpu_count=len(trial.devices),
            fleet=candidate_name(trial.candidate),
            predicted=any(profile.predicted for profile in profiles),
            speed_evidence=speed_evidence_of(profile.speed_evidence for profile in profiles),
            uncertain=any(profile.doubt for profile in profiles),
        )

    def all_known(self, scenario: Scenario) -> bool:
        """Each model was measured, or is predicted, on some kind of GPU on offer."""
        known = predictor_of(scenario, self.catalog, self.library) or self.library
        on_offer, _ = offers(self.catalog, scenario.buy)
        kinds = {offer.gpu.name for offer in on_offer}
        return all(
            any(known.get(model.known_as, kind, *one) for kind in kinds for one in model.variants)
            for model in scenario.models
        )


def cheapest(question: Question) -> Trial | None:
    """The cheapest fleet that is not short in its replays; None where none of the first fleets will do."""
    program, tried = question.program(), list[Fleet]()
    for _ in range(FLEETS_MAX):
        solution = program.propose(Objective.COST, tried, question.scenario.buy.max_cost or inf)
        if solution is None or solution.fleet is None:
            return None
        for swap in question.policies:
            bought = [(offer, count) for offer, count in zip(question.offers, solution.fleet, strict=True) if count]
            trial = tried_on(question, tuple(offer for offer, _ in bought), tuple(count for _, count in bought), swap)
            if trial and not trial.replay.short:
                return trial
        tried.append(solution.fleet)
    return None
