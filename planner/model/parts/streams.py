"""Who asks, and how often."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from planner.model.checked import checked
from planner.model.parts.fields import Count, Name
from planner.units.errors import Wrong
from planner.units.reading import Delay, Rate

ARRIVALS = ("rate", "poisson", "gamma", "trace")
"""Ways to send, of which a stream has one."""


class Phase(StrEnum):
    """How the cameras of a group stand to each other in time."""

    RANDOM = "random"
    ALIGNED = "aligned"
    SPREAD = "spread"


def sending(stream: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors in how one stream sends."""
    kinds = [kind for kind in ARRIVALS if stream.get(kind) is not None]
    if not kinds:
        yield (), "does not say how it sends. Give one of `rate`, `poisson`, `gamma` and `trace`.", *ARRIVALS
    if len(kinds) > 1:
        yield (kinds[1],), f"cannot stand beside `{kinds[0]}`: a stream sends in one way. Keep one of them."
    if kinds and "rate" not in kinds:
        for key in ("phase", "jitter"):
            if key in stream:
                yield (key,), f"goes only with `rate`, not with `{kinds[0]}`. Leave it out."


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class GammaSpec:
    """Bursty arrivals."""

    rate: Rate
    """Mean rate, e.g. `20 rps`."""
    cv: Annotated[float, Field(ge=0.001, le=100, allow_inf_nan=False)]
    """Coefficient of variation of the gaps; 1 is Poisson."""


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpec:
    """Recorded arrivals."""

    file: Path
    """CSV with a column of time stamps, relative to the scenario's file."""
    column: str | None = None
    """Name of that column; found by its usual names where not given."""
    rate: Rate | None = None
    """Stretch time so that the mean rate becomes this."""


@checked(sending)
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """A group of like sources. Exactly one of `rate`, `poisson`, `gamma` and `trace` says how each one sends."""

    model: Name
    """The model that is asked."""
    name: Name | None = None
    """The group's name in messages."""
    count: Count = 1
    """How many sources."""
    rate: Rate | None = None
    """Frames at a fixed rate, each source, e.g. `15 fps`."""
    phase: Phase = Phase.RANDOM
    """With `rate`: first frames at random times, all at once, or evenly spread."""
    jitter: Delay = 0.0
    """With `rate`: scale of a frame's delay, `abs(N(0, jitter))`."""
    poisson: Rate | None = None
    """Independent arrivals at this mean rate, each source."""
    gamma: GammaSpec | None = None
    """Bursty arrivals, each source."""
    trace: TraceSpec | None = None
    """Arrivals from a file."""
