"""The time of one step of a training on its GPUs, with its limit, and of the whole training."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from planner.model.choices import PriceKind
from planner.model.ranges import Range, exactly, ranged
from planner.prediction.rules.roofline import LAUNCH_S
from planner.questions.training.closed_forms import (
    FORWARD_SHARE,
    RUN_OVER_STEPS,
    attempt_s,
    bubble,
    ended_within_s,
    exposed_s,
    loader_s,
    pipeline_s,
    rescaled_step_s,
    stretches,
    with_interruptions_s,
    workers_enough,
)
from planner.questions.training.layout import TrainingLayout
from planner.questions.training.memory import STATE_BYTES
from planner.questions.training.scenario import SPOT_BETWEEN_S, SpeedSpec, step_samples
from planner.questions.training.speed import MEASURED_BAND, PAST_BAND, Limit, PassSpeed, SpeedRule, doubted
from planner.questions.training.traffic import Traffic
from planner.units.writing import counted
from simulator.world.hardware import GPU
from simulator.world.precision import WEIGHT_BYTES
from simulator.world.profile import Evidence

RUN_PARTS = ("steps", "evaluation", "start and stalls", "interruptions")
OPTIMIZER_PASSES = 3
"""Times that weights, gradients and states are read or written in an update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Time of a step, its limit, and its evidence."""

    time_s: Range
    limit: Limit
    rule: SpeedRule
    evidence: Evidence
    source: str
    """Where the time comes from."""
    sources: tuple[str, ...] = ()
    """Publications and profiles that it rests on."""
    of_run: bool = False
    """Taken from a run of this very training, evaluation and stalls included."""

    def at_least(self, least_s: Range, limit: Limit) -> "Step":
        """The step where something else takes so long meanwhile."""
        limit = limit if least_s.mid > self.time_s.mid else self.limit
        return replace(self, time_s=self.time_s.joined(max, least_s), limit=limit)


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Times of a step of one layout, by the speed of one pass."""

    layout: TrainingLayout
    speed: PassSpeed

    def over_links(self, time_s: Range, change: Callable[[float, Traffic], float]) -> Range:
        """A rising function of a time and of messages; its good end over the fastest link between machines.

        Nobody measured these messages: they get what their links have within the band of a stated speed.
        """
        link, reached = self.layout.network_bytes_per_s, doubted(exactly(1.0), MEASURED_BAND)
        traffics = (
            Traffic(layout=self.layout, network_bytes_per_s=rate, reached=share)
            for rate, share in zip(reversed(link.ends), reversed(reached.ends), strict=True)
        )
        return ranged(*map(change, time_s.ends, traffics))

    @property
    def passes(self) -> int:
        """Passes of a step."""
        return self.layout.scenario.train.passes

    @cached_property
    def step(self) -> Step:
        """The longest of the GPUs' work, the loader's, and reading from storage."""
        work = self.of_gpus.at_least(as_stated(making_s(self.layout)), Limit.LOADER)
        return work.at_least(as_stated(reading_s(self.layout)), Limit.STORAGE)

    @cached_property
    def of_gpus(self) -> Step:
        """All that the GPUs do, by the best evidence."""
        stated = nearest(self.layout.scenario.speed, self.layout.gpu, self.layout.gpu_count)
        if stated:
            return self.stated(stated)
        return self.linked() if self.speed.linked else self.computed(self.speed.pass_s)

    def computed(self, pass_s: Range) -> Step:
        """A step from the time of one pass on one GPU, with all that dividing the work adds."""
        split, part_s = self.layout.split, self.part_s(pass_s)
        time_s = self.over_links(part_s, self.together_s)
        computing_s = pass_s.mid * self.passes / split.parts
        waiting_s = pipeline_s(part_s.mid, split.pipeline, self.passes) - computing_s
        alone_s = computing_s + update_s(self.layout)
        taken_s = {Limit.NETWORK: time_s.mid - alone_s - waiting_s, Limit.OVERHEAD: waiting_s}
        return self._with_limit(time_s, taken_s, alone_s)

    def part_s(self, pass_s: Range) -> Range:
        """A pass on one of the GPUs that share its layers: each issues all operators, on its share of the numbers."""
        issued_s = self.layout.subject.issued_s.joined(min, pass_s)
        return (pass_s * (1 / self.layout.split.tensor)).joined(max, issued_s)

    def together_s(self, part_s: float, traffic: Traffic) -> float:
        """A step whose passes take so long on each GPU."""
        stages, hand_over_s = self.layout.split.pipeline, traffic.hand_over_s()
        computing_s = pipeline_s(part_s + traffic.tensor_s(), stages, self.passes, hand_over_s)
        return self.agreed_s(computing_s, traffic) + update_s(self.layout) + traffic.norms_s()

    def agreed_s(self, computing_s: float, traffic: Traffic) -> float:
        """Computing, and the part of the gradients' way that the backward pass does not hide; of several the last."""
        parallel = self.layout.scenario.parallel
        hidden = parallel.overlap and parallel.synchronous
        beside_s = computing_s if traffic.every_pass else computing_s / self.passes
        return computing_s + exposed_s(traffic.gradients_s(), beside_s, hidden)

    def linked(self) -> Step:
        """A step from a speed that has links and waiting in it."""
        speed = self.speed
        return Step(
            time_s=speed.pass_s * (self.passes / self.layout.split.parts),
            limit=speed.limit,
            rule=speed.rule,
            evidence=speed.evidence,
            source=speed.source,
            sources=speed.sources,
        )

    # Steps and runs that the scenario states

    def stated(self, spec: SpeedSpec) -> Step:
        """A step or a run that the scenario states, at this number of GPUs or carried to it."""
        layout = self.layout
        batch = spec.global_batch or step_samples(layout.scenario, spec.gpu_count)
        measured_s = self.stated_s(spec, batch)
        measured_share, share = batch / spec.gpu_count, layout.global_batch / layout.gpu_count
        if spec.gpu_count == layout.gpu_count and measured_share == share:
            return self._as_stated(spec, measured_s)
        launches_s = layout.subject.operators * LAUNCH_S  # which a measured step hides, or not
        step_s = rescaled_step_s(measured_s, measured_share, share, launches_s)
        time_s = step_s
        if spec.gpu_count % layout.split.parts:
            time_s = self.over_links(time_s, self.divided_s)
        if layout.gpu_count > spec.gpu_count:
            time_s = self.over_links(time_s, self.agreed_s)
        launching_s = min(launches_s, step_s.mid)
        taken_s = {Limit.NETWORK: time_s.mid - step_s.mid, Limit.OVERHEAD: launching_s}
        step = self._with_limit(doubted(time_s, PAST_BAND), taken_s, step_s.mid - launching_s)
        source = f"carried from {counted(spec.gpu_count, 'GPU')} that the scenario states"
        of_run = spec.run is not None
        return replace(step, rule=SpeedRule.STATED, evidence=Evidence.ASSUMED, source=source, sources=(), of_run=of_run)

    def _as_stated(self, spec: SpeedSpec, measured_s: float) -> Step:
        of_run = spec.run is not None
        source = "a run of this training that the scenario states" if of_run else "a step that the scenario states"
        return Step(
            time_s=doubted(exactly(measured_s), MEASURED_BAND),
            limit=self.speed.limit,
            rule=SpeedRule.STATED,
            evidence=Evidence.ASSUMED,
            source=source,
            of_run=of_run,
        )

    def stated_s(self, spec: SpeedSpec, batch: float) -> float:
        """The stated step, or the step of a stated run or rate."""
        if spec.run is not None:
            return spec.run / (self.layout.epochs().mid * self.layout.samples() / batch)
        if spec.step is not None:
            return spec.step
        return batch / (spec.rate or math.inf)

    def divided_s(self, step_s: float, traffic: Traffic) -> float:
        """A step of whole models, where each is divided: with its bubble, and the messages of its parts."""
        stages = self.layout.split.pipeline
        sent_s = self.passes * traffic.tensor_s() / stages + 2 * (stages - 1) * traffic.hand_over_s()
        return step_s / (1 - bubble(stages, self.passes)) + sent_s

    def _with_limit(self, time_s: Range, taken_s: Mapping[Limit, float], computing_s: float) -> Step:
        """A step whose limit takes the largest part of it; `taken_s` is all but computing."""
        speed = self.speed
        parts_s = dict(taken_s)
        parts_s[speed.limit] = parts_s.get(speed.limit, 0.0) + computing_s
        limit = max(parts_s, key=parts_s.__getitem__)
        return Step(
            time_s=time_s,
            limit=limit,
            rule=speed.rule,
            evidence=speed.evidence,
            source=speed.source,
            sources=speed.sources,
        )

    def workers_enough(self) -> int | None:
        """Loader workers for each GPU with which the loader delays nothing; None where the scenario has no loader."""
        loader = self.layout.scenario.data.loader
        if loader is None:
            return None
        samples = self.layout.global_batch / self.layout.split.data
        step_s = max(self.of_gpus.time_s.mid, reading_s(self.layout))
        return workers_enough(samples, self.layout.loader_rate, step_s)


