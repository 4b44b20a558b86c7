"""Coverage: how often intervals of attainment that call themselves 95 % hold the long-run share.

`python -m benchmarks.coverage --sets 200`. Two like models share one GPU near the edge of their SLO. The truth is the
mean of thousands of replications of which no interval is made; where there are cameras, each draws their phases anew.
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchmarks.load import Load
from planner.model.replications import LOOKS_AT_DRAWS, confidence_of
from simulator.clock.metrics import attainment_interval, draws_interval
from simulator.clock.worlds import Worlds
from simulator.world.workload import Arrivals, FixedRate, Gamma, Poisson, Stream, Trace, Workload

REPLICATIONS, DRAWS = 10, 80
"""In each set, of which one interval is made: as the planner's first look has them, at random or with phases."""
TRUE_SETS = 2
"""Times as many seeds for the truth as for the intervals: of 200 intervals, its error is a fortieth of their width."""
HORIZON_S, CAMERAS_S, WARMUP_S = 30.0, 6.0, 0.5
"""Of a replication; of one with cameras alone, which come round ten times a second; its start that is not judged."""
GPU = Load(gpu_count=1, model_count=2, batch_size_max=1)
MODELS = ("model-0", "model-1")
"""As it calls them; the first one is looked at."""


def bursts(rate_rps: float) -> Trace:
    """A minute of arrivals, in which every other five seconds bring four times as many."""
    random = np.random.default_rng(1)
    times_s = np.sort(random.uniform(0.0, 60.0, round(60 * 1.6 * rate_rps)))
    left_out = (times_s % 10 < 5) & (random.uniform(size=times_s.size) < 0.75)
    return Trace(times_s[~left_out], 60.0)


SENT: dict[str, tuple[tuple[Arrivals, int], ...]] = {
    "camera": ((FixedRate(10.0), 10),),
    "poisson": ((Poisson(76.0), 1),),
    "gamma": ((Gamma(12.0, cv=2.5), 2),),
    "trace": ((bursts(22.0), 3),),
    "camera+poisson": ((FixedRate(10.0), 5), (Poisson(40.0), 1)),
}
"""To each model: how sources send, and how many of them."""


def interval(fractions: Sequence[float], judged: Sequence[int], phases: bool) -> tuple[float, float]:
    """The ends of what the planner says of these replications; `phases`: cameras draw theirs in each."""
    confidence = confidence_of(LOOKS_AT_DRAWS)
    made = draws_interval(fractions, confidence) if phases else attainment_interval(fractions, judged, confidence)
    return made[1:]


def attained(workload: Workload, seeds: Sequence[int]) -> list[tuple[float, int]]:
    """By replication: the share of one model's requests on time, and how many were judged."""
    alone = all(isinstance(stream.arrivals, FixedRate) for stream in workload.streams)
    worlds = Worlds(GPU.deployment(), workload, CAMERAS_S if alone else HORIZON_S, WARMUP_S, dict(workload.rates_rps()))
    seen = (one.summary.models[MODELS[0]] for one in worlds.seen(seeds))
    return [(model.slo_attainment, model.judged) for model in seen]


class Coverage(NamedTuple):
    """How well intervals do on one workload."""

    truth: float
    """Share on time in the long run."""
    held: float
    """Share of intervals that hold it."""
    width: float
    """Of an interval, on average."""


def coverage(name: str, sets: int) -> Coverage:
    """Of so many intervals on one workload."""
    workload = Workload(tuple(Stream(model, sent, count) for model in MODELS for sent, count in SENT[name]))
    phases = workload.draws_phases
    each = DRAWS if phases else REPLICATIONS
    count = sets * each
    found = attained(workload, range(count + TRUE_SETS * sets * REPLICATIONS))
    truth = fmean(share for share, _ in found[count:])
    intervals = []
    for first in range(0, count, each):
        shares, judged = zip(*found[first : first + each], strict=True)
        intervals.append(interval(shares, judged, phases))
    held = fmean(low <= truth <= high for low, high in intervals)
    return Coverage(truth, held, fmean(high - low for low, high in intervals))


def row(name: str, sets: int) -> str:
    """One workload, in Markdown."""
    found = coverage(name, sets)
    return f"| {name} | {found.truth:.2%} | {found.held:.1%} | {100 * found.width:.2f} points |"


def main() -> None:
    """The table."""
    ask = ArgumentParser(description=__doc__)
    ask.add_argument("--sets", type=int, default=200, help="intervals for each workload")
    ask.add_argument("--jobs", type=int, default=2, help="workloads at a time")
    given = ask.parse_args()
    print("| workload | truth | coverage | mean width |\n|---|---:|---:|---:|")
    with ProcessPoolExecutor(given.jobs) as pool:
        for line in pool.map(partial(row, sets=given.sets), SENT):
            print(line, flush=True)


if __name__ == "__main__":
    main()
