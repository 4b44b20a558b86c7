"""One whole day replayed request by request, to see how far the levels of load are off."""

from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter

import numpy as np

from planner.model.progress import Progress
from planner.questions.horizons.answer import DayCheck
from planner.questions.horizons.cheapest import Cheapest
from planner.questions.horizons.demand import MINUTE_S, MINUTES_PER_DAY, stamped, warped
from planner.questions.horizons.judging import Course, Stretches, busy_gpu_s, judged, stretches
from planner.questions.horizons.question import HorizonQuestion
from planner.replay.run import seed_of
from planner.search.question import NothingToPlanError
from simulator.clock.autoscaling import HOUR_S, FleetTimeline
from simulator.clock.metrics import summarise
from simulator.clock.run import simulate
from simulator.world.doubt import slow_end

STAGE = 3
"""Seeds of these replays are no others'."""
PIECE_S = 600.0
"""Longest piece that is replayed at once: some millions of requests."""
DAY_S = MINUTES_PER_DAY * MINUTE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedPiece:
    """A piece of the day, replayed."""

    requests: int
    judged: int
    in_time: float = 0.0
    """Requests in time, of those judged."""
    busy_gpu_s: float = 0.0


def check_day(question: HorizonQuestion, cheapest: Cheapest, progress: Progress) -> DayCheck:
    """Replay a way's busiest day, every request of it, load changing all the time.

    A piece ends where the number of machines changes. The few batches that wait there are not carried over.
    """
    began_s = perf_counter()
    course = question.course(cheapest.candidate.beside_base)
    timeline = cheapest.timelines[0]
    day = int(np.argmax(course.factors.reshape(-1, MINUTES_PER_DAY).sum(axis=1)))
    edges_s = pieces(timeline, day * DAY_S, (day + 1) * DAY_S)
    replayed = []
    for number, (start_s, finish_s) in enumerate(pairwise(edges_s)):
        progress(f"day {day + 1}, request by request", (start_s - day * DAY_S) / DAY_S)
        machines = int(timeline.ready[np.searchsorted(timeline.at_s, start_s, side="right") - 1])
        replayed.append(piece(course, machines, start_s, finish_s, number))
    share, busy_s = by_levels(course, stretches(timeline, len(course.factors)), day)
    return DayCheck(
        way=cheapest.strategy.way,
        day=day + 1,
        requests=sum(some.requests for some in replayed),
        slo_attainment=sum(some.in_time for some in replayed) / sum(some.judged for some in replayed),
        slo_attainment_levels=share,
        busy_gpu_hours=sum(some.busy_gpu_s for some in replayed) / HOUR_S,
        busy_gpu_hours_levels=busy_s / HOUR_S,
        wall_s=perf_counter() - began_s,
    )


def pieces(timeline: FleetTimeline, start_s: float, finish_s: float) -> list[float]:
    """Edges of the pieces: at every change of the machines that answer, and not too far apart."""
    changed = np.flatnonzero(np.diff(timeline.ready)) + 1
    changes_s = timeline.at_s[changed]
    inside = changes_s[(changes_s > start_s) & (changes_s < finish_s)]
    regular = np.arange(start_s, finish_s + PIECE_S / 2, PIECE_S)
    return [float(at_s) for at_s in np.union1d(inside, regular)]


def piece(course: Course, machines: int, start_s: float, finish_s: float, number: int) -> ReplayedPiece:
    """One piece of the day, replayed on so many machines."""
    group = course.group
    seed = seed_of(group.loaded.scenario.seed, STAGE, number)
    arrivals_s = warped(group.demand, course.factors, start_s, finish_s, seed)
    requests = sum(map(len, arrivals_s.values()))
    nothing_served = ReplayedPiece(requests=requests, judged=requests)
    if not requests or not (machines or group.base):
        return nothing_served
    try:
        deployment = group.deployment(machines)
    except NothingToPlanError:  # too few to hold all models
        return nothing_served
    length_s = finish_s - start_s
    result = simulate(slow_end(deployment), stamped(arrivals_s, length_s), length_s, seed)
    summary = summarise(result)
    models = [metrics for metrics in summary.models.values() if metrics.judged]
    return ReplayedPiece(
        requests=requests,
        judged=sum(metrics.judged for metrics in models),
        in_time=sum(metrics.judged * metrics.slo_attainment for metrics in models),
        busy_gpu_s=sum(device.utilization for device in summary.devices.values()) * length_s,
    )


def by_levels(course: Course, cut: Stretches, day: int) -> tuple[float, float]:
    """A day by its levels of load: the share in time of all models together, and busy GPU-seconds."""
    inside = cut.periods(MINUTES_PER_DAY) == day
    rates_rps = course.group.demand.rates_rps()
    timeline = judged(course, cut)
    weight = timeline.weight[inside]
    in_time = sum(float(weight @ share[inside]) * rates_rps[model] for model, share in timeline.share.items())
    requests = float(weight.sum()) * sum(rates_rps.values())
    return in_time / requests, float(busy_gpu_s(course, cut)[inside].sum())
