"""Deployments: everything that is simulated, as data - which replica runs where and by which policies."""

from dataclasses import dataclass, field
from enum import StrEnum

from simulator.world.hardware import Device, Host
from simulator.world.pipelines import Pipeline, Station
from simulator.world.profile import Profile, WeightSource
from simulator.world.workload import SLO


class Drop(StrEnum):
    """Which requests are given up."""

    NEVER = "never"
    LATE = "late"
    """Those that would finish after their deadline."""
    NEWEST = "newest"
    """All that wait but the newest batch."""
    NEWEST_AND_LATE = "newest-and-late"


class Scheduling(StrEnum):
    """Which model runs next on a GPU."""

    ROUND_ROBIN = "round-robin"
    FCFS = "fcfs"
    EDF = "edf"
    SWAP_AWARE = "swap-aware"
    """What is resident first, while no other model's deadline would be missed by waiting."""


class Eviction(StrEnum):
    """Which resident model gives way to one that is needed."""

    LRU = "lru"
    MRU = "mru"
    LOOKAHEAD = "lookahead"
    """The one whose next request is farthest away."""
    COST = "cost"
    """The one that is cheapest to bring back for each byte it frees, weighted by how often it runs."""


class Routing(StrEnum):
    """Which replica a request goes to."""

    ROUND_ROBIN = "round-robin"
    LEAST_OUTSTANDING = "least-outstanding"
    SHARED = "shared"
    """None in advance: one queue for all replicas, from which each draws when it is free."""


@dataclass(frozen=True, slots=True)
class BatchingPolicy:
    """Dynamic batching: run as soon as the batch is full or its oldest request has waited long enough."""

    max_batch_size: int = 1
    max_queue_delay_s: float = 0.0
    padded: bool = False
    """A part-filled batch takes the time of a full one, as in engines compiled for one batch size."""


@dataclass(frozen=True, slots=True)
class SwapPolicy:
    """How weights move between host and device when not all fit."""

    eviction: Eviction = Eviction.LRU
    prefetch: bool = True
    """Load the next model while the present one runs, when both fit."""
    pinned: bool = True
    """Host copies in page-locked memory; False: loads go at the profile's pageable bandwidth, or half of the pinned."""
    disk: bool = False
    """No host copies: weights come from disk."""

    @property
    def source(self) -> WeightSource:
        """Where weights come from."""
        if self.disk:
            return WeightSource.DISK
        return WeightSource.PINNED if self.pinned else WeightSource.PAGEABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One loaded copy of a model. More than one device: pipeline stages, the layers cut in that order."""

    profile: Profile
    devices: tuple[str, ...]
    batching: BatchingPolicy = BatchingPolicy()
    share: float = 1.0
    """Weight among the model's replicas under round-robin routing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A model as its users see it: an SLO, a rule for losses, and the replicas that answer."""

    model: str
    slo: SLO
    replicas: tuple[Replica, ...]
    drop: Drop = Drop.NEVER
    routing: Routing = Routing.ROUND_ROBIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Devices fail, or spot instances are taken, at random; a batch in flight runs again, weights load again."""

    mean_time_between_s: float
    """Per host, from a recovery to the next failure, exponential."""
    recovery_s: float
    """Until the host answers again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """All that is simulated besides the demand."""

    services: tuple[Service, ...]
    devices: tuple[Device, ...]
    hosts: tuple[Host, ...]
    scheduling: Scheduling = Scheduling.ROUND_ROBIN
    swap: SwapPolicy = field(default_factory=SwapPolicy)
    failures: Failures | None = None
    pipelines: tuple[Pipeline, ...] = ()
    """Each asked by its name, as a model is."""
    stations: tuple[Station, ...] = ()
    """Where stages of pipelines run that are not models."""

    @property
    def doubted(self) -> bool:
        """Whether some speed is known only so well."""
        return any(r.profile.doubt or r.profile.session_cv for service in self.services for r in service.replicas)

    @property
    def is_fixed(self) -> bool:
        """Whether, speeds being known, the same arrivals always end the same way: nothing fails or varies."""
        noisy = any(replica.profile.varies for service in self.services for replica in service.replicas)
        return self.failures is None and not noisy and all(pipeline.is_fixed for pipeline in self.pipelines)
