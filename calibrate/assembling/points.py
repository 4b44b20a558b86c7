"""Points in files: a profile holds those it was made of, so that later ones join them and all is made anew."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from calibrate.assembling.figures import DIGITS, short, short_all
from calibrate.io.files import one_line
from calibrate.io.points import OPTIMIZERS, Point, PointOutcome, Settings, What


def _point_kind(what: What, optimizer: str) -> str:
    """`latency`, `memory.adam`."""
    return f"{what}.{optimizer}" if optimizer else str(what)


POINT_KINDS = {_point_kind(what, optimizer): (what, optimizer) for what in What for optimizer in ("", *OPTIMIZERS)}
"""What a kind of points in a file is of."""


def points_json(outcomes: Iterable[PointOutcome]) -> dict[str, Any]:
    """Outcomes by kind (and optimizer), then by batch, 0 where there is none; `outcomes_of` reads them."""
    kinds = list(What)
    listed: dict[str, dict[str, Any]] = {}
    for outcome in sorted(outcomes, key=lambda o: (kinds.index(o.point.what), o.point.optimizer, o.point.batch)):
        point = outcome.point
        of_kind = listed.setdefault(_point_kind(point.what, point.optimizer), {})
        of_kind[point.probe or str(point.batch)] = _point_json(outcome)
    return listed


def _point_json(outcome: PointOutcome) -> dict[str, Any]:
    raw: dict[str, Any] = {"status": str(outcome.status)}
    if outcome.message:
        raw["message"] = one_line(outcome.message, 200)
    raw["values"] = {name: short(value, 2 * DIGITS) for name, value in outcome.values.items()}
    raw["samples"] = {name: short_all(taken) for name, taken in outcome.samples.items()}
    # Layers stand beside the points, where planning reads them.
    if outcome.details and outcome.point.what is not What.LAYERS:
        raw["details"] = outcome.details
    return raw | {"took_s": short(outcome.took_s, 3)}


def outcomes_of(points: Mapping[str, Any], model: str, settings: Settings, layers: Any = ()) -> list[PointOutcome]:
    """The outcomes that `points_json` wrote, `layers` in their place."""
    found = []
    for kind, by_key in points.items():
        what, optimizer = POINT_KINDS[kind]
        for key, raw in by_key.items():
            named = {"probe": key} if what is What.PROBE else {"model": model, "batch": int(key), "settings": settings}
            point = Point(what=what, optimizer=optimizer, **named)
            details = {"layers": layers} if point.what is What.LAYERS and layers else raw.get("details", {})
            found.append(PointOutcome.from_json({**raw, "point": asdict(point), "details": details}))
    return found
