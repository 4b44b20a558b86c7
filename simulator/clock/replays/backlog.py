"""A backlog of requests: for how long it is watched, and by machine code what becomes of it where GPUs are plain."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.clock.replays.places import Places, PlainGpus, begins
from simulator.rules.latencies import Counts
from simulator.world.workload import Demand, Floats, Poisson, Stream, Workload, draw, scaled

BACKLOG = 8
"""Full batches of every replica that wait at the start: enough that a batch more or less at the end says nothing."""
ROUNDS = 200
"""Rounds of full batches that are watched: at 99 % load a quarter of the backlog is gone by then."""
REQUESTS_MAX = 150_000
"""Requests after which fewer rounds must do: a fraction of a second."""
ROUNDS_MIN = 40
ORDER_REQUESTS, ORDER_ROUNDS = 20_000, 10_000
"""Requests that are watched where their order decides how often weights are loaded, and rounds that must do: chance
then changes the loads by less than a percent."""
ORDER_BACKLOG = 0.05
"""Of these requests, as many more wait at the start: many more than chance adds, or a GPU lets wait that runs all of
one model before it loads another."""
SPARE = 1.1
"""Time over that in which as many requests come on average, so that there are enough."""
ORDER_DRAWS = 8
"""Draws of phases that follow each other there: each has an order of its own."""
ORDERED_MAX = 8
"""Orders that are kept of one deployment, some hundred kilobytes each."""
GOLDEN = 0.6180339887
"""Spreads the first requests of the models: multiples of it, without the whole part, never fall together."""


def watched_s(round_s: float, rates_rps: Mapping[str, float]) -> float:
    """Time that is watched of a deployment with such rounds."""
    rounds = min(ROUNDS, max(ROUNDS_MIN, REQUESTS_MAX / (round_s * max(sum(rates_rps.values()), 1e-9))))
    return rounds * round_s


class Watched(NamedTuple):
    """What is watched, and for how long."""

    demand: dict[str, Demand]
    waiting: dict[str, int]
    """Of each model's requests those that come at once."""
    end_s: float


def ordered_s(round_s: float, rates_rps: Mapping[str, float]) -> float:
    """Time that is watched of a deployment with such rounds where the order of requests decides."""
    by_round = max(round_s * sum(rates_rps.values()), 1e-9)
    return min(ORDER_ROUNDS, max(ROUNDS, ORDER_REQUESTS / by_round)) * round_s


def in_order(
    traffic: Workload | None, rates_rps: Mapping[str, float], end_s: float, caps: Mapping[str, int]
) -> Watched:
    """A backlog of each model, and then requests in the order in which `traffic` has them, or at random, but evenly
    spaced: so nothing but the order, which decides how often weights are loaded, is left to chance."""
    numbers = _order(traffic, rates_rps, end_s)
    times_s = (np.arange(len(numbers)) + 0.5) / max(sum(rates_rps.values()), 1e-9)
    waiting = {m: max(BACKLOG * caps[m], ceil(ORDER_BACKLOG * rate * end_s)) for m, rate in rates_rps.items()}
    demand = {model: _after(waiting[model], times_s[numbers == place]) for place, model in enumerate(rates_rps)}
    return Watched(demand, waiting, end_s)


def _order(traffic: Workload | None, rates_rps: Mapping[str, float], end_s: float) -> NDArray[np.int64]:
    """The number of the model of each request, one after the other."""
    asked = [stream for stream in traffic.streams if rates_rps.get(stream.model)] if traffic else []
    usual_rps = traffic.rates_rps() if traffic else {}
    streams = [scaled(Workload((s,)), rates_rps[s.model] / usual_rps[s.model]).streams[0] for s in asked]
    known = {stream.model for stream in asked}
    streams += [Stream(m, Poisson(rate)) for m, rate in rates_rps.items() if rate and m not in known]
    workload = Workload(tuple(streams))
    draws = ORDER_DRAWS if workload.draws_phases else 1
    count = int(end_s * sum(rates_rps.values()) / draws)
    parts = [_first(draw(workload, SPARE * end_s / draws, seed), list(rates_rps), count) for seed in range(draws)]
    return np.concatenate(parts)


def _first(drawn: Mapping[str, Demand], models: Sequence[str], count: int) -> NDArray[np.int64]:
    """The numbers of the models of the first requests."""
    mine = [model for model in models if model in drawn]
    numbers = np.concatenate([np.full(len(drawn[m].arrival_s), models.index(m)) for m in mine] or [np.zeros(0, int)])
    times_s = np.concatenate([drawn[m].arrival_s for m in mine] or [np.zeros(0)])
    return numbers[np.argsort(times_s, kind="stable")][:count]


def phase(place: int) -> float:
    """Of the first request of a model, in gaps between two."""
    return (place * GOLDEN) % 1.0


def backlogs(
    traffic: Workload | None, rates_rps: Mapping[str, float], duration_s: float, waiting: Mapping[str, int]
) -> dict[str, Demand]:
    """So many requests of each model at once, and then as in `traffic`, or evenly spaced."""
    demand = _in_bursts(traffic, rates_rps, duration_s, waiting) if traffic is not None else {}
    return demand | {
        model: _evenly(rate, duration_s, waiting[model], phase(i))
        for i, (model, rate) in enumerate(rates_rps.items())
        if model not in demand
    }


