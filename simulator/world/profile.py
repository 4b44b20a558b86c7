"""Profiles: what one model costs on one kind of GPU, and where each figure comes from."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from simulator.world.curves import Curve, Interpolated, LoadTime
from simulator.world.model import Layer

DISK_BYTES_PER_S = 125e6
"""Weights from disk, where nobody measured it: what AWS states of a gp3 volume as it comes."""
PAGEABLE_SHARE = 0.5
"""Bandwidth from pageable host memory over that from pinned, where nobody measured it: such a copy passes through a
pinned buffer, so every byte moves twice."""


class Evidence(StrEnum):
    """Where a figure comes from, strongest first."""

    MEASURED = "measured"
    ELSEWHERE = "measured-elsewhere"
    """By another tool, whose file somebody imported."""
    PUBLISHED = "published"
    FITTED = "fitted"
    EXTRAPOLATED = "extrapolated"
    TRANSFERRED = "transferred"
    PREDICTED = "predicted"
    ASSUMED = "assumed"

    @property
    def rank(self) -> int:
        """0 for the strongest."""
        return list(Evidence).index(self)


class WeightSource(StrEnum):
    """Where weights lie that are not on the GPU."""

    PINNED = "pinned"
    """In page-locked host memory."""
    PAGEABLE = "pageable"
    """In other host memory."""
    DISK = "disk"


def weakest(*evidence: Evidence) -> Evidence:
    """What a figure made from several is worth: `weakest(MEASURED, ASSUMED)` is ASSUMED."""
    return max(evidence, key=lambda e: e.rank)


NOT_MEASURED = (Evidence.PREDICTED, Evidence.ASSUMED, Evidence.PUBLISHED)
"""Of speeds that the user did not measure, that to be named first."""


def speed_evidence_of(speeds: Iterable[Evidence]) -> Evidence | None:
    """Where several speeds come from: the first of `NOT_MEASURED` among them, else the weakest; None of none.

    The weakest alone would hide published speeds beside extrapolated ones of one's own.
    """
    known = set(speeds)
    own = weakest(*known) if known else None
    return next((ground for ground in NOT_MEASURED if ground in known), own)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuality:
    """How far a fitted curve errs, each a share: 0.03 is 3 %."""

    form: str
    """One of `simulator.world.curves.FORMS`."""
    error_mean: float | None = None
    """Of points held out while the form was chosen; None: too few points to hold any out."""
    error_max: float | None = None
    error_max_at: float | None = None
    """Batch size of the worst."""
    band: float | None = None
    """The curve times and over 1 + `band` contains 90 % of points in its range that were not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """How well a predicted time is known: not a spread of single batches, so no average over time takes it away."""

    error_sd: Interpolated
    """Standard deviation of the error of ln(time), by batch size."""
    shared: float = 0.0
    """Part of that error's variance which all models on a kind of GPU have in common."""
    quantile: float = 0.0
    """Where in the prediction the times stand, in standard deviations: 0 its median, 1.64 what 5 % exceed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterLoad:
    """How much longer swapping makes what it touches, each a ratio from 1."""

    batch_ratio: float
    """A batch right after its weights came, over one that finds them there."""
    load_ratio: float
    """A load of weights that were away, over what `load` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one model costs on one kind of GPU, at one precision and in one runtime."""

    model: str
    gpu: str
    precision: str
    """`fp32`, `tf32`, `amp`, `fp16`, `bf16` or `int8`."""
    runtime: str = "pytorch"
    """The software that runs it: `pytorch`, `tensorrt`, `tvm`..."""
    layers: tuple[Layer, ...]
    """The weights; a model whose layers nobody listed is one layer."""
    latency: Curve
    """Seconds to run a batch, by batch size."""
    latency_fit: FitQuality | None = None
    """None: straight lines between the points, never judged."""
    source_spread: float | None = None
    """How far other sources of the same thing are from this one: 0.2 is 1.2 times or a 1.2th; None: no other."""
    latency_cv: float = 0.0
    """Coefficient of variation of one batch's run time around `latency`."""
    latency_factors: tuple[tuple[int, tuple[float, ...]], ...] = ()
    """By batch size, where run times were seen to spread widely: equally likely factors on `latency`, of mean 1, the
    least first."""
    doubt: Doubt | None = None
    """Of a `latency` that each replication draws; None: it is taken as it stands."""
    session_cv: float = 0.0
    """Coefficient of variation of the device's speed between sessions of a calibration; 0: there was one only."""
    after_load: AfterLoad | None = None
    """None: not measured, swapping costs its loads alone."""
    beside_load: float = 1.0
    """While a batch and a load run at once, each takes so many times as long: 1 where neither is held up (or nobody
    measured it), 2 where nothing is gained over one after the other."""
    host_s: Curve | None = None
    """Seconds that the host takes to queue a batch, by batch size; None: not known apart from `latency`."""
    busy_s: Curve | None = None
    """Seconds that its kernels keep the GPU busy, by batch size; None: not known apart."""
    workspace: Curve
    """Bytes held while a batch runs, on top of the weights, by batch size: tensors and the allocator's slack."""
    slack: Curve | None = None
    """Part of `workspace` that the allocator holds beyond tensors; None: not measured, so it is not in there."""
    context_bytes: int | None = None
    """What a process that has run the model holds besides what its allocator does; None: not measured."""
    load: LoadTime
    """Host to device from pinned memory."""
    pageable_bytes_per_s: float | None = None
    """Host to device from pageable memory; None: not known, taken as half of the pinned rate."""
    disk_bytes_per_s: float | None = None
    """Disk to device, a file that is in no cache; None: not known, taken as `DISK_BYTES_PER_S`."""
    busy_w: float | None = None
    """Power while a batch runs; None: not known, see `simulator.world.power`."""
    flops_per_sample: float | None = None
    """Operations of one sample (a multiply-add is two); None: not known."""
    output_bytes_per_sample: int = 0
    """Activation handed to the next GPU when the model is split over several."""
    latency_evidence: Evidence
    memory_evidence: Evidence
    load_evidence: Evidence
    source: str
    """Where the figures stand."""
    as_of: str
    """ISO date of the source."""
    assumptions: tuple[str, ...] = ()
    """What was assumed, in sentences a person can check."""
    doubts: tuple[str, ...] = ()
    """What speaks against the figures, and what to do about it."""
    predicted: bool = False
    """Whether nobody measured the model on that GPU: the figures are one end of a prediction's band."""

    @property
    def speed_evidence(self) -> Evidence:
        """Of its times: PREDICTED, by whatever rule, where nobody ran it; a curve through measured ones is MEASURED."""
        if self.predicted:
            return Evidence.PREDICTED
        return Evidence.MEASURED if self.latency_evidence is Evidence.FITTED else self.latency_evidence

    @property
    def varies(self) -> bool:
        """Whether a batch takes longer at one time than at another."""
        return self.latency_cv > 0 or any(max(factors) > min(factors) for _, factors in self.latency_factors)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all layers, each counted once."""
        return sum({layer.key: layer.weight_bytes for layer in self.layers}.values())

    def factors_up_to(self, batch: int) -> tuple[float, ...]:
        """The factors with the longest tail among those of batches of that size and below; empty where none are known.

        Of the batch that spreads most, so that none is drawn with a shorter tail than was measured.
        """
        known = [factors for size, factors in self.latency_factors if size <= batch]
        return max(known, key=lambda factors: factors[ceil(0.99 * len(factors)) - 1], default=())

    def load_from(self, source: WeightSource) -> LoadTime:
        """To the device from any place. Pinned 12 GB/s and pageable not known: 6 GB/s from pageable."""
        match source:
            case WeightSource.PINNED:
                return self.load
            case WeightSource.PAGEABLE:
                rate = self.pageable_bytes_per_s or PAGEABLE_SHARE * self.load.bytes_per_s
            case WeightSource.DISK:
                rate = self.disk_bytes_per_s or DISK_BYTES_PER_S
        return LoadTime(self.load.t0_s, min(rate, self.load.bytes_per_s))

    def swap_from(self, source: WeightSource) -> LoadTime:
        """The same for weights that were away, where models take turns: 3 ms at a `load_ratio` of 1.5 are 4.5 ms.

        From disk they were away when that was measured.
        """
        load, ratio = self.load_from(source), self.after_load.load_ratio if self.after_load else 1.0
        if source is WeightSource.DISK:
            return load
        return LoadTime(load.t0_s * ratio, load.bytes_per_s / ratio)

    @property
    def largest_batch(self) -> int:
        """Largest batch size whose latency and workspace were both seen."""
        return int(min(self.latency.x[-1], self.workspace.x[-1]))