def update_s(layout: TrainingLayout) -> float:
    """Time of the optimizer: weights, gradients and states pass the memory a few times."""
    train, split = layout.scenario.train, layout.split
    param_bytes = WEIGHT_BYTES[train.precision] * 2 + STATE_BYTES[train.optimizer]
    sharers = split.data if split.zero else 1
    params = layout.subject.params / split.parts / sharers
    return OPTIMIZER_PASSES * param_bytes / 2 * params / layout.gpu.memory_bytes_per_s


def making_s(layout: TrainingLayout) -> float:
    """Time of the loader's workers for a step's samples; 0 where the scenario has no loader."""
    loader = layout.scenario.data.loader
    samples = layout.global_batch / layout.split.data
    return loader_s(samples, loader.workers, layout.loader_rate) if loader else 0.0


def reading_s(layout: TrainingLayout) -> float:
    """Time to read a step's samples from storage; 0 where the scenario states none."""
    data = layout.scenario.data
    if not data.storage or not data.bytes:
        return 0.0
    readers = min(layout.machines, layout.split.data)
    return layout.global_batch * data.bytes / (data.storage * readers)


def feeding_s(layout: TrainingLayout) -> Range:
    """Least time in which a step's samples are there."""
    return as_stated(max(making_s(layout), reading_s(layout)))


