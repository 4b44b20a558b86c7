"""A plan's timeline on a page: for each GPU its batches, loads and memory, and who waits."""

from collections.abc import Iterator

from markupsafe import Markup

from planner.model.plan import GpuAnswer, Plan, Timeline
from planner.show.charts.blocks import Lane, Lanes, Legend
from planner.show.charts.kit import STRIP, Scale, colour, path, rect, step_points, strip
from planner.show.document import Block, Text, Tone
from planner.units.writing import counted, gigabytes, seconds

BATCHES_SHOWN = 60
"""Of the busiest GPU: as many as one can tell apart on a screen."""
LANE, GAP = 22, 3


def strips(plan: Plan) -> Iterator[Block]:
    """The first part of a plan's window in which batches can be told apart; nothing where it has no timeline."""
    if plan.timeline is not None and plan.timeline.batches.gpu:
        yield from Stretch(plan, plan.timeline).blocks()


class Stretch:
    """A stretch of a timeline."""

    def __init__(self, plan: Plan, seen: Timeline) -> None:
        self.plan = plan
        self.seen = seen
        self.start_s, self.end_s = stretch(seen)
        self.across = Scale(self.start_s, self.end_s, 0, STRIP)
        self.devices = {gpu.id: gpu for gpu in plan.recommendation.gpus}

    def blocks(self) -> Iterator[Block]:
        """The stretch, lane by lane."""
        seen, across = self.seen, Scale(self.start_s, self.end_s, 0, 1)
        ticks = across.ticks((at_s, seconds(at_s) if at_s else "0") for at_s in across.steps(5))
        yield Text(self.title())
        yield Legend([(colour(i), name) for i, name in enumerate(seen.models)])
        below = "; below it, paler, weights on their way" if seen.loads.gpu else ""
        note = f"Above, what runs{below}; the band underneath is memory in use, its full height all there is."
        yield Text(note, Tone.NOTE)
        lanes = [self.lane(i, name) for i, name in enumerate(seen.gpus)]
        longest = f"at most {counted(self.longest(), 'request')} for one model"
        waiting = Lane("waiting", "", longest, [("queue", self.queue())])
        yield Lanes([*lanes, waiting], [tick for tick in ticks if tick.at < 0.97])

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
        parts = [*self.batches(number), *self.loads(number)]
        device = self.devices.get(name)
        used, peak = self.memory(number, device)
        limit = f"{peak / 1e9:.2f} of {gigabytes(device.memory_bytes)}" if device else gigabytes(peak)
        height = LANE + (GAP + LANE / 2) * bool(self.seen.loads.gpu)
        work = strip(parts, height, f"Batches and loads on {name}")
        kind = device.kind if device else ""
        return Lane(name, kind, f"memory: {limit} at most", [("work", work), ("memory", used)])

    def batches(self, number: int) -> Iterator[Markup]:
        """Boxes of the batches."""
        b = self.seen.batches
        for gpu, model, start_s, end_s, size in zip(b.gpu, b.model, b.start_s, b.end_s, b.size, strict=True):
            if gpu == number and start_s < self.end_s and end_s > self.start_s:
                what = f"{self.seen.models[model]}, {counted(size, 'request')}: {seconds(end_s - start_s)}"
                yield self.box(start_s, end_s, 0, LANE, colour(model), f"{what} from {seconds(start_s)}")

    def loads(self, number: int) -> Iterator[Markup]:
        """Boxes of the loads, half as high, below the batches."""
        b = self.seen.loads
        for gpu, model, start_s, end_s, size in zip(b.gpu, b.model, b.start_s, b.end_s, b.bytes, strict=True):
            if gpu == number and start_s < self.end_s and end_s > self.start_s:
                what = f"load of {self.seen.models[model]}, {gigabytes(size)}: {seconds(end_s - start_s)}"
                yield self.box(start_s, end_s, LANE + GAP, LANE / 2, f"{colour(model)} load", what)

    def box(self, start_s: float, end_s: float, y: float, height: float, style: str, title: str) -> Markup:
        """From one time to another, cut at the ends of the stretch."""
        left, right = self.across(start_s), self.across(end_s)
        return rect(left, y, max(0.5, right - left - 0.4), height, style, title)

    def memory(self, number: int, device: GpuAnswer | None) -> tuple[Markup, int]:
        """Memory in use, as an area under the GPU's capacity; and its most in the stretch."""
        m = self.seen.memory
        steps = [(at, used) for gpu, at, used in zip(m.gpu, m.time_s, m.bytes, strict=True) if gpu == number]
        steps = self.within(steps)
        limit = device.memory_bytes if device else max((used for _, used in steps), default=1)
        up = Scale(0, limit, LANE, 1)
        points = step_points([at for at, _ in steps], [used for _, used in steps], self.across, up)
        area = path([(0, LANE), *points, (STRIP, LANE)], "area", closed=True) if points else Markup("")
        name = f"Memory in use on {self.seen.gpus[number]}"
        return strip([area], LANE, name), max((used for _, used in steps), default=0)

    def within(self, steps: list[tuple[float, int]]) -> list[tuple[float, int]]:
        """Steps of the stretch, and the value with which it begins."""
        before = [value for at, value in steps if at <= self.start_s]
        inside = [(at, value) for at, value in steps if self.start_s < at < self.end_s]
        return [(self.start_s, before[-1]), *inside] if before else inside

    def waiting(self, number: int) -> list[tuple[float, int]]:
        """How many wait for one model."""
        q = self.seen.queue
        return self.within(
            [(at, n) for model, at, n in zip(q.model, q.time_s, q.length, strict=True) if model == number]
        )

    def longest(self) -> int:
        """The longest queue of any model."""
        return max((n for i in range(len(self.seen.models)) for _, n in self.waiting(i)), default=0)

    def queue(self) -> Markup:
        """A line for each model."""
        up = Scale(0, max(1, self.longest()), 2 * LANE - 1, 2)
        lines = []
        for i in range(len(self.seen.models)):
            steps = self.waiting(i)
            points = step_points([at for at, _ in steps], [n for _, n in steps], self.across, up)
            lines.append(path(points, f"{colour(i)} line"))
        return strip(lines, 2 * LANE, "Requests that wait, by model")


def stretch(seen: Timeline) -> tuple[float, float]:
    """Begin and end, in seconds of the window: 60 batches of the busiest GPU, from just before the first load on."""
    b, long_s = seen.batches, seen.end_s - seen.start_s
    most = max(b.gpu.count(gpu) for gpu in set(b.gpu))
    shown_s = long_s * min(1.0, BATCHES_SHOWN / most)
    loads_s = [at for at in seen.loads.start_s if at >= 0]
    start_s = max(0.0, min(min(loads_s, default=0.0) - 0.1 * shown_s, long_s - shown_s))
    return start_s, start_s + shown_s
