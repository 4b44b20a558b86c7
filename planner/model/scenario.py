"""Scenarios: the question a person asks, as frozen data in SI units. `planner.io.load` reads it from YAML.

Parts are checked when they are made, also in Python; a whole scenario by `planner.objects.Scenario` alone, because
searching makes many copies of it in which not all parts fit each other yet.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from planner.model.calendar import CalendarSpec
from planner.model.checked import STRICT
from planner.model.parts.machines import BuySpec, FailureSpec
from planner.model.parts.merging import Merging, SharingSpec
from planner.model.parts.models import ModelSpec
from planner.model.parts.pipelines import PipelineSpec
from planner.model.parts.rules import AccuracySpec, ClockDriftSpec, SwapSpec, ValidateSpec
from planner.model.parts.streams import StreamSpec
from planner.units.errors import Steps
from planner.units.reading import Bytes, Duration, Fraction, MachineCount, PositiveDuration
from simulator.world.deployment import Drop, Routing, Scheduling


class MemoryPolicy(StrEnum):
    """Rules for models to stay in GPU memory, or to take turns there."""

    RESIDENT = "resident"
    SWAP = "swap"
    AUTO = "auto"


class Objective(StrEnum):
    """The best plan has least of this."""

    COST = "cost"
    GPUS = "gpus"
    ENERGY = "energy"


class Predict(StrEnum):
    """Treatment of GPUs on which a model was never measured."""

    AUTO = "auto"
    NEVER = "never"


SEED_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A question: these models, this demand, these offers - what should be bought?"""

    __pydantic_config__ = STRICT
    name: str = ""
    """The answer's title."""
    models: Annotated[tuple[ModelSpec, ...], Field(max_length=1000)] = ()
    """The models to serve; may be left out where there are `pipelines`."""
    pipelines: Annotated[tuple[PipelineSpec, ...], Field(max_length=100)] = ()
    """Stages that frames go through - decode, detect, classify -, asked by streams as models are."""
    streams: Annotated[tuple[StreamSpec, ...], Field(min_length=1, max_length=100_000)]
    """Who asks them, and how often."""
    buy: BuySpec = BuySpec()
    """Machines that may be rented or used."""
    memory: MemoryPolicy = MemoryPolicy.AUTO
    """`resident`: all models stay on their GPU; `swap`: they may take turns; `auto`: whichever is cheaper."""
    swap: SwapSpec = SwapSpec()
    """How swapping goes, where it happens."""
    merging: Merging = Merging.NONE
    """`none`; `stem`: models share the layers in which they begin alike; `layers`: equal layers anywhere; `auto`:
    whichever is cheapest, retraining included."""
    sharing: SharingSpec = SharingSpec()
    """With `merging`: what is known about merged models."""
    scheduling: Scheduling = Scheduling.ROUND_ROBIN
    """Which model runs next on a GPU."""
    routing: Routing = Routing.ROUND_ROBIN
    """Which replica a frame goes to."""
    drop: Drop = Drop.LATE
    """Which frames are given up."""
    padded: bool = False
    """A part-filled batch takes the time of a full one."""
    accuracy: AccuracySpec = AccuracySpec()
    """The meaning of a lost frame."""
    headroom: Annotated[Fraction, Field(ge=0, lt=1)] = 0.1
    """Share of every GPU kept free on purpose."""
    survive: MachineCount = 0
    """Machines that may be away while every SLO is met, e.g. `1 machine`; `planner plan` buys spares for them."""
    context: Bytes | None = None
    """GPU memory that one framework process holds besides weights and workspace; where not given, as it was measured
    with the models, and 0.8 GB where nobody measured it."""
    objective: Objective = Objective.COST
    """The best plan has least of this."""
    predict: Predict = Predict.AUTO
    """`auto`: what nobody measured is predicted, with a band; `never`: profiles alone, taken as they stand."""
    horizon: PositiveDuration | None = None
    """Simulated time of one replication; where not given, a minute or more, as long as recordings, queues and SLOs
    need, or some rounds of cameras that come round."""
    warmup: Duration | None = None
    """Start of each replication that is left out of the figures; where not given, the longest latency of an SLO,
    doubled until queues and turns have settled."""
    replications: Annotated[int, Field(ge=1, le=1000)] = 10
    """Runs with different seeds to begin with; more follow while the intervals decide nothing. At least as many as can
    prove `confidence`, 80 for 95 %, where cameras have phases of their own, for one run is one draw of them, and 160
    where speeds are drawn. With 1 there is just that one."""
    confidence: Annotated[Fraction, Field(gt=0, le=0.999)] = 0.95
    """Share of the draws that must meet every SLO for good: of the cameras' phases, so of sites like this one, and of
    speeds that are predicted, published, assumed or differ between sessions."""
    clock_drift: ClockDriftSpec | None = None
    """Where clocks drift, each SLO counts over a stretch of time in which phases mix; for good where not given."""
    seed: Annotated[int, Field(ge=0, le=SEED_MAX)] = 1
    """Start of all random numbers of a replay; what `planner plan` buys does not depend on it."""
    failures: FailureSpec | None = None
    """Disturbances; none where not given."""
    validate: ValidateSpec = ValidateSpec()
    """How `planner validate` fits the scenario to a device; other commands leave it aside."""
    calendar: CalendarSpec | None = None
    """Days of load that rises and falls, for `planner horizon`; other commands leave it aside."""

    @property
    def stages(self) -> dict[str, Steps]:
        """Where each stage that runs a model stands, by the name that its model is served by."""
        return {
            pipeline.stage(stage.name): ("pipelines", i, "stages", k)
            for i, pipeline in enumerate(self.pipelines)
            for k, stage in enumerate(pipeline.stages)
            if stage.is_model
        }

    @property
    def asked(self) -> tuple[ModelSpec | PipelineSpec, ...]:
        """All that streams ask and SLOs judge: pipelines as a whole, and models that are no stages."""
        return (*(model for model in self.models if model.name not in self.stages), *self.pipelines)

    @property
    def with_stages(self) -> "Scenario":
        """The same with the models of its pipelines' stages among its models."""
        known = {model.name for model in self.models}
        stages = (stage.served(pipeline) for pipeline in self.pipelines for stage in pipeline.stages if stage.is_model)
        return replace(self, models=(*self.models, *(model for model in stages if model.name not in known)))

    def place(self, name: str) -> Steps:
        """Where a model, a stage or a pipeline stands: `("models", 2)`, `("pipelines", 0, "stages", 1)`."""
        if name in self.stages:
            return self.stages[name]
        models = {model.name: ("models", i) for i, model in enumerate(self.models)}
        return models.get(name) or ("pipelines", [pipeline.name for pipeline in self.pipelines].index(name))
