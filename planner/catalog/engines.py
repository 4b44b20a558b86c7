"""Engines of a GPU that decode and encode video: frames a second, and the memory that each stream holds there."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import floor
from pathlib import Path

from calibrate.io.tables import table
from planner.model.choices import Codec, Preset
from planner.model.parts.coding import FULL_HD, Coding
from simulator.world.hardware import GPU
from simulator.world.pipelines import DECODE, ENCODE
from simulator.world.profile import Evidence, weakest

DATA = Path(__file__).parent / "data"
TABLES = {DECODE: DATA / "decoding.csv", ENCODE: DATA / "encoding.csv"}
STREAM_BYTES = {DECODE: 500_000_000, ENCODE: 440_000_000}
"""Memory that a stream of that size holds: decoded on an A100, github.com/NVIDIA/VideoProcessingFramework, issue 482.

How much depends on the surfaces that the program asks for, and on what its process holds besides: others saw 130 MB
(issue 140 there) to 400 MB (NvPipe, issue 58). Little of it are frames: the same A100 held 545 MB for 1280x720 (issue
484), a T4 208 MB. Of encoding nobody says it alone: on an RTX 3080 all of an ffmpeg that decoded and encoded 960x540
held 387 MB (github.com/pytorch/audio, issue 3165, 2023), which with frames of this size is 440 MB at the most."""
SURFACES = 22
"""Frames of a stream that are held: 20 to decode H.264 and 2 to give out, as NVIDIA's sample decoder asks for (Video
Codec SDK 9, NvDecoder.cpp); it asks for fewer of other codecs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRate:
    """How fast a GPU decodes or encodes one codec at one resolution."""

    gpu: str
    codec: Codec
    width: int
    height: int
    preset: str
    """Of encoding, that of which the rate is: the next slower one that was published. Empty: nobody says which."""
    fps_per_engine: float
    engines: int
    """0 on a slice that has none."""
    evidence: Evidence
    source: str

    @property
    def fps(self) -> float:
        """Frames a second of all engines. Decoding H.264 on a T4: 2 x 771 = 1,542."""
        return self.engines * self.fps_per_engine

    def streams(self, stream_fps: float) -> int:
        """Whole streams of so many frames a second. Decoding H.264 on a T4 at 30 fps: 1,542 / 30 = 51."""
        return floor(self.fps / stream_fps + 1e-9)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of decoding.csv or encoding.csv."""

    of: frozenset[str]
    """GPUs, by name or by compute capability, that it was published of."""
    assumed_of: frozenset[str]
    """Others that are taken to have the same engine at the same clock."""
    codec: Codec
    preset: str
    fps: float | None
    """Of one engine; None: it can do this, and nobody says how fast."""
    source: str


def engine_count(gpu: GPU, kind: str) -> int | None:
    """Engines of a GPU that decode, or that encode; None: not known."""
    return gpu.decoders if kind == DECODE else gpu.encoders


def codes(gpu: GPU, coding: Coding) -> bool:
    """Whether a GPU does this with frames of this codec, at whatever rate."""
    return bool(engine_count(gpu, coding.kind)) and any(_rows_of(gpu, coding.kind, coding.codec))


def engine_rate(gpu: GPU, coding: Coding) -> EngineRate | None:
    """The rate of a GPU; None where nobody says that it does this, how fast, or how many engines it has.

    Another resolution than 1920x1080 counts by its pixels, which is extrapolated: 2688x1520 has 1.97 times as many, so
    903 become 458. That may be too much: of 833 so counted of HEVC, an RTX 4090 was seen to decode 543.
    """
    engines = engine_count(gpu, coding.kind)
    as_good = {"", *(one for one in Preset if one >= coding.preset)}
    rows = [row for row in _rows_of(gpu, coding.kind, coding.codec) if row.preset in as_good]
    if not rows or engines is None:
        return None
    row = rows[0]
    stated = coding.engine_fps
    full_fps = row.fps and row.fps * FULL_HD[0] * FULL_HD[1] / (coding.width * coding.height)
    fps = full_fps if stated is None else stated
    if not fps:
        return None
    return EngineRate(
        gpu=gpu.name,
        codec=coding.codec,
        width=coding.width,
        height=coding.height,
        preset=row.preset,
        fps_per_engine=fps,
        engines=engines,
        evidence=Evidence.ASSUMED if stated is not None else _evidence(gpu, coding, row),
        source="as stated" if stated is not None else row.source,
    )


def engine_rates(gpu: GPU, kind: str) -> Iterator[EngineRate]:
    """Rates of all codecs that are known of a GPU, at 1920x1080: of encoding, at each preset that was published."""
    for codec in Codec:
        for preset in dict.fromkeys(row.preset for row in _rows_of(gpu, kind, codec)):
            rate = engine_rate(gpu, Coding(kind=kind, codec=codec, preset=Preset(preset or Preset.P4)))
            if rate is not None:
                yield rate


def stream_bytes(coding: Coding) -> int:
    """Memory that a stream holds on its GPU: 500 MB where 1920x1080 is decoded, of which 22 frames of 3.1 MB are 68.

    At 3840x2160 the same besides its frames, 22 x 12.4 MB: 705 MB.
    """
    beside = STREAM_BYTES[coding.kind] - SURFACES * frame_bytes(*FULL_HD, Codec.H264)
    return beside + SURFACES * frame_bytes(coding.width, coding.height, coding.codec)


def frame_bytes(width: int, height: int, codec: Codec) -> int:
    """Of a frame as decoders give it, in NV12 or, of 10 bits, P016: 1.5 samples for each pixel, of a byte or two."""
    return width * height * 3 // 2 * (2 if codec.is_deep else 1)


def _evidence(gpu: GPU, coding: Coding, row: _Row) -> Evidence:
    known = {gpu.name, gpu.compute_capability} & row.of and {f"{coding.kind}rs"}.isdisjoint(gpu.assumed)
    if coding.kind == ENCODE and not row.preset:
        known = False
    scaled = coding.width * coding.height != FULL_HD[0] * FULL_HD[1]
    return weakest(
        Evidence.PUBLISHED if known else Evidence.ASSUMED,
        Evidence.EXTRAPOLATED if scaled else Evidence.PUBLISHED,
    )


def _rows_of(gpu: GPU, kind: str, codec: Codec) -> Iterator[_Row]:
    names = {gpu.name, gpu.compute_capability}
    return (row for row in _rows(kind) if row.codec is codec and names & (row.of | row.assumed_of))


@cache
def _rows(kind: str) -> tuple[_Row, ...]:
    """What was published of a GPU itself goes before what is assumed of it."""
    return tuple(map(_row, table(TABLES[kind])))


def _row(line: dict[str, str]) -> _Row:
    """Of two tunings of a preset, the slower."""
    rates_fps = [line[key] for key in ("fps_per_engine", "low_latency_fps", "high_quality_fps") if line.get(key)]
    return _Row(
        of=frozenset(line["of"].split()),
        assumed_of=frozenset(line["assumed_of"].split()),
        codec=Codec(line["codec"]),
        preset=line.get("preset", ""),
        fps=min(map(float, rates_fps), default=None),
        source=line["source"],
    )
