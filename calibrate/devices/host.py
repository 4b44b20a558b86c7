"""Host work: what one core takes for the steps around models that see: decode, resize, crop, suppress, track.

Needs torch; video is decoded by PyAV where that is installed.
"""

import io
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from itertools import product
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch.nn.functional import interpolate, pad

from calibrate.devices.knees import one_thread
from calibrate.devices.timer import CpuTimer, StopRule, repeat
from calibrate.io.points import FRAME_SIZES, Figures

SIDE = 640
"""Pixels of a detector's input: YOLO's."""
CROP_SIDE = 224
"""Pixels of a classifier's input."""
BOX = (320, 240)
"""Width and height of an object that is cut out."""
CANDIDATES = 300
"""Boxes that a detector leaves above its threshold."""
TRACKS = 50
"""Objects that are followed, and as many that are seen anew."""
CLIP_FRAMES = 30
CLIPS_AT_LEAST = 5
"""Each time of a clip is a mean over its frames already."""
SHIFTED = 256
"""Pixels by which a picture of noise is shifted between frames, at most: an encoder looks for motion nearer by."""
GREY = 0.45
"""What fills up a letterbox: 114 of 255."""

Floats = NDArray[np.float64]
Frame = torch.Tensor
"""Colours, height and width; bytes. In memory the colours of a pixel lie side by side, as decoders leave them."""


def host(device: torch.device, seconds: float) -> Figures:
    """Times of one step each, by one core of the machine, whatever the device.

    Values: `<step>_<width>x<height>_s` of frames of that size: `decode` (H.264 by PyAV), `resize` and `letterbox` to
    640x640, `crop` of 320x240 to 224x224; `suppress_s` of 300 boxes, `track_s` of 50 objects.
    """
    works = steps()
    with one_thread():
        samples = {f"{name}_s": times_s(work, seconds / len(works)) for name, work in works.items()}
        details: dict[str, Any] = {}
        if find_spec("av") is None:
            details["left_out"] = "decoding of video, for PyAV is not installed: pip install av"
        else:
            samples |= {f"decode_{w}x{h}_s": decode_s(w, h, seconds / len(works)) for w, h in FRAME_SIZES}
    return Figures({name: median(taken) for name, taken in samples.items()}, samples, details)


def times_s(work: Callable[[], object], seconds: float, at_least: int = 10) -> list[float]:
    """Times of one step, done over and over for so long."""
    rule = StopRule(seconds=seconds, at_least=at_least, at_most=100, warm_up_s=seconds / 4, warm_up_runs=1)
    return list(repeat(CpuTimer(), work, rule).wall_s)


def steps() -> Mapping[str, Callable[[], object]]:
    """Each step but decoding, by its name."""
    random = np.random.default_rng(1)
    works: dict[str, Callable[[], object]] = {}
    for (width, height), (name, step) in product(FRAME_SIZES, OF_FRAMES.items()):
        frame = torch.from_numpy(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).permute(2, 0, 1)
        works[f"{name}_{width}x{height}"] = partial(step, frame)
    boxes, scores = random_boxes(random, CANDIDATES), random.random(CANDIDATES)
    before = random_boxes(random, TRACKS)
    now = before + random.normal(0, 4, before.shape)
    return {**works, "suppress": lambda: suppressed(boxes, scores), "track": lambda: assigned(before, now)}


def random_boxes(random: np.random.Generator, count: int) -> Floats:
    """Boxes of 20 to 200 pixels in a frame of 1920x1080: left, top, right, bottom."""
    corner = random.random((count, 2)) * (1720, 880)
    return np.concatenate([corner, corner + random.uniform(20, 200, (count, 2))], axis=1)


# Steps on frames


def resized(frame: Frame, height: int = SIDE, width: int = SIDE) -> torch.Tensor:
    """A frame as numbers from 0 to 1, at another size. It is resized in bytes, as libraries of pictures do: numbers are
    made of what is left, not of all that was."""
    small = interpolate(frame[None], (height, width), mode="bilinear")[0]
    return small.to(torch.float32, memory_format=torch.contiguous_format) / 255


