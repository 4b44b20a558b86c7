"""What one replication looked like: how long requests took, and a short window of it second by second."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.model.timeline import (
    BatchColumns,
    LatencyHistogram,
    LoadColumns,
    MemoryColumns,
    QueueColumns,
    RequestColumns,
    Timeline,
)
from simulator.clock.metrics import Summary
from simulator.clock.records import Batches, Outcome, Requests, SimulationResult
from simulator.rules.latencies import EDGES_S, Counts
from simulator.world.workload import Floats

REQUESTS_SHOWN = 2000
"""A page and a trace viewer show that many at once, and `plan.json` stays below 300 KB."""
GPUS_SHOWN = 16
STEPS_SHOWN = 2000
"""Changes of memory, and of queues, that are kept; of more every second, third, ... one."""
LEAD = 0.1
"""Share of the window before the first load that it is moved to."""

Rows = NDArray[np.int64]


def histogram(model: str, slo_s: float, counts: Counts) -> LatencyHistogram:
    """Counts from the first bin that holds a request to the last."""
    filled = np.flatnonzero(counts)
    first, last = (int(filled[0]), int(filled[-1]) + 1) if len(filled) else (0, 0)
    return LatencyHistogram(
        model=model,
        slo_s=slo_s,
        edges_s=EDGES_S[first : last + 1],
        counts=tuple(int(n) for n in counts[first:last]),
    )


def timeline(result: SimulationResult, summary: Summary, warmup_s: float) -> Timeline:
    """A window after the warm-up, of about 2,000 requests, with a load in it where any happened."""
    names = busiest(summary)
    batches = [b for b in result.batches if b.device in names]
    start_s, end_s = window(result, batches, names, warmup_s)
    models = tuple(m for m in result.requests if any(b.model == m for b in batches))
    return Sight(result, names, models, start_s, end_s).timeline()


def busiest(summary: Summary) -> tuple[str, ...]:
    """The GPUs to show, in the order of the fleet: all, or of many those that load and compute most."""
    seen = summary.devices
    most = sorted(seen, key=lambda name: (seen[name].loads == 0, -seen[name].utilization - seen[name].load_share))
    return tuple(name for name in seen if name in most[:GPUS_SHOWN])


def window(
    result: SimulationResult, batches: Sequence[Batches], names: Sequence[str], warmup_s: float
) -> tuple[float, float]:
    """Where it begins and ends: right after the warm-up, or about the first load after it."""
    last_s = result.duration_s - max(service.slo.latency_s for service in result.deployment.services)
    served = sum(int(b.count[b.start_s >= warmup_s].sum()) for b in batches)
    long_s = (last_s - warmup_s) * min(1.0, REQUESTS_SHOWN / max(1, served))
    loads_s = [load.start_s for load in result.loads if load.device in names and load.start_s >= warmup_s]
    start_s = max(warmup_s, min(min(loads_s, default=0.0) - LEAD * long_s, last_s - long_s))
    return start_s, start_s + long_s


class Sight:
    """What can be seen in a window of a replication."""

    def __init__(
        self, result: SimulationResult, gpus: Sequence[str], models: Sequence[str], start_s: float, end_s: float
    ) -> None:
        self.result = result
        self.gpus = tuple(gpus)
        self.models = tuple(models)
        self.start_s = start_s
        self.end_s = end_s
        self.number = {name: i for i, name in enumerate(gpus)}

    def timeline(self) -> Timeline:
        """All of it. Where bursts bring too many requests, the window ends earlier."""
        requests = self.requests()
        if len(requests.arrival_s) > REQUESTS_SHOWN:
            self.end_s = self.start_s + requests.arrival_s[REQUESTS_SHOWN]
            requests = self.requests()
        return Timeline(
            seed=self.result.seed,
            start_s=self.start_s,
            end_s=self.end_s,
            gpus=self.gpus,
            models=self.models,
            batches=self.batches(),
            loads=self.loads(),
            memory=self.memory(),
            queue=self.queue(),
            requests=requests,
        )

    def times(self, at_s: Floats) -> tuple[float, ...]:
        """Seconds since the window began, to the microsecond."""
        return tuple(np.round(at_s - self.start_s, 6).tolist())

    def requests(self) -> RequestColumns:
        """Those that arrived in the window, in order of arrival."""
        parts = [self._requests(i, self.result.requests[model]) for i, model in enumerate(self.models)]
        model, arrival_s, start_s, finish_s, gpu = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(arrival_s, kind="stable")
        return RequestColumns(
            model=tuple(model[order].tolist()),
            arrival_s=self.times(arrival_s[order]),
            start_s=self.times(start_s[order]),
            finish_s=self.times(finish_s[order]),
            gpu=tuple(gpu[order].tolist()),
        )

    def _requests(self, number: int, requests: Requests) -> tuple[Rows, Floats, Floats, Floats, Rows]:
        """One model's, without those that ran on GPUs that are not shown."""
        a, b = np.searchsorted(requests.arrival_s, (self.start_s, self.end_s))
        gpu = self._gpus(self.models[number], requests)[a:b]
        arrival_s, start_s, finish_s = (c[a:b] for c in (requests.arrival_s, requests.start_s, requests.finish_s))
        begun_s = np.where(np.isnan(start_s), self.result.duration_s, start_s)
        given_up_s = np.where(requests.outcome[a:b] == Outcome.DROPPED, begun_s, self.result.duration_s)
        left_s = np.where(np.isnan(finish_s), given_up_s, finish_s)
        shown = gpu >= -1
        return (np.full(int(shown.sum()), number), arrival_s[shown], begun_s[shown], left_s[shown], gpu[shown])

    def _gpus(self, model: str, requests: Requests) -> Rows:
        """Number of the GPU of each request that began in the window or a little later; -1: none, -2: one not shown.

        Records do not say which request was in which batch; but a batch and its requests begin and end together.
        """
        ran = (requests.outcome == Outcome.FINISHED) | (requests.outcome == Outcome.RUNNING)
        a, b = np.searchsorted(requests.arrival_s, (self.start_s, self.end_s))
        until_s = float(np.max(requests.start_s[a:b], where=ran[a:b], initial=self.start_s))
        rows = np.flatnonzero(ran & (requests.start_s >= self.start_s) & (requests.start_s <= until_s))
        rows = rows[np.lexsort((requests.finish_s[rows], requests.start_s[rows]))]
        found = np.full(len(requests.arrival_s), -1)
        found[rows] = self._gpus_in_order(model, until_s)
        return found

    def _gpus_in_order(self, model: str, until_s: float) -> Rows:
        """GPUs of all requests that began from the window's start until then, by the begin and end of their batches."""
        first = {r.devices[0] for s in self.result.deployment.services if s.model == model for r in s.replicas}
        start_s, finish_s, count, gpu = [], [], [], []
        for b in self.result.batches:
            if b.model == model and b.device in first:
                kept = (b.start_s >= self.start_s) & (b.start_s <= until_s) & ~b.aborted
                start_s.append(b.start_s[kept])
                finish_s.append(b.finish_s[kept])
                count.append(b.count[kept])
                gpu.append(np.full(int(kept.sum()), self.number.get(b.device, -2)))
        order = np.lexsort((np.concatenate(finish_s), np.concatenate(start_s)))
        return np.repeat(np.concatenate(gpu)[order], np.concatenate(count)[order])

    def batches(self) -> BatchColumns:
        """Those that ran in the window, in order of time."""
        rows = [
            (start, end, self.number[b.device], self.models.index(b.model), size)
            for b in self.result.batches
            if b.device in self.number
            for start, end, size in self._batches(b)
        ]
        rows.sort()
        return BatchColumns(
            gpu=tuple(row[2] for row in rows),
            model=tuple(row[3] for row in rows),
            start_s=tuple(row[0] for row in rows),
            end_s=tuple(row[1] for row in rows),
            size=tuple(row[4] for row in rows),
        )

    def _batches(self, b: Batches) -> Iterator[tuple[float, float, int]]:
        seen = (b.finish_s > self.start_s) & (b.start_s < self.end_s)
        return zip(self.times(b.start_s[seen]), self.times(b.finish_s[seen]), b.count[seen].tolist(), strict=True)

    def loads(self) -> LoadColumns:
        """Those under way in the window, in order of time."""
        loads = [
            load
            for load in self.result.loads
            if load.device in self.number and load.finish_s > self.start_s and load.start_s < self.end_s
        ]
        loads.sort(key=lambda load: (load.start_s, load.device))
        return LoadColumns(
            gpu=tuple(self.number[load.device] for load in loads),
            model=tuple(self.models.index(load.model) for load in loads),
            start_s=self.times(np.array([load.start_s for load in loads])),
            end_s=self.times(np.array([load.finish_s for load in loads])),
            bytes=tuple(load.size_bytes for load in loads),
        )

    def memory(self) -> MemoryColumns:
        """What is in use on each GPU."""
        gpu, time_s, used = self._steps(
            [(self.result.memory[name].at_s, self.result.memory[name].used_bytes) for name in self.gpus]
        )
        return MemoryColumns(gpu=gpu, time_s=time_s, bytes=used)

    def queue(self) -> QueueColumns:
        """How many wait for each model."""
        model, time_s, length = self._steps([self._waiting(self.result.requests[name]) for name in self.models])
        return QueueColumns(model=model, time_s=time_s, length=length)

    def _waiting(self, requests: Requests) -> tuple[Floats, Counts]:
        """How many wait when the window begins, and after each arrival and each start in it."""
        arrival_s, gone_s = requests.arrival_s, requests.start_s
        before = int(np.sum(arrival_s <= self.start_s)) - int(np.sum(gone_s <= self.start_s))
        arrival_s = arrival_s[(arrival_s > self.start_s) & (arrival_s < self.end_s)]
        gone_s = gone_s[(gone_s > self.start_s) & (gone_s < self.end_s)]
        at_s = np.concatenate([[self.start_s], arrival_s, gone_s])
        step = np.concatenate([[before], np.ones(len(arrival_s), np.int64), np.full(len(gone_s), -1)])
        order = np.argsort(at_s, kind="stable")
        return at_s[order], np.cumsum(step[order])

    def _steps(
        self, series: Sequence[tuple[Floats, Counts]]
    ) -> tuple[tuple[int, ...], tuple[float, ...], tuple[int, ...]]:
        """Several step functions in the window as columns: which, from when on, how much."""
        parts = [self._changes(at_s, value) for at_s, value in series]
        stride = max(1, -(-sum(len(at_s) for at_s, _ in parts) // STEPS_SHOWN))
        which = [i for i, (at_s, _) in enumerate(parts) for _ in at_s[::stride]]
        times = self.times(np.concatenate([at_s[::stride] for at_s, _ in parts]))
        return tuple(which), times, tuple(int(v) for _, value in parts for v in value[::stride])

    def _changes(self, at_s: Floats, value: Counts) -> tuple[Floats, Counts]:
        """The value when the window begins and wherever it changes; the last of those at one moment."""
        before = max(0, int(np.searchsorted(at_s, self.start_s, side="right")) - 1)
        after = int(np.searchsorted(at_s, self.end_s))
        at_s, value = np.maximum(at_s[before:after], self.start_s), value[before:after]
        last = np.append(at_s[1:] != at_s[:-1], True) if len(at_s) else np.array([], dtype=bool)
        at_s, value = at_s[last], value[last]
        changed = np.append(True, value[1:] != value[:-1]) if len(value) else np.array([], dtype=bool)
        return at_s[changed], value[changed]


def histograms(slo_s: Mapping[str, float], seen: Sequence[Mapping[str, Counts]]) -> tuple[LatencyHistogram, ...]:
    """One for each model, all replications together."""
    models = slo_s if seen else ()  # of a few replays none are kept
    return tuple(histogram(model, slo_s[model], np.sum([one[model] for one in seen], axis=0)) for model in models)
