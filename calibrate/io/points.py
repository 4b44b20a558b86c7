"""Points: what is to be measured, one thing at a time, and what came out. Plain data that travels as JSON lines."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from statistics import median, quantiles
from typing import Any, NamedTuple, TypeGuard

PRECISIONS = ("fp32", "tf32", "torch", "amp", "amp-bf16", "bf16", "fp16")
"""fp32 is strict; `torch` leaves PyTorch as it comes; `amp` is autocast to fp16 (on a CPU bf16), `amp-bf16` to bf16;
`bf16` and `fp16` are of weights too."""
NO_WEIGHTS = "it has no weights, so there is nothing to bring to a device. Measure a model that has parameters."
OPTIMIZERS = ("sgd", "adam")
"""Of a training step."""
COPIED_BYTES = tuple(4096 * 4**n for n in range(9))
"""Sizes of copies: 4 kB to 256 MB (of 1024)."""
PASSED_BYTES = tuple(1 << n for n in range(14, 31))
"""Working sets that are passed over: 16 kB to 1 GB."""
WORKERS_MAX = 1024
"""Of a data loader."""
FRAME_SIZES = ((1280, 720), (1920, 1080))
"""Width and height of frames of video."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a model is run. Each is an axis: figures of different settings never stand in one profile."""

    precision: str = "fp32"
    """One of `PRECISIONS`."""
    channels_last: bool = False
    cudnn_benchmark: bool = False
    compile: bool = False
    """Through `torch.compile`."""
    cuda_graph: bool = False
    """Inference captured once as a CUDA graph, then replayed."""
    resolution: int | None = None
    """Height and width of the input in pixels; None: the model's own."""

    @property
    def suffix(self) -> str:
        """The end of a profile's model name, empty at default; the precision has a field of its own."""
        axes = {
            f"{self.resolution}px": self.resolution is not None,
            "channels_last": self.channels_last,
            "cudnn_benchmark": self.cudnn_benchmark,
            "compile": self.compile,
            "cuda_graph": self.cuda_graph,
        }
        return "".join(f".{axis}" for axis, on in axes.items() if on)

    @property
    def runtime(self) -> str:
        """As profiles and published figures call it."""
        if self.cuda_graph:
            return "cuda-graphs"
        return "torch-compile" if self.compile else "pytorch"


class What(StrEnum):
    """Kinds of points."""

    LAYERS = "layers"
    """One traced pass: layers with their sizes and operations."""
    LOAD = "load"
    """Weights from disk, from pageable and from pinned memory to the device, and freed again; context and peak."""
    MEMORY = "memory"
    """Peak memory of one batch, inference or (with an optimizer) a training step."""
    LATENCY = "latency"
    """Run time of one inference batch, alone and back to back, and its energy."""
    SOAK = "soak"
    """The largest batch back to back for a while, with clocks, watts and why the clocks are lowered."""
    TRAINING = "training"
    """Time of one training step and its parts."""
    PROBE = "probe"
    """A property of the device alone."""


LARGEST = 1e24
"""Above every figure that can be measured, and its powers are still numbers."""
NEEDED = {What.LATENCY: "wall_s", What.TRAINING: "step_s"}
"""Samples without which a point of a kind was not measured."""

HICCUP = 1.5
"""Times the median, below which no run is one."""
HICCUPS_MAX = 0.1


class Figures(NamedTuple):
    """What was measured of a point."""

    values: dict[str, float]
    samples: dict[str, list[float]]
    details: dict[str, Any]


class Status(StrEnum):
    """How a point ended."""

    OK = "ok"
    OUT_OF_MEMORY = "out-of-memory"
    FAILED = "failed"
    """It raised; the message says what."""
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    """Its process died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One thing to measure."""

    what: What
    model: str = ""
    """Name in the zoo, or `package.module:factory`; empty for a probe."""
    batch: int = 0
    """0 where no batch is run."""
    optimizer: str = ""
    """`sgd` or `adam` for a training step, else empty."""
    probe: str = ""
    """Name of a device probe, else empty."""
    settings: Settings = Settings()

    @property
    def key(self) -> str:
        """Identity in a journal, e.g. `resnet50/latency/8/fp32` or `probe/copy`."""
        if self.what is What.PROBE:
            return f"{self.what}/{self.probe}"
        parts = [
            self.model + self.settings.suffix,
            self.what,
            self.optimizer,
            self.batch or "",
            self.settings.precision,
        ]
        return "/".join(str(part) for part in parts if part)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Point":
        """The point that `asdict` wrote."""
        return cls(**{**raw, "what": What(raw["what"]), "settings": Settings(**raw["settings"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class PointOutcome:
    """The result of measuring one point."""

    point: Point
    status: Status
    values: Mapping[str, float] = field(default_factory=dict)
    """Single figures by name, the unit last: `allocated_bytes`."""
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Repeated figures in the order they were taken: `wall_s`."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Everything else, as JSON."""
    message: str = ""
    """Why it is not `ok`, in one line."""
    took_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As written to a journal; `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "PointOutcome":
        """The outcome that `to_json` wrote; ValueError where none can have been written so."""
        outcome = cls(**{**raw, "point": Point.from_json(raw["point"]), "status": Status(raw["status"])})
        key = outcome.point.key
        if not _is_point(outcome.point):
            raise ValueError(f"{key}: is no point")
        if not _are_figures(outcome):
            raise ValueError(f"{key}: its figures are no numbers")
        if not isinstance(outcome.details, Mapping) or not isinstance(outcome.message, str):
            raise ValueError(f"{key}: its details are none")
        return outcome


def usual(samples_s: Sequence[float]) -> list[float]:
    """The runs without hiccups: few that took far longer than all others, by something else that went on.

    Far is above 1.5 times the median and three interquartile ranges above the upper quartile (Tukey's "far out"). Where
    more than a tenth of the runs are so, that is how the device is, and all count. Nine of 1 ms and one of 20 ms: nine.
    """
    if len(samples_s) < 2:
        return list(samples_s)
    lower, middle, upper = quantiles(samples_s, method="inclusive")
    limit = max(HICCUP * middle, upper + 3 * (upper - lower))
    kept = [taken for taken in samples_s if taken <= limit]
    return kept if len(samples_s) - len(kept) <= HICCUPS_MAX * len(samples_s) else list(samples_s)


def often_held_up(samples_s: Sequence[float]) -> bool:
    """Whether more than a tenth of the runs took over 1.5 times the median: two of ten of 1 ms that took 2 ms."""
    limit_s = HICCUP * median(samples_s)
    return sum(taken > limit_s for taken in samples_s) > HICCUPS_MAX * len(samples_s)


def _is_point(point: Point) -> bool:
    settings = point.settings
    return (
        all(isinstance(text, str) for text in (point.model, point.optimizer, point.probe))
        and isinstance(point.batch, int)
        and settings.precision in PRECISIONS
        and isinstance(settings.resolution, int | None)
    )


def _are_figures(outcome: PointOutcome) -> bool:
    """True where all values and times are possible, and those are there without which the point was not measured."""
    if outcome.status is Status.OK:
        needed = NEEDED.get(outcome.point.what)
        if needed and needed not in outcome.samples:
            return False
    figures = (outcome.took_s, *outcome.values.values())
    return all(map(_is_number, figures)) and all(map(_are_times, outcome.samples.values()))


def _are_times(samples: Sequence[object]) -> bool:
    return bool(samples) and all(_is_number(time_s) and time_s >= 0 for time_s in samples)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and abs(value) < LARGEST