def letterboxed(frame: Frame, side: int = SIDE) -> torch.Tensor:
    """A frame in a square, its proportions kept: 1920x1080 fills 640x360 of 640x640."""
    _, height, width = frame.shape
    scale = side / max(height, width)
    small = resized(frame, round(height * scale), round(width * scale))
    below, beside = side - small.shape[1], side - small.shape[2]
    edges = (beside // 2, beside - beside // 2, below // 2, below - below // 2)
    return pad(small, edges, value=GREY)


def cropped(frame: Frame, left: int = 0, top: int = 0, width: int = BOX[0], height: int = BOX[1]) -> torch.Tensor:
    """An object cut out of a frame, at the size of a classifier's input."""
    return resized(frame[:, top : top + height, left : left + width], CROP_SIDE, CROP_SIDE)


OF_FRAMES: Mapping[str, Callable[[Frame], object]] = {"resize": resized, "letterbox": letterboxed, "crop": cropped}


# Steps on boxes


def overlaps(some: Floats, others: Floats) -> Floats:
    """Intersection over union of each two boxes. Halves of one square: 0.5 of it and the square."""
    low = np.maximum(some[:, None, :2], others[None, :, :2])
    high = np.minimum(some[:, None, 2:], others[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=2)
    sizes = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (some, others)]
    either = sizes[0][:, None] + sizes[1][None, :] - shared
    share: Floats = shared / either
    return share


def suppressed(boxes: Floats, scores: Floats, overlap_max: float = 0.5) -> list[int]:
    """Boxes that are kept, the best first: each that overlaps no better one by more (non-maximum suppression)."""
    kept: list[int] = []
    left = np.argsort(-scores)
    apart = overlaps(boxes, boxes) <= overlap_max
    while left.size:
        best = int(left[0])
        kept.append(best)
        left = left[1:][apart[best, left[1:]]]
    return kept


def assigned(before: Floats, now: Floats, overlap_min: float = 0.3) -> list[tuple[int, int]]:
    """Which box of now continues which of before: most overlap in all (Hungarian method), none below the least."""
    overlap = overlaps(before, now)
    pairs = zip(*linear_sum_assignment(-overlap), strict=True)
    return [(int(a), int(b)) for a, b in pairs if overlap[a, b] >= overlap_min]


# Video


def decode_s(width: int, height: int, seconds: float) -> list[float]:
    """Times of decoding one frame of H.264."""
    video = clip(width, height, CLIP_FRAMES)
    return [taken / CLIP_FRAMES for taken in times_s(lambda: frames_of(video), seconds, CLIPS_AT_LEAST)]


def clip(width: int, height: int, frames: int) -> bytes:
    """A video made here: a pattern that moves, with a little noise."""
    random = np.random.default_rng(1)
    noise = 6 * random.standard_normal((height + SHIFTED, width + SHIFTED), np.float32)
    rows, columns = np.arange(height, dtype=np.float32), np.arange(width, dtype=np.float32)
    down = 90 * np.cos(rows / 60)

    def picture(number: int) -> Any:
        top, left = random.integers(0, SHIFTED, 2)
        wave = 127 + np.outer(down, np.sin((columns + 8 * number) / 40))
        return np.clip(wave + noise[top : top + height, left : left + width], 0, 255).astype(np.uint8)

    return encoded(map(picture, range(frames)), width, height, "gray")


def encoded(pictures: Iterable[Any], width: int, height: int, colours: str) -> bytes:
    """A video of pictures in H.264, at 30 frames a second."""
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": "veryfast", "g": "30"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.time_base = Fraction(1, 30)
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format=colours)))
        container.mux(stream.encode())
    return file.getvalue()


def frames_of(video: bytes) -> list[Any]:
    """All frames of a video, decoded by one core."""
    import av

    with av.open(io.BytesIO(video)) as container:
        stream = container.streams.video[0]
        stream.thread_count = 1
        return list(container.decode(stream))
