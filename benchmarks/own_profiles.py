"""How far a plan errs on another GPU for whoever measured a model on one: a publisher, left out, has the times."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import exp, expm1, log
from statistics import fmean

import numpy as np

from benchmarks.learnt import GROUP_MIN
from benchmarks.making.fitting import Figure, Fit
from benchmarks.truths import Blind
from calibrate.library.lookup import Library
from calibrate.library.reading import PRECISIONS, USUAL_RUNTIME
from calibrate.published import names
from planner.catalog.catalog import load_catalog
from planner.model.plan import Estimate
from planner.prediction.effects import chip
from planner.prediction.learnt import SMALL_MAX, learnt
from planner.prediction.predict import Predictor
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.model import Layer
from simulator.world.precision import WEIGHT_BYTES
from simulator.world.profile import Evidence, Profile

GPUS = load_catalog().gpus
PAIRS_MAX = 150
"""Of a model on two GPUs, of each publisher: so many at random."""
BATCH_MAX = 256
HEAD = ("| what | figures | without | p90 | in the band | with | p90 | in the band |", f"|---|{7 * '---:|'}")
Series = tuple[str, str, str]
"""Architecture, precision and runtime."""
Times = Mapping[float, float]
"""Seconds by batch."""


@dataclass(frozen=True)
class Told:
    """A batch that a publisher timed, as told to who has that publisher's times on another GPU, and to others."""

    publisher: str
    series: Series
    source: str
    target: str
    batch: float
    seen_s: float
    with_own: Estimate
    without: Estimate

    def is_inside(self, told: Estimate) -> bool:
        """Whether the time lies in a band."""
        return told.low <= self.seen_s <= told.high

    def error(self, told: Estimate) -> float:
        """Of the logarithm."""
        return abs(log(told.value / self.seen_s))


def carried(fitted: Fit) -> list[Told]:
    """Of every publisher and each two chips, at the usual input."""
    publishers = np.array([figure.source.partition("-v")[0] for figure in fitted.figures])
    every = np.arange(len(publishers))
    found: list[Told] = []
    for publisher in sorted(set(publishers.tolist())):
        left = np.flatnonzero(publishers == publisher)
        known = _series([fitted.figures[at] for at in left])
        pairs = [(key, *two) for key, on in known.items() for two in permutations(on, 2) if _differ(*two)]
        if pairs:
            others = fitted.without(left, every)
            blind = Blind(others.effects, others.spreads, others.noise, learnt().widening)
            some = np.random.default_rng(0).permutation(len(pairs))[:PAIRS_MAX]
            found += [told for at in some for told in _told(publisher, *pairs[at], known[pairs[at][0]], blind)]
    return found


def _series(some: Sequence[Figure]) -> dict[Series, dict[str, Times]]:
    """Times of each series by GPU, at precisions that profiles have."""
    times: dict[Series, dict[str, dict[float, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for figure in some:
        case = figure.case
        if not case.full and case.precision in PRECISIONS and case.input == names.usual_input(case.architecture):
            key = (case.architecture, case.precision, case.runtime)
            times[key][case.gpu][case.batch].append(exp(figure.log_s))
    return {
        key: {gpu: {batch: fmean(of[batch]) for batch in sorted(of)} for gpu, of in on.items()}
        for key, on in times.items()
    }


def _differ(one: str, other: str) -> bool:
    return chip(GPUS[one]) != chip(GPUS[other])


def _told(
    publisher: str, series: Series, source: str, target: str, on: Mapping[str, Times], blind: Blind
) -> Iterator[Told]:
    """All batches on the target; none where nothing is told without own times."""
    model, precision, runtime = series
    own = _profile(series, source, on[source])
    if own is None:
        return
    with_own = Predictor(Library({(model, source, precision): own}), GPUS, learnt=blind)
    without = Predictor(Library({}), GPUS, learnt=blind)
    one, other = (told.predicted_pair(model, target, precision, runtime) for told in (with_own, without))
    if one is None or other is None:
        return
    for batch, seen_s in on[target].items():
        if batch <= BATCH_MAX:
            yield Told(publisher, series, source, target, batch, seen_s, one.time_s(batch), other.time_s(batch))


def _profile(series: Series, gpu: str, times: Times) -> Profile | None:
    """As if somebody had measured that; None where its weights are not known."""
    model, precision, runtime = series
    known = names.facts_of(model, names.usual_input(model))
    if known is None or known.params is None:
        return None
    return Profile(
        model=model,
        gpu=gpu,
        precision=precision,
        runtime=runtime,
        layers=(Layer(model, round(known.params * WEIGHT_BYTES[precision])),),
        latency=Interpolated(tuple(times), tuple(times.values())),
        workspace=Interpolated((1.0,), (1e8,)),
        load=LoadTime(0.0, GPUS[gpu].pcie_bytes_per_s),
        flops_per_sample=2 * known.macs if known.macs else None,
        latency_evidence=Evidence.ELSEWHERE,
        memory_evidence=Evidence.ASSUMED,
        load_evidence=Evidence.ASSUMED,
        source="a publisher",
        as_of="2026-01-01",
    )


def own_profiles_table(fitted: Fit) -> list[str]:
    """Markdown rows: errors without and with one's own times on another GPU."""
    every = carried(fitted)
    engines = [one for one in every if one.series[2] != USUAL_RUNTIME]
    groups = {
        "in a runtime that is named": engines,
        f"- batch up to {SMALL_MAX}": [one for one in engines if one.batch <= SMALL_MAX],
        "- larger": [one for one in engines if one.batch > SMALL_MAX],
        "in PyTorch": [one for one in every if one.series[2] == USUAL_RUNTIME],
        "PaddleClas at fp32, from a V100 to a T4": [one for one in every if _is_paddle_on_t4(one)],
    }
    for runtime in sorted({one.series[2] for one in engines}):
        groups[f"runtime {runtime}"] = [one for one in engines if one.series[2] == runtime]
    for publisher in sorted({one.publisher for one in every}):
        groups[publisher] = [one for one in every if one.publisher == publisher]
    return [*HEAD, *(row(name, some) for name, some in groups.items() if len(some) >= GROUP_MIN)]


def _is_paddle_on_t4(one: Told) -> bool:
    return (one.publisher, one.series[1], one.source, one.target) == ("paddleclas", "fp32", "V100", "T4")


def row(name: str, some: Sequence[Told]) -> str:
    """One line: figures, then median error, 90th percentile and the share in the band, without and with own times."""
    ways = [[one.without for one in some], [one.with_own for one in some]]
    return f"| {name} | {len(some):,} | {' | '.join(_shown(some, told) for told in ways)} |".replace("%", " %")


def _shown(some: Sequence[Told], told: Sequence[Estimate]) -> str:
    """`18.7% | 79% | 79%`."""
    errors = [one.error(estimate) for one, estimate in zip(some, told, strict=True)]
    middle, p90 = (expm1(float(np.quantile(errors, q))) for q in (0.5, 0.9))
    inside = [one.is_inside(estimate) for one, estimate in zip(some, told, strict=True)]
    return f"{middle:.1%} | {p90:.0%} | {np.mean(inside):.0%}"
