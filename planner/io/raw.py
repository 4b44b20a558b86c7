"""Parts and numbers of what was measured, as its JSON has them, whatever else stands there."""

from collections.abc import Mapping
from typing import Any


def part_of(raw: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """A mapping inside others; empty where there is none."""
    for key in keys:
        raw = raw.get(key) or {}
        if not isinstance(raw, dict):
            return {}
    return raw


def numbers_in(values: object) -> list[float]:
    """The numbers of a list; none where it is no list."""
    listed = values if isinstance(values, list) else []
    return [float(v) for v in listed if isinstance(v, int | float) and not isinstance(v, bool)]
