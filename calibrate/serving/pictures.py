"""Pictures: frames of a real pipeline from their decoding to the inputs of its models. Needs torch, and PyAV."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch

from calibrate.devices.host import (
    CANDIDATES,
    TRACKS,
    assigned,
    cropped,
    encoded,
    letterboxed,
    random_boxes,
    resized,
    suppressed,
)
from calibrate.serving.served import Scene
from calibrate.zoo.moving import BACKGROUND, COLOURS, LANES, SIDE, lane_top, object_height

Box = Sequence[float]
"""Left, top, right and bottom in pixels of a frame."""
LENGTHS = (120, 320)
"""Pixels of an object from its left to its right."""
SPEEDS = (3, 12)
"""Pixels that an object moves from frame to frame."""
SOMEWHERE: Box = (0, 0, 320, 240)
"""What is cut out of a frame of which nobody knows a box any more, because it is lost."""


@cache
def road(width: int, height: int, counts: tuple[int, ...]) -> bytes:
    """A video of rectangles that move, each in its lane: in picture k as many as its count."""
    return encoded(painted(width, height, counts), width, height, "rgb24")


def painted(width: int, height: int, counts: Sequence[int]) -> Iterator[Any]:
    """The pictures of that video: height, width and colours; bytes."""
    random = np.random.default_rng(1)
    long = random.integers(*LENGTHS, LANES)
    begin = random.integers(0, width, LANES)
    speed = random.integers(*SPEEDS, LANES)
    high = object_height(width, height)
    for number, count in enumerate(counts):
        noise = random.normal(0, 4, (height, width, 1))
        picture = np.full((height, width, 3), float(BACKGROUND))
        for lane in range(count):
            top = lane_top(lane, width, height)
            left = to_and_fro(begin[lane] + number * speed[lane], width - long[lane])
            picture[top : top + high, left : left + long[lane]] = COLOURS[lane % len(COLOURS)]
        yield np.clip(picture + noise, 0, 255).astype(np.uint8)


def to_and_fro(way: int, length: int) -> int:
    """Where somebody is who goes forward and back between 0 and `length`. 12 of 10: 8."""
    return int(length - abs(way % (2 * length) - length))


def decoded(video: bytes) -> Iterator[Any]:
    """Frames of a video by one core, from its start again when it ends."""
    import av

    while True:
        with av.open(io.BytesIO(video)) as container:
            stream = container.streams.video[0]
            stream.thread_count = 1
            yield from container.decode(stream)


@dataclass
class Pictures:
    """What is known of each frame on its way, and all that a processor does with it."""

    scene: Scene
    shown: dict[int, torch.Tensor] = field(default_factory=dict)
    """By frame, once it is decoded: colours, height and width; bytes."""
    found: dict[int, Sequence[Box]] = field(default_factory=dict)
    """By frame, once a detector has answered."""
    made: dict[int, dict[tuple[str, int], torch.Tensor]] = field(default_factory=dict)
    """By frame: inputs of models, by the stage that made them and its item."""
    gone: set[int] = field(default_factory=set)
    """Frames that are answered or lost: somebody may still be at work on them."""

    def __post_init__(self) -> None:
        self.video = decoded(road(self.scene.width, self.scene.height, self.scene.counts))
        random = np.random.default_rng(1)
        self.boxes, self.scores = random_boxes(random, CANDIDATES), random.random(CANDIDATES)
        self.before = random_boxes(random, TRACKS)
        self.now = self.before + random.normal(0, 4, self.before.shape)

    def work(self, step: str, frame: int, number: int) -> torch.Tensor | None:
        """A step on a frame, or on the object of that number in it. What it made, where that is a model's input."""
        works: Mapping[str, Callable[[], object]] = {
            "decode": lambda: self.decode(frame),
            "resize": lambda: resized(self.picture(frame)),
            "letterbox": lambda: letterboxed(self.picture(frame)),
            "crop": lambda: self.crop(frame, number),
            "suppress": lambda: suppressed(self.boxes, self.scores),
            "track": lambda: assigned(self.before, self.now),
        }
        made = works[step]()
        return made if isinstance(made, torch.Tensor) else None

    def decode(self, frame: int) -> None:
        """The next picture of the video is this frame's."""
        picture = next(self.video).to_ndarray(format="rgb24")
        self.shown[frame] = torch.from_numpy(picture).permute(2, 0, 1)
        self._drop_gone(frame)

    def picture(self, frame: int) -> torch.Tensor:
        """A frame that was decoded; black where it is lost and let go."""
        shown = self.shown.get(frame)
        return torch.zeros((3, self.scene.height, self.scene.width), dtype=torch.uint8) if shown is None else shown

    def crop(self, frame: int, number: int) -> torch.Tensor:
        """One object that the detector found."""
        found = self.found.get(frame, ())
        left, top, right, bottom = map(round, found[number] if number < len(found) else SOMEWHERE)
        return cropped(self.picture(frame), left, top, right - left, bottom - top)

    def see(self, frame: int, answer: torch.Tensor) -> int:
        """Keep the boxes that a detector found in a letterboxed frame; how many."""
        scale = SIDE / max(self.scene.width, self.scene.height)
        beside = (SIDE - round(self.scene.width * scale)) // 2, (SIDE - round(self.scene.height * scale)) // 2
        shift = torch.tensor([*beside, *beside])
        rows = answer.cpu()
        boxes: list[Box] = ((rows[rows[:, 4] > 0, :4] - shift) / scale).tolist()
        self.found[frame] = boxes
        return len(boxes)

    def keep(self, frame: int, maker: tuple[str, int], made: torch.Tensor) -> None:
        """What a stage made of one of its items."""
        self.made.setdefault(frame, {})[maker] = made
        self._drop_gone(frame)

    def forget(self, frame: int) -> None:
        """The frame is answered or lost."""
        self.gone.add(frame)
        self._drop_gone(frame)

    def _drop_gone(self, frame: int) -> None:
        """Let go of all that is known of a frame that is gone. Threads first add, then drop: whoever is last drops."""
        if frame not in self.gone:
            return
        self.made.pop(frame, None)
        self.shown.pop(frame, None)
        self.found.pop(frame, None)
