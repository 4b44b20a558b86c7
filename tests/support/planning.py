"""Small questions for tests of planning: real GPUs, profiles made to measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner.catalog.catalog import load_catalog
from planner.catalog.files import SaleStatus
from planner.catalog.offers import Offer
from planner.io.load import Loaded, workload
from planner.model.choices import PriceKind
from planner.model.parts.models import ModelSpec, SloSpec
from planner.model.parts.streams import StreamSpec
from planner.model.plan import Plan
from planner.model.scenario import MemoryPolicy, Scenario
from planner.placing.sizing import needs, size
from planner.search.plan import plan
from planner.search.question import Question
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.deployment import Drop
from simulator.world.hardware import GPU
from simulator.world.model import Layer
from simulator.world.profile import Evidence, Profile
from simulator.world.workload import Workload

CATALOG = load_catalog()
A10G, T4, V100 = (CATALOG.gpus[name] for name in ("A10G", "T4", "V100"))
BATCHES = (1.0, 2.0, 4.0, 8.0, 16.0)


def profile(model: str, gpu: GPU, floor_s: float, slope_s: float, weights_bytes: int = 100_000_000) -> Profile:
    """A model that takes `floor_s` and `slope_s` more for each sample, with 20 MB of workspace each."""
    return Profile(
        model=model,
        gpu=gpu.name,
        precision="fp32",
        layers=(Layer(model, weights_bytes),),
        latency=Interpolated(BATCHES, tuple(floor_s + slope_s * b for b in BATCHES)),
        workspace=Interpolated(BATCHES, tuple(2e7 * b for b in BATCHES)),
        load=LoadTime(0.0, 12e9),
        latency_evidence=Evidence.FITTED,
        memory_evidence=Evidence.FITTED,
        load_evidence=Evidence.FITTED,
        source="made for a test",
        as_of="2026-07-20",
    )


@dataclass(frozen=True)
class Shelf:
    """Profiles by model and GPU."""

    profiles: Mapping[tuple[str, str], Profile]

    def get(self, model: str, gpu: str, precision: str | None = None, /) -> Profile | None:
        return self.profiles.get((model, gpu))


def shelf(*profiles: Profile) -> Shelf:
    """What a library would find."""
    return Shelf({(p.model, p.gpu): p for p in profiles})


def offer(gpu: GPU, usd_per_hour: float, gpu_count: int = 1, name: str = "", **changes: object) -> Offer:
    """A machine at a price."""
    made = Offer(
        provider="aws",
        region="us-east-1",
        instance=name or f"{gpu_count}x{gpu.name}",
        gpu=gpu,
        gpu_count=gpu_count,
        usd_per_hour=usd_per_hour,
        price_kind=PriceKind.ON_DEMAND,
        status=SaleStatus.ACTIVE,
        as_of="2026-07-20",
        source="made for a test",
        memory_bytes=gpu.memory_bytes,
        host_memory_bytes=None,
        count_max=None,
        spot_range=None,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def model(name: str, latency_s: float = 0.1, attainment: float = 0.99) -> ModelSpec:
    """A model and its SLO."""
    return ModelSpec(name=name, slo=SloSpec(latency=f"{latency_s} s", attainment=attainment))


def scenario(models: Sequence[ModelSpec], cameras: Mapping[str, tuple[int, float]], **changes: object) -> Scenario:
    """Models, and how many cameras of which rate ask each."""
    streams = tuple(StreamSpec(model=name, count=count, rate=rate) for name, (count, rate) in cameras.items())
    made = Scenario(
        models=tuple(models),
        streams=streams,
        memory=MemoryPolicy.RESIDENT,
        drop=Drop.LATE,
        horizon=10.0,
        replications=2,
        confidence=0.5,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def loaded(asked: Scenario) -> Loaded:
    """As if it had been read from a file."""
    return Loaded(asked, "0" * 64, Path("made.yaml"))


def demand(asked: Scenario) -> Workload:
    """The streams of a scenario."""
    return workload(loaded(asked))


def planned(asked: Scenario, library: Shelf) -> Plan:
    """The answer to a scenario."""
    return plan(loaded(asked), CATALOG, library, created_at="2026-07-25T00:00:00")


def question(asked: Scenario, offers: Sequence[Offer], library: Shelf) -> Question:
    """The question of a scenario, as the search sees it."""
    need_by_model = needs(asked, demand(asked))
    sized, _ = size(asked, need_by_model, offers, library)
    return Question(asked, demand(asked), need_by_model, tuple(offers), sized)
