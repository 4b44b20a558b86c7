"""A plan's timeline on a page: for each GPU its batches, loads and memory, and who waits."""

from collections.abc import Iterator, Sequence

from planner.model.plan import Plan
from planner.model.timeline import Timeline
from planner.show.charts.kit.axes import ChartAxis, labelled, steps
from planner.show.charts.kit.blocks import Box, Lane, Lanes, Legend, Line, Strip, area, colour, stairs
from planner.show.document import Block, Text, Tone
from planner.units.writing import counted, gigabytes, seconds

BATCHES_SHOWN = 60
"""Of the busiest GPU: as many as one can tell apart on a screen."""
BATCH_HIGH, LOAD_HIGH, GAP = 1.0, 0.5, 0.14
LAST_TICK = 0.97
"""Share of the width beyond which a label would be cut."""

Steps = Sequence[tuple[float, int]]


def timeline(plan: Plan) -> Iterator[Block]:
    """The first part of a plan's window in which batches can be told apart; nothing where it has no timeline."""
    if plan.timeline is not None and plan.timeline.batches.gpu:
        yield from Stretch(plan, plan.timeline).blocks()


class Stretch:
    """A stretch of a timeline."""

    def __init__(self, plan: Plan, seen: Timeline) -> None:
        self.plan = plan
        self.seen = seen
        self.start_s, self.end_s = stretch(seen)
        self.devices = {gpu.id: gpu for gpu in plan.recommendation.gpus}
        q = seen.queue
        self.queues = [self.within(i, q.model, q.time_s, q.length) for i in range(len(seen.models))]
        self.longest = max((n for queue in self.queues for _, n in queue), default=0)

    def blocks(self) -> Iterator[Block]:
        """The stretch, lane by lane."""
        seen = self.seen
        last_s = self.start_s + LAST_TICK * (self.end_s - self.start_s)
        at_s = [at_s for at_s in steps(self.start_s, self.end_s) if at_s < last_s]
        x = ChartAxis(self.start_s, self.end_s, labelled(at_s, lambda at_s: seconds(at_s) if at_s else "0"))
        yield Text(self.title())
        yield Legend([(colour(i), name) for i, name in enumerate(seen.models)])
        below = "; below it, paler, weights on their way" if seen.loads.gpu else ""
        note = f"Above, what runs{below}; the band underneath is memory in use, its full height all there is."
        yield Text(note, Tone.NOTE)
        yield Lanes([*(self.lane(i, name) for i, name in enumerate(seen.gpus)), self.waiting()], x)

    def title(self) -> str:
        """Which stretch it is."""
        from_s, runs = self.seen.start_s + self.start_s, self.plan.recommendation.replications
        hidden = len(self.plan.recommendation.gpus) - len(self.seen.gpus)
        less_busy = f" {counted(hidden, 'GPU')} less busy not shown." if hidden > 0 else ""
        return (
            f"{seconds(self.end_s - self.start_s)} of the first of {counted(runs, 'replication')}. "
            f"From {from_s:.4g} s on, after the warm-up; seed {self.seen.seed}.{less_busy}"
        )

    def lane(self, number: int, name: str) -> Lane:
        """One GPU: batches above, loads below, then memory."""
        m, device = self.seen.memory, self.devices.get(name)
        used = self.within(number, m.gpu, m.time_s, m.bytes)
        peak = max((size for _, size in used), default=0)
        most = device.memory_bytes if device else max(peak, 1)
        at_most = f"{peak / 1e9:.2f} of {gigabytes(most)}" if device else gigabytes(peak)
        floor = LOAD_HIGH + GAP if self.seen.loads.gpu else 0.0
        boxes = [*self.batches(number, floor), *self.loads(number)]
        work = Strip("work", boxes, floor + BATCH_HIGH, f"Batches and loads on {name}")
        memory = Strip("memory", [area(self.corners(used))], most, f"Memory in use on {name}")
        return Lane(name, device.kind if device else "", f"memory: {at_most} at most", [work, memory])

    def batches(self, number: int, floor: float) -> Iterator[Box]:
        """Boxes of the batches."""
        b = self.seen.batches
        for gpu, model, start_s, end_s, size in zip(b.gpu, b.model, b.start_s, b.end_s, b.size, strict=True):
            if gpu == number and self.shows(start_s, end_s):
                what = f"{self.seen.models[model]}, {counted(size, 'request')}: {seconds(end_s - start_s)}"
                title = f"{what} from {seconds(start_s)}"
                yield Box(start_s, end_s, floor, floor + BATCH_HIGH, colour(model), title)

    def loads(self, number: int) -> Iterator[Box]:
        """Boxes of the loads, half as high, below the batches."""
        b = self.seen.loads
        for gpu, model, start_s, end_s, size in zip(b.gpu, b.model, b.start_s, b.end_s, b.bytes, strict=True):
            if gpu == number and self.shows(start_s, end_s):
                title = f"load of {self.seen.models[model]}, {gigabytes(size)}: {seconds(end_s - start_s)}"
                yield Box(start_s, end_s, 0, LOAD_HIGH, colour(model), title, pale=True)

    def shows(self, start_s: float, end_s: float) -> bool:
        """True where some of it lies in the stretch."""
        return start_s < self.end_s and end_s > self.start_s

    def within(self, number: int, whose: Sequence[int], times_s: Sequence[float], values: Sequence[int]) -> Steps:
        """Steps of one GPU or model in the stretch, and the value with which it begins."""
        steps = [(at_s, value) for who, at_s, value in zip(whose, times_s, values, strict=True) if who == number]
        before = [(self.start_s, value) for at_s, value in steps if at_s <= self.start_s]
        return [*before[-1:], *(step for step in steps if self.start_s < step[0] < self.end_s)]

    def corners(self, steps: Steps) -> list[tuple[float, float]]:
        """Corners up to the end of the stretch."""
        return stairs([at_s for at_s, _ in steps], [value for _, value in steps], self.end_s)

    def waiting(self) -> Lane:
        """The queues, a line for each model."""
        lines = [Line(self.corners(queue), colour(i)) for i, queue in enumerate(self.queues)]
        queue = Strip("queue", lines, max(1, self.longest) * 1.05, "Requests that wait, by model")
        return Lane("waiting", "", f"at most {counted(self.longest, 'request')} for one model", [queue])


def stretch(seen: Timeline) -> tuple[float, float]:
    """Begin and end, in seconds of the window: 60 batches of the busiest GPU, from just before the first load on."""
    b, long_s = seen.batches, seen.end_s - seen.start_s
    most = max(b.gpu.count(gpu) for gpu in set(b.gpu))
    shown_s = long_s * min(1.0, BATCHES_SHOWN / most)
    loads_s = [at for at in seen.loads.start_s if at >= 0]
    start_s = max(0.0, min(min(loads_s, default=0.0) - 0.1 * shown_s, long_s - shown_s))
    return start_s, start_s + shown_s
