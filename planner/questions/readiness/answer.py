"""What a plan would do as it stands, as data. The terminal, the page and the JSON read only this."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from planner.model.candidate import Candidate, Machines
from planner.model.plan import ModelAnswer, Rejection

SCHEMA = "planner.whatif/v1"


class MendKind(StrEnum):
    """What is done so that every SLO is met again."""

    ANEW = "place-anew"
    """The same machines, with the models placed on them anew."""
    MACHINES = "more-machines"
    """Other numbers of the same machines, with the models placed on them anew."""
    SPARES = "spares"
    """Machines beside those, which take over what those do that are away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend:
    """A change that was replayed and meets every SLO."""

    kind: MendKind
    candidate: Candidate
    """All machines that then serve."""
    spares: tuple[Machines, ...] = ()
    """Machines beside them that stand ready."""
    anew: bool = False
    """After a loss the models are placed anew on all that is left; else a spare takes over what is away."""
    beyond_count: tuple[Machines, ...] = ()
    """Of all, those that are more than the `count` of machines of one's own."""
    cost_usd_per_hour: float
    """Of all, spares included."""
    cost_added_usd_per_hour: float
    """Over that of the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedAnew:
    """The models placed anew on what a loss leaves, spares of the plan included."""

    machines: tuple[Machines, ...]
    """Those that are left."""
    feasible: bool
    """Every SLO is surely met there, by the rule by which a plan survives."""
    load_s: float
    """Until each machine has read from disk the weights that it does not hold yet; NaN where no placement was found."""
    models: tuple[ModelAnswer, ...]
    """As they then answer; none where no placement was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCase:
    """The plan with some of its machines away."""

    lost: tuple[str, ...]
    """Hosts that are away: one set of those that do the same."""
    machines: tuple[Machines, ...]
    """Of which types they are."""
    taken_over: tuple[str, ...] = ()
    """Those of them whose work a spare does."""
    takeover_s: float = 0.0
    """Until these spares have read from disk the weights of what they take over; 0 where none does."""
    ways: int
    """Sets of hosts that do the same as these, so that losing any of them is this case."""
    feasible: bool
    """Every SLO is surely met as the plan stands, each model being served."""
    unserved: tuple[str, ...]
    """Models of which no replica is left."""
    models: tuple[ModelAnswer, ...]
    """Those that are served."""
    draws_asked: float | None = None
    """Share of the replications that must meet every SLO, which p99 goes by; None where nothing is drawn."""
    rejection: Rejection | None
    """What stands in the way of those that are served, and what would help; None where nothing does."""
    anew: PlacedAnew | None = None
    """What placing the models anew would do; None where no machine is away, or nothing is amiss."""

    @property
    def survived(self) -> bool:
        """Whether every SLO is surely met, as the plan stands or with the models placed anew."""
        return self.feasible or (self.anew is not None and self.anew.feasible)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A plan as it stands, under other circumstances."""

    scenario: str
    scenario_sha256: str
    seed: int
    created_at: str
    """ISO time stamp of this answer."""
    lose: int
    """Machines that are away at once."""
    survive: int = 0
    """Machines that may be away, by the scenario: after their loss models may be placed anew."""
    load: float
    """Rates over those of the scenario."""
    overrides: tuple[str, ...]
    """Changes of the scenario by `--set`."""
    plan_overrides: tuple[str, ...] = ()
    """Those with which the plan was made."""
    smaller_batches: tuple[str, ...] = ()
    """Models in smaller batches than the plan's, which their SLOs do not allow."""
    candidate: Candidate
    """What the plan bought, but for its spares."""
    cost_usd_per_hour: float
    """Of the plan, its spares included."""
    spares: tuple[Machines, ...]
    """Of the plan: each takes over a machine of its type as the models lie."""
    feasible: bool
    """Whether every SLO is surely met in every case that was replayed: as the plan stands or, where the scenario asks
    to survive so many machines away, with the models placed anew."""
    cases: tuple[LossCase, ...]
    """The worst first, as far as shares of replicas tell."""
    ways_left_out: int
    """Sets of hosts that were not replayed: those that leave the models the larger shares of their replicas."""
    interrupted: bool = False
    """Whether Ctrl-C left out cases, or what would mend them."""
    mends: tuple[Mend, ...]
    """Changes that help, the cheapest first; none where every SLO is met, or nothing was found."""
    schema: str = field(default=SCHEMA)


def contradictions(answer: WhatIf) -> Iterator[str]:
    """Statements that no answer has."""
    if not answer.cases:
        yield "cases: must not be empty"
