"""Fits on series that others measured: errors of points held out, by form, and how many lie within the band.

The series are the shipped profiles' published ones, and the Nexus project's (University of Washington) where their
files are: in `nexus/` of the directory that PLANNER_DATA names, or of `shared/data` beside the repository.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

from calibrate.library.fit import (
    BAND_SHARE,
    CHOICE_POINTS_MIN,
    LATENCY_FORMS,
    Values,
    choose,
    fit_latency,
    held_out_errors,
    pooled_spread,
    relative,
)
from calibrate.library.lookup import SHIPPED

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("PLANNER_DATA", ROOT.parent / "shared" / "data"))
NEXUS = {"nexus vgg16, Titan X": "titan-x-vgg16.txt", "nexus yolo9000, Titan X": "titan-x-yolo9000.txt"}
ERROR = 0.03
"""Mean held-out error over all series, at most."""


@dataclass(frozen=True)
class Judged:
    """A series and the errors of its held-out points, ln(told / seen)."""

    name: str
    x: Values
    y: Values

    @cached_property
    def form(self) -> str:
        """What is chosen through all points."""
        return choose(self.x, self.y, LATENCY_FORMS)

    @cached_property
    def ours(self) -> dict[float, float]:
        """With the form chosen without the point."""
        return held_out_errors(self.x, self.y, LATENCY_FORMS)

    @cached_property
    def line(self) -> dict[float, float]:
        """With a straight line alone."""
        return held_out_errors(self.x, self.y, ("straight-line",))

    @cached_property
    def interpolation(self) -> dict[float, float]:
        """With lines between the points alone."""
        return held_out_errors(self.x, self.y, ("interpolation",))

    @property
    def past(self) -> float:
        """Error of the last point predicted from all before it: outside their range, where plans do not go."""
        shorter = fit_latency({int(x): y for x, y in zip(self.x[:-1], self.y[:-1], strict=True)})
        return abs(shorter.curve(self.x[-1]) / self.y[-1] - 1)

    @property
    def mean_square(self) -> float:
        """Of its own errors."""
        return fmean(e * e for e in self.ours.values())

    def scores(self, usual: float) -> list[float]:
        """Each error over the spread that the other points show."""
        errors = list(self.ours.values())
        return [abs(e) / pooled_spread(errors[:i] + errors[i + 1 :], usual) for i, e in enumerate(errors)]


@dataclass(frozen=True)
class Band:
    """How far points lie from what was told."""

    spread: float
    """Root mean square of errors, each series counting the same."""
    factor: float
    """Score that `BAND_SHARE` of points stay below."""


def series() -> list[Judged]:
    """All there are here."""
    return [*published(), *nexus()]


def published() -> list[Judged]:
    """Series in the shipped profiles that others published, long enough to choose a form."""
    raw = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(SHIPPED.rglob("*.json"))]
    chosen = [p for p in raw if p.get("latency_evidence") == "published" and len(p["latency_s"]) >= CHOICE_POINTS_MIN]
    return [_judged(f"{p['model']}, {p['gpu']} {p['precision']}", p["latency_s"]) for p in chosen]


def nexus() -> list[Judged]:
    """Series of the Nexus project, where they are."""
    files = {name: DATA / "nexus" / file for name, file in NEXUS.items()}
    return [_judged(name, _rows(path)) for name, path in files.items() if path.is_file()]


def _judged(name: str, points: Mapping[str, float]) -> Judged:
    pairs = sorted((float(batch), float(time_s)) for batch, time_s in points.items())
    return Judged(name, tuple(batch for batch, _ in pairs), tuple(time_s for _, time_s in pairs))


def _rows(path: Path) -> dict[str, float]:
    """Lines `batch,latency(us),std(us),memory(B)`."""
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    return {row[0]: float(row[1]) * 1e-6 for row in rows if len(row) == 4 and row[0].isdigit()}


def calibrated(judged: Sequence[Judged]) -> Band:
    """The band that these series ask for.

    Points of one series resemble each other, so the series are the sample: each weighs the same, and the share is
    raised by 1/n, as n of them are no more than a sample (split conformal prediction).
    """
    spread = math.sqrt(fmean(s.mean_square for s in judged))
    weighted = sorted((score, 1 / len(s.ours)) for s in judged for score in s.scores(spread))
    asked = BAND_SHARE * (1 + 1 / len(judged)) * len(judged)
    below = 0.0
    for score, weight in weighted:
        below += weight
        if below >= asked:
            return Band(spread, score)
    return Band(spread, weighted[-1][0])


def within(judged: Sequence[Judged]) -> dict[str, list[bool]]:
    """By series, which held-out points lie in the band that all other series ask for."""
    bands = {s.name: calibrated([other for other in judged if other is not s]) for s in judged}
    return {s.name: [score <= bands[s.name].factor for score in s.scores(bands[s.name].spread)] for s in judged}


def table(judged: Sequence[Judged]) -> list[str]:
    """In Markdown: a row for each series, then all of them."""
    inside = within(judged)
    head = "| series | points | form | mean | worst | at | line: mean | worst | interpolation: mean | worst | in band |"
    rows = [_row(s, inside[s.name]) for s in judged]
    return [head, "|---|---:|---|" + "---:|" * 8, *rows, *_all(judged, inside)]


def _row(s: Judged, inside: Sequence[bool]) -> str:
    at = max(s.ours, key=lambda x: relative(s.ours[x]))
    cells = [s.name, str(len(s.x)), s.form, *_mean_and_worst(s.ours), f"{at:g}"]
    cells += [*_mean_and_worst(s.line), *_mean_and_worst(s.interpolation), f"{sum(inside)} of {len(inside)}"]
    return f"| {' | '.join(cells)} |"


def _all(judged: Sequence[Judged], inside: Mapping[str, Sequence[bool]]) -> list[str]:
    kinds = [[s.ours for s in judged], [s.line for s in judged], [s.interpolation for s in judged]]
    ours, line, interpolation = ([_percent(mean_error(kind)), _percent(_worst(kind))] for kind in kinds)
    covered = [hit for hits in inside.values() for hit in hits]
    cells = [f"**all {len(judged)} series**", "", "", *ours, "", *line, *interpolation]
    return [f"| {' | '.join([*cells, f'{sum(covered)} of {len(covered)}'])} |"]


def mean_error(errors: Iterable[Mapping[float, float]]) -> float:
    """Mean over series of each one's mean relative error."""
    return fmean(fmean(map(relative, of_series.values())) for of_series in errors)


def coverage(inside: Mapping[str, Sequence[bool]]) -> float:
    """Mean over series of each one's share within the band."""
    return fmean(fmean(hits) for hits in inside.values())


def _worst(errors: Iterable[Mapping[float, float]]) -> float:
    return max(relative(e) for of_series in errors for e in of_series.values())


def _mean_and_worst(errors: Mapping[float, float]) -> list[str]:
    return [_percent(fmean(map(relative, errors.values()))), _percent(_worst([errors]))]


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def summary(judged: Sequence[Judged]) -> list[str]:
    """The figures that are promised, and those that `calibrate.library.fit` holds as constants."""
    past = [s.past for s in judged]
    error, share, band = mean_error(s.ours for s in judged), coverage(within(judged)), calibrated(judged)
    return [
        f"Mean error over all series {error:.2%}, at most {ERROR:.0%}.",
        f"Within the band {share:.1%}, series counting the same, at least {BAND_SHARE:.0%}.",
        f"The last point, predicted from all before it: mean {_percent(fmean(past))}, worst {_percent(max(past))}.",
        f"Spread {band.spread:.4f}, factor {band.factor:.2f}.",
    ]