def _evenly(rate_rps: float, duration_s: float, waiting: int, phase: float) -> Demand:
    """So many requests at once, and then one every 1/rate seconds."""
    times = (np.arange(ceil(duration_s * rate_rps)) + phase) / rate_rps
    return _after(waiting, times[times < duration_s])


def _after(waiting: int, times_s: NDArray[np.floating[Any]]) -> Demand:
    """So many requests at once, and then these."""
    arrival_s = np.concatenate([np.zeros(waiting), times_s])
    return Demand(arrival_s, np.zeros(len(arrival_s), dtype=np.int32))


def _in_bursts(
    traffic: Workload, rates_rps: Mapping[str, float], duration_s: float, waiting: Mapping[str, int]
) -> dict[str, Demand]:
    """So many requests at once, and then as `traffic` has them, its gaps shrunk or stretched to the rates."""
    usual_rps = traffic.rates_rps()
    asked = [stream for stream in traffic.streams if stream.model in rates_rps]
    streams = [scaled(Workload((s,)), rates_rps[s.model] / usual_rps[s.model]).streams[0] for s in asked]
    drawn = draw(Workload(tuple(streams)), duration_s, seed=0)
    return {
        model: Demand(
            np.concatenate([np.zeros(waiting[model]), demand.arrival_s]),
            np.concatenate([np.zeros(waiting[model], dtype=np.int32), demand.source]),
        )
        for model, demand in drawn.items()
    }


class Backlog:
    """What becomes of a backlog, at one rate after another or in one world after another."""

    def __init__(self, plain: PlainGpus, models: Sequence[str], *, order_decides: bool) -> None:
        self.plain, self.models, self.order_decides = plain, models, order_decides
        self.caps = {model: sum(plain.queues[number].cap for number in plain.by_model[model]) for model in models}
        self.waiting = BACKLOG * np.array([self.caps[model] for model in models], dtype=np.int64)
        self.phases = np.array([phase(place) for place in range(len(models))])
        self.places = Places(plain, models)
        self.ordered: dict[tuple[int, tuple[float, ...], float], tuple[Workload | None, Watched]] = {}
        """By traffic, rates and time: worlds differ in how long batches take, and hardly in these."""

    def growing(
        self, rates_rps: Mapping[str, float], service_s: Floats | None = None, traffic: Workload | None = None
    ) -> tuple[tuple[str, ...], float]:
        """Models whose backlog does not shrink where batches take so long, or as long as is known, and requests come as
        in `traffic`, or evenly; and the time that was watched."""
        plain, demand, waiting = self.plain, dict[str, Demand](), self.waiting
        if service_s is None:
            service_s = plain.service_s
        rounds_s = np.bincount(plain.places, service_s[plain.in_order, plain.caps] + plain.load_s[plain.in_order])
        end_s = watched_s(float(rounds_s.max()), rates_rps)
        by_model_rps = np.array([rates_rps[model] for model in self.models])
        if self.order_decides:
            demand, many, end_s = self._in_order(traffic, rates_rps, ordered_s(float(rounds_s.max()), rates_rps))
            waiting = np.array([many[model] for model in self.models])
        elif traffic is not None:
            demand = backlogs(traffic, rates_rps, end_s, dict(zip(self.models, waiting.tolist(), strict=True)))
        wanted = waiting + np.ceil(end_s * by_model_rps).astype(np.int64)
        coming = plain.code.NOBODY
        if demand:
            wanted = np.array([len(demand[model].arrival_s) for model in self.models])
            given_s = np.concatenate([demand[model].arrival_s for model in self.models])
            coming = plain.code.Coming(np.zeros(len(self.models)), given_s, begins(wanted.tolist()))
        grows = np.zeros(len(self.models), dtype=np.bool_)
        backlog = plain.adding.BacklogColumns(waiting, by_model_rps, self.phases, grows)
        self.places.with_room(partial(self._watch, wanted, service_s, coming, backlog, end_s))
        found = {model for model, one in zip(self.models, grows.tolist(), strict=True) if one}
        return tuple(model for model in demand or self.models if model in found), end_s

    def _in_order(self, traffic: Workload | None, rates_rps: Mapping[str, float], end_s: float) -> Watched:
        asked = id(traffic), tuple(rates_rps.values()), end_s
        if asked not in self.ordered:
            if len(self.ordered) == ORDERED_MAX:
                self.ordered.clear()
            self.ordered[asked] = traffic, in_order(traffic, rates_rps, end_s, self.caps)
        return self.ordered[asked][1]

    def _watch(self, wanted: Counts, service_s: Floats, coming: Any, backlog: Any, end_s: float) -> None:
        """Find whose backlog grows: where requests are given, of these."""
        plain, code = self.plain, self.plain.adding
        place = self.places.wide_enough(wanted, 1)[0]
        answer_s = plain.answers(service_s)
        calm = place.columns._replace(
            service_s=service_s,
            answer_s=answer_s,
            longest_s=answer_s.max(axis=1),
            drop=np.zeros(len(plain.queues), dtype=np.int64),
            used=np.full(len(plain.queues), -1),
        )

        def step(steps: int) -> None:
            layout, sums = self.places.layout, place.sums
            code.replay(layout, coming, backlog, place.requests, calm, sums, plain.rule, 0.0, end_s, steps)

        begin = code.WAIT if coming is plain.code.NOBODY else code.COME
        if plain.joined:
            step(begin)
            self.places.serve_in_turns(place, calm, end_s)
            step(code.LOOK_BACK)
        else:
            step(begin | code.SERVE | code.LOOK_BACK)
