"""Merged models: what may be shared, and what that costs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from planner.model.checked import checked
from planner.model.parts.fields import Count
from planner.units.errors import Wrong
from planner.units.reading import Latency, LongDuration, PricePerHour


class Merging(StrEnum):
    """Which equal layers of several models may be stored once, after joint training."""

    NONE = "none"
    STEM = "stem"
    LAYERS = "layers"
    AUTO = "auto"


class SharingRule(StrEnum):
    """Assumptions about the accuracy of merged models where nobody measured it."""

    HARMLESS = "harmless"
    GEMEL = "gemel"


def one_source(sharing: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors where the accuracy of merged models comes from two files."""
    if sharing.get("table") is not None and sharing.get("curve") is not None:
        yield ("curve",), "cannot stand beside `table`: accuracy comes from one of them. Keep one."


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class RetrainingSpec:
    """Time and cost of joint training. Each try of the search for what to share is one training of all who share."""

    step: Latency
    """One training step of one model, e.g. `0.3 s`."""
    steps: Count
    """Steps of an epoch."""
    epochs: Count
    """Epochs of one try."""
    price: PricePerHour
    """An hour of the machine that trains, e.g. `$3.06/h`."""
    every: LongDuration | None = None
    """Train what is shared anew so often, because scenes change, e.g. `30 days`; never where not given."""
    life: LongDuration = 31_536_000.0
    """Over how long the first training is written off; a year where not given."""


@checked(one_source)
@dataclass(frozen=True, slots=True, kw_only=True)
class SharingSpec:
    """Knowledge about merged models. Of `table` and `curve` one at most; with neither, `rule` is assumed."""

    rule: SharingRule = SharingRule.GEMEL
    """`gemel`: 95 % of the accuracy where 71 % of what could be shared is; `harmless`: sharing costs none."""
    table: Path | None = None
    """CSV with `model`, `shared_fraction`, `accuracy`, measured; relative to the scenario's file."""
    curve: Path | None = None
    """A file that `planner merge train` wrote; relative to the scenario's file."""
    retraining: RetrainingSpec | None = None
    """Time and cost of joint training; not priced where not given."""