def as_stated(time_s: float) -> Range:
    """A time by a rate of a loader or a storage, with the doubt of a stated speed."""
    return doubted(exactly(time_s), MEASURED_BAND)


def nearest(speeds: Sequence[SpeedSpec], gpu: GPU, gpu_count: int) -> SpeedSpec | None:
    """The stated step or run on this kind of GPU whose number of GPUs is nearest, by ratio."""
    stated = [speed for speed in speeds if speed.gpu == gpu.name and speed.achieved is None]

    def distance(speed: SpeedSpec) -> tuple[float, int]:
        return abs(math.log(speed.gpu_count / gpu_count)), speed.gpu_count

    return min(stated, key=distance, default=None)


# The whole training


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterruptions:
    """Interruptions of a run, in seconds."""

    between_s: float
    """Mean time between two of them, of all machines together."""
    between_range_s: Range | None = None
    """Its band; None in answers of before that was said."""
    checkpoint_s: float | None
    """Between two checkpoints, as costs least; None where none is worth a write."""
    write_s: float
    restart_s: float
    assumed: bool
    """The scenario does not say how often spot machines are interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """Time of a whole training."""

    steps_s: Range
    evaluated_s: Range
    """Steps, and the evaluation after each epoch."""
    run_s: Range
    """That, and what a run takes over it: its start, stalls, logs."""
    interrupted_s: Range
    """That, with checkpoints, restarts, and work that is done again: the whole."""

    def parts_s(self) -> dict[str, float]:
        """Seconds of each part at the middle; together the whole."""
        ends_s = [0.0, *(end.mid for end in (self.steps_s, self.evaluated_s, self.run_s, self.interrupted_s))]
        return {part: after - before for part, (before, after) in zip(RUN_PARTS, pairwise(ends_s), strict=True)}


def run_time(layout: TrainingLayout, times: StepTimes) -> RunTime:
    """Time of the whole training, and its parts."""
    step = times.step
    steps_s = layout.steps() * step.time_s
    evaluated_s = run_s = steps_s
    if not step.of_run:
        forward_s = (times.of_gpus.time_s * FORWARD_SHARE).joined(max, feeding_s(layout))
        evaluated_s = steps_s + layout.epochs() * evaluation_steps(layout) * forward_s
        run_s = over_steps_s(layout, times.speed, step, evaluated_s)
    return RunTime(steps_s=steps_s, evaluated_s=evaluated_s, run_s=run_s, interrupted_s=interrupted_s(layout, run_s))


def evaluation_steps(layout: TrainingLayout) -> float:
    """Batches of one evaluation."""
    return layout.scenario.train.evaluation / layout.global_batch


def over_steps_s(layout: TrainingLayout, speed: PassSpeed, step: Step, work_s: Range) -> Range:
    """Time of a run whose steps take so long.

    Speeds of whole runs have all of it in them, but were not held back by this loader.
    """
    scenario = layout.scenario
    if scenario.goodput:
        return work_s * (1 / scenario.goodput)
    if speed.whole and nearest(scenario.speed, layout.gpu, layout.gpu_count) is None:
        if step.limit not in (Limit.LOADER, Limit.STORAGE):
            return work_s
        batches = layout.steps() + layout.epochs() * evaluation_steps(layout)
        return work_s.joined(max, batches * feeding_s(layout) * RUN_OVER_STEPS)
    return work_s * RUN_OVER_STEPS


def interrupted_s(layout: TrainingLayout, run_s: Range) -> Range:
    """Time of a run with its interruptions, at their mean.

    How many there are errs apart from how long steps take: the ends lie as far from the middle as the root of both
    squares, in logarithms. As few or many come as a tenth of runs meet, at the ends of an assumed rate.
    """
    between_s, spec = between_interruptions_s(layout), layout.scenario.interruptions
    means_s = run_s.each(lambda time_s: with_interruptions_s(time_s, between_s.mid, spec.write, spec.restart))
    mid_s = means_s.mid
    if math.isinf(between_s.mid) or math.isinf(mid_s):
        return means_s
    few_s = ended_within_s(0.1, run_s.mid, between_s.high, spec.write, spec.restart)
    many_s = max(mid_s, ended_within_s(0.9, run_s.mid, between_s.low, spec.write, spec.restart))
    return ranged(mid_s / both_apart(mid_s, means_s.low, few_s), mid_s, mid_s * both_apart(mid_s, means_s.high, many_s))


def both_apart(mid: float, one: float, other: float) -> float:
    """Times that an end lies from its middle where two independent causes would put it at each of these.

    10 h, by one cause 12 h, by the other 15 h: 1.56, so 15.6 h.
    """
    return math.exp(math.hypot(math.log(one / mid), math.log(other / mid)))


def interruptions(layout: TrainingLayout, run_s: float) -> RunInterruptions | None:
    """What interrupts a run that takes so long without it, and what is done against it."""
    between_s, spec = between_interruptions_s(layout), layout.scenario.interruptions
    spot = layout.source.price_kind == PriceKind.SPOT
    if math.isinf(between_s.mid):
        return None
    parts = stretches(run_s, between_s.mid, spec.write)
    return RunInterruptions(
        between_s=between_s.mid,
        between_range_s=between_s,
        checkpoint_s=attempt_s(run_s, spec.write, parts) - spec.write if parts > 1 else None,
        write_s=spec.write,
        restart_s=spec.restart,
        assumed=spot and spec.spot_mean_time_between is None,
    )


def between_interruptions_s(layout: TrainingLayout) -> Range:
    """Mean time between interruptions of all machines together; infinite where there are none."""
    spec = layout.scenario.interruptions
    of_one_s = [exactly(spec.mean_time_between)] if spec.mean_time_between else []
    if layout.source.price_kind == PriceKind.SPOT:
        stated_s = spec.spot_mean_time_between
        of_one_s.append(SPOT_BETWEEN_S if stated_s is None else exactly(stated_s))
    rates = [
        layout.machines * sum(1 / time_s for time_s in ends)
        for ends in zip(*(one_s.ends for one_s in of_one_s), strict=True)
    ]
    return ranged(*(1 / rate for rate in rates)) if rates else exactly(math.inf)
