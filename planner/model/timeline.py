"""One replication, event by event, and the distribution of latency: columns of equal length."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyHistogram:
    """How long one model's requests took, over all replications of the recommendation."""

    model: str
    slo_s: float
    edges_s: tuple[float, ...]
    """One more than there are counts, evenly spaced in logarithms; the first and the last bin hold what lies beyond."""
    counts: tuple[int, ...]
    """Finished requests that arrived after the warm-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchColumns:
    """Batches that ran in the window, those included that a failure broke off."""

    gpu: tuple[int, ...]
    """Index into the timeline's `gpus`."""
    model: tuple[int, ...]
    """Index into its `models`."""
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]
    size: tuple[int, ...]
    """Requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadColumns:
    """Loads of weights under way in the window."""

    gpu: tuple[int, ...]
    model: tuple[int, ...]
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]
    bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryColumns:
    """Memory in use from each time stamp on; the first of each GPU is what was in use when the window began."""

    gpu: tuple[int, ...]
    time_s: tuple[float, ...]
    bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueColumns:
    """Requests that wait for a model, on whichever GPU, from each time stamp on."""

    model: tuple[int, ...]
    time_s: tuple[float, ...]
    length: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestColumns:
    """Requests that arrived in the window."""

    model: tuple[int, ...]
    arrival_s: tuple[float, ...]
    start_s: tuple[float, ...]
    """When its batch began, or when it was given up."""
    finish_s: tuple[float, ...]
    """When it was answered; for others when it was given up, or when the replication ended."""
    gpu: tuple[int, ...]
    """Where its batch ran, the first of a pipeline's; -1: given up, or still waiting when the replication ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What happened in a short window of one replication. All times in it are seconds since the window began."""

    seed: int
    """Of the replication."""
    start_s: float
    """Time of the replication at which the window begins."""
    end_s: float
    gpus: tuple[str, ...]
    """Ids of the GPUs that are shown: all, or of many the busiest."""
    models: tuple[str, ...]
    batches: BatchColumns
    loads: LoadColumns
    memory: MemoryColumns
    queue: QueueColumns
    requests: RequestColumns
