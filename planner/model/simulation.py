"""Simulations: the answer where somebody named the deployment."""

from dataclasses import dataclass, field

from planner.model.parts.merging import Merging
from planner.model.plan import GpuAnswer, ModelAnswer, PlanWarning, Policies, Replayed, ResourceAnswer
from planner.model.statement import Statement

SCHEMA = "planner.simulation/v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """A deployment one named oneself, replayed."""

    scenario: str
    scenario_sha256: str
    seed: int
    """Start of all random numbers: the scenario's, or that of the plan that is replayed."""
    feasible: bool
    requests: int
    """Replayed, all replications together."""
    wall_s: float
    """Time the replay took."""
    cost_usd_per_hour: float | None
    """None where the GPUs have no price."""
    demand_factor_max: float
    """Times the demand up to which every queue drains, batches as large as are allowed and weights loaded."""
    replications: int
    replayed: Replayed
    policies: Policies
    merging: Merging = Merging.NONE
    """Which layers are stored once."""
    models: tuple[ModelAnswer, ...]
    gpus: tuple[GpuAnswer, ...]
    resources: tuple[ResourceAnswer, ...] = ()
    """What pipelines take of each resource; empty without pipelines."""
    assumptions: tuple[Statement, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    schema: str = field(default=SCHEMA)
