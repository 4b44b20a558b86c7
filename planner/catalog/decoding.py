"""Decoding: frames of a video that the engines of a GPU decode, and the memory that each stream holds there."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import floor
from pathlib import Path

from planner.model.choices import Codec
from simulator.world.hardware import GPU
from simulator.world.profile import Evidence, weakest

RATES = Path(__file__).parent / "data" / "decoding.csv"
FULL_HD = (1920, 1080)
"""Width and height at which rates were published."""
STREAM_BYTES = 500_000_000
"""Memory that a stream of that size holds on an A100: github.com/NVIDIA/VideoProcessingFramework, issue 482.

How much depends on the surfaces that the program asks for, and on what its process holds besides: others saw 130 MB
(issue 140 there) to 400 MB (NvPipe, issue 58). Little of it are frames: the same A100 held 545 MB for 1280x720 (issue
484), a T4 208 MB."""
SURFACES = 22
"""Frames of a stream that are held: 20 to decode H.264 and 2 to give out, as NVIDIA's sample decoder asks for (Video
Codec SDK 9, NvDecoder.cpp); it asks for fewer of other codecs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRate:
    """How fast a GPU decodes one codec at one resolution."""

    gpu: str
    codec: Codec
    width: int
    height: int
    fps_per_engine: float
    engines: int
    """0 on a slice that has none."""
    evidence: Evidence
    source: str

    @property
    def fps(self) -> float:
        """Frames a second of all engines. H.264 on a T4: 2 x 771 = 1,542."""
        return self.engines * self.fps_per_engine

    def streams(self, stream_fps: float) -> int:
        """Whole streams of so many frames a second. H.264 on a T4 at 30 fps: 1,542 / 30 = 51."""
        return floor(self.fps / stream_fps + 1e-9)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of decoding.csv."""

    of: frozenset[str]
    """GPUs, by name or by compute capability, that it was published of."""
    assumed_of: frozenset[str]
    """Others that are taken to have the same engine at the same clock."""
    codec: Codec
    fps_per_engine: float
    source: str


def decode_fps(gpu: GPU, codec: Codec, width: int = FULL_HD[0], height: int = FULL_HD[1]) -> DecodeRate | None:
    """The rate of a GPU; None where nobody says that it decodes this codec, or how many engines it has.

    Another resolution than 1920x1080 counts by its pixels, which is extrapolated: 2688x1520 has 1.97 times as many, so
    903 become 458. That may be too much: of 833 so counted of HEVC, an RTX 4090 was seen to decode 543.
    """
    names = {gpu.name, gpu.compute_capability}
    row = next((row for row in _rows() if row.codec is codec and names & (row.of | row.assumed_of)), None)
    if row is None or gpu.decoders is None:
        return None
    known = names & row.of and {"decoders"}.isdisjoint(gpu.assumed)
    scaled = width * height != FULL_HD[0] * FULL_HD[1]
    return DecodeRate(
        gpu=gpu.name,
        codec=codec,
        width=width,
        height=height,
        fps_per_engine=row.fps_per_engine / _pixels(width, height),
        engines=gpu.decoders,
        evidence=weakest(
            Evidence.PUBLISHED if known else Evidence.ASSUMED,
            Evidence.EXTRAPOLATED if scaled else Evidence.PUBLISHED,
        ),
        source=row.source,
    )


def stream_bytes(width: int = FULL_HD[0], height: int = FULL_HD[1], codec: Codec = Codec.H264) -> int:
    """Memory that a stream holds on the GPU that decodes it: 500 MB at 1920x1080, of which 22 frames of 3.1 MB are 68.

    At 3840x2160 the same besides its frames, 22 x 12.4 MB: 705 MB.
    """
    beside = STREAM_BYTES - SURFACES * frame_bytes(*FULL_HD, Codec.H264)
    return beside + SURFACES * frame_bytes(width, height, codec)


def frame_bytes(width: int, height: int, codec: Codec) -> int:
    """Of a frame as decoders give it, in NV12 or, of 10 bits, P016: 1.5 samples for each pixel, of a byte or two."""
    return width * height * 3 // 2 * (2 if codec.value.endswith("10bit") else 1)


def _pixels(width: int, height: int) -> float:
    """Those of a frame, over those of 1920x1080."""
    return width * height / (FULL_HD[0] * FULL_HD[1])


@cache
def _rows() -> tuple[_Row, ...]:
    """What was published of a GPU itself goes before what is assumed of it."""
    with RATES.open(encoding="utf-8", newline="") as lines:
        rows = [_row(line) for line in csv.DictReader(lines)]
    return tuple(rows)


def _row(line: dict[str, str]) -> _Row:
    return _Row(
        of=frozenset(line["of"].split()),
        assumed_of=frozenset(line["assumed_of"].split()),
        codec=Codec(line["codec"]),
        fps_per_engine=float(line["fps_per_engine"]),
        source=line["source"],
    )


def decode_rates(gpu: GPU) -> Iterator[DecodeRate]:
    """Rates of all codecs that are known of a GPU, at 1920x1080."""
    found = (decode_fps(gpu, codec) for codec in Codec)
    yield from filter(None, found)
