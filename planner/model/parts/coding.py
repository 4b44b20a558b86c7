"""What an engine for video does with the frames of a stream."""

from dataclasses import dataclass

from planner.model.choices import Codec, Preset

FULL_HD = (1920, 1080)
"""Width and height at which rates of engines were published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coding:
    """The codec, the size and how frames are decoded or encoded."""

    kind: str
    """`decode` or `encode`."""
    codec: Codec
    width: int = FULL_HD[0]
    height: int = FULL_HD[1]
    preset: Preset = Preset.P4
    """Of encoding."""
    engine_fps: float | None = None
    """Frames of just this kind that one engine does in a second, where somebody states it."""
