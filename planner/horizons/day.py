"""One whole day frame by frame, to see what the levels of load are off by."""

from itertools import pairwise
from time import perf_counter

import numpy as np

from planner.answer import seed_of
from planner.horizons.answer import DayCheck
from planner.horizons.cheapest import Found, beside
from planner.horizons.demand import MINUTE_S, MINUTES_PER_DAY, stamped, warped
from planner.horizons.judging import Course, Stretches, attainment, busy_gpu_s, stretches
from planner.horizons.ways import Question
from planner.search import NothingToPlanError, Progress
from simulator.autoscaling import HOUR_S, Timeline
from simulator.metrics import summarise
from simulator.run import simulate

STAGE = 3
"""Seeds of these replays are no others'."""
PIECE_S = 600.0
"""Longest piece that is replayed at once: some millions of requests."""
DAY_S = MINUTES_PER_DAY * MINUTE_S


def check_day(question: Question, found: Found, progress: Progress) -> DayCheck:
    """Replay a way's busiest day, every request of it, load changing all the time.

    A piece ends where the number of machines changes; what waits there, a few batches, is not carried over.
    """
    began_s = perf_counter()
    course, timeline = question.course(beside(found.candidate)), found.timelines[0]
    day = busiest(course)
    edges_s = pieces(timeline, day * DAY_S, (day + 1) * DAY_S)
    requests, judged, timely, busy_gpu_s_seen = 0, 0, 0.0, 0.0
    for i, (start_s, finish_s) in enumerate(pairwise(edges_s)):
        progress(f"day {day + 1}, frame by frame", (start_s - day * DAY_S) / DAY_S)
        machines = int(timeline.ready[np.searchsorted(timeline.at_s, start_s, side="right") - 1])
        seen = piece(course, machines, start_s, finish_s, i)
        requests, judged = requests + seen[0], judged + seen[1]
        timely, busy_gpu_s_seen = timely + seen[2], busy_gpu_s_seen + seen[3]
    share, busy = by_levels(course, stretches(timeline, len(course.factors)), day)
    return DayCheck(
        way=found.strategy.way,
        day=day + 1,
        requests=requests,
        slo_attainment=timely / judged,
        slo_attainment_levels=share,
        busy_gpu_hours=busy_gpu_s_seen / HOUR_S,
        busy_gpu_hours_levels=busy / HOUR_S,
        wall_s=perf_counter() - began_s,
    )


def busiest(course: Course) -> int:
    """The day with most load, from 0."""
    return int(np.argmax(course.factors.reshape(-1, MINUTES_PER_DAY).sum(axis=1)))


def pieces(timeline: Timeline, start_s: float, finish_s: float) -> list[float]:
    """Where pieces begin and the last ends: at every change of the machines that answer, and not too far apart."""
    changed = np.flatnonzero(np.diff(timeline.ready)) + 1
    changes_s = timeline.at_s[changed]
    inside = changes_s[(changes_s > start_s) & (changes_s < finish_s)]
    regular = np.arange(start_s, finish_s + PIECE_S / 2, PIECE_S)
    return [float(at_s) for at_s in np.union1d(inside, regular)]


def piece(course: Course, machines: int, start_s: float, finish_s: float, number: int) -> tuple[int, int, float, float]:
    """Requests, those judged, those of them in time, and busy GPU-seconds of one piece."""
    group = course.group
    seed = seed_of(group.loaded.scenario.seed, STAGE, number)
    arrivals_s = warped(group.demand, course.factors, start_s, finish_s, seed)
    count = sum(map(len, arrivals_s.values()))
    nothing = count, count, 0.0, 0.0
    if not count or not (machines or group.base):
        return nothing
    try:
        deployment = group.deployment(machines)
    except NothingToPlanError:  # too few to hold all models
        return nothing
    length_s = finish_s - start_s
    result = simulate(deployment, stamped(arrivals_s, length_s), length_s, seed)
    summary = summarise(result)
    seen = [m for m in summary.models.values() if m.judged]
    busy_s = sum(card.utilization for card in summary.devices.values()) * length_s
    return count, sum(m.judged for m in seen), sum(m.judged * m.slo_attainment for m in seen), busy_s


def by_levels(course: Course, cut: Stretches, day: int) -> tuple[float, float]:
    """What the levels say of a day: the share in time of all models together, and busy GPU-seconds."""
    inside = cut.minute // MINUTES_PER_DAY == day
    weight = (course.factors[cut.minute] * cut.lengths_s)[inside]
    rates_rps = course.group.demand.rates_rps()
    shares = attainment(course, cut)
    timely = sum(float(weight @ share[inside]) * rates_rps[model] for model, share in shares.items())
    return timely / (float(weight.sum()) * sum(rates_rps.values())), float(busy_gpu_s(course, cut)[inside].sum())
