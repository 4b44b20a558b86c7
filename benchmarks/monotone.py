"""Monotone: does a verdict of `planner simulate` ever turn back as load grows, or as GPUs are added?

`python -m benchmarks.monotone --count 200`. Each random scenario is replayed at growing load on two GPUs of its
cheapest kind, and at its own load on a growing number. A verdict counts as turned back where an SLO that was surely
missed is surely met at more load or on fewer GPUs, or a queue that grew no longer grows.
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.outside import Watch, each
from benchmarks.random_scenarios import HEAD, Drawn, options, write
from planner.catalog.knowledge import knowledge
from planner.io.load import Loaded, load_scenario
from planner.model.parts.streams import StreamSpec
from planner.model.scenario import Scenario
from planner.model.simulation import Simulation
from planner.search.question import NothingToPlanError
from planner.search.simulation import simulate_named
from simulator.clock.metrics import Verdict

LOADS = (0.5, 0.8, 1.0, 1.2, 1.5, 2.0)
COUNTS = (1, 2, 3)
SURE = 0.5
"""Share of sites that must keep every SLO: few draws of the phases tell as much as turns back."""
DAY = date(2026, 11, 23)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What one replay says of all models."""

    at: float
    """Times the demand, or GPUs."""
    met: bool
    """Every SLO, surely."""
    missed: bool
    """Some SLO, surely."""
    growing: bool
    """Some queue."""

    @classmethod
    def of(cls, at: float, seen: Simulation) -> "Verdicts":
        """Of a replay."""
        missed = any(m.slo_attainment.high < m.slo_attainment_target for m in seen.models)
        growing = any(m.verdict == Verdict.OVERLOADED for m in seen.models)
        return cls(at, seen.feasible, missed, growing)


@dataclass(frozen=True, slots=True)
class Walked:
    """One scenario at several loads and on several numbers of GPUs."""

    drawn: Drawn
    turned_back: tuple[str, ...]
    remark: str

    def __str__(self) -> str:
        return f"{self.drawn}  {len(self.turned_back):>5}  {self.remark}  {'; '.join(self.turned_back)}"


def turned_back(easier_first: Sequence[Verdicts], what: str) -> list[str]:
    """Pairs of which the harder looks better."""
    found = []
    for easy, hard in combinations(easier_first, 2):
        if (easy.missed and hard.met) or (easy.growing and not hard.growing):
            word = "missed" if easy.missed and hard.met else "growing"
            found.append(f"{word} at {easy.at:g} {what} and not at {hard.at:g}")
    return found


def busier(loaded: Loaded, factor: float) -> Loaded:
    """The same scenario with all rates times a factor."""

    def stream(spec: StreamSpec) -> StreamSpec:
        changes = {name: value * factor for name in ("rate", "poisson") if (value := getattr(spec, name)) is not None}
        if spec.gamma:
            changes["gamma"] = replace(spec.gamma, rate=spec.gamma.rate * factor)
        if spec.trace and spec.trace.rate:
            changes["trace"] = replace(spec.trace, rate=spec.trace.rate * factor)
        return replace(spec, **changes)

    scenario: Scenario = loaded.scenario
    streams = tuple(map(stream, scenario.streams))
    return replace(loaded, scenario=replace(scenario, streams=streams, confidence=SURE, replications=2))


def walk(seed: int, given: Namespace) -> Walked:
    """Draw one scenario and replay it."""
    watch = Watch()
    with TemporaryDirectory() as folder:
        drawn = write(seed, Path(folder), given)
        catalog, library = knowledge((), (drawn.folder / "profiles",))
        loaded = load_scenario(drawn.folder / "scenario.yaml")
        gpu = loaded.scenario.buy.own[0].gpu

        def seen(at: float, load: float, count: int) -> Verdicts | None:
            try:
                return Verdicts.of(at, simulate_named(busier(loaded, load), catalog, library, gpu, count, DAY))
            except NothingToPlanError:  # these GPUs do not hold the models
                return None

        by_load = [one for load in LOADS if (one := seen(load, load, 2))]
        by_count = [one for count in reversed(COUNTS) if (one := seen(count, 1.0, count))]
    found = [*turned_back(by_load, "x load"), *turned_back(by_count, "GPUs")]
    return Walked(drawn, tuple(found), str(watch))


def main() -> None:
    """One line for each scenario, then how many turned back."""
    given = options(__doc__, count=20).parse_args()
    lines = each(partial(walk, given=given), given, f"{HEAD}  turned back")
    print(f"\n{sum(bool(line.turned_back) for line in lines)} of {len(lines)} turned back")


if __name__ == "__main__":
    main()
