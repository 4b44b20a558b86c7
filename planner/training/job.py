"""One option while its time is worked out: a step, what holds it, and the whole training."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.scenario import PriceKind
from planner.training.closed_forms import (
    RUN_OVER_STEPS,
    Range,
    bubble,
    epoch_law,
    exactly,
    exposed_s,
    loader_s,
    pipeline_s,
    rescaled_step_s,
    with_interruptions_s,
    workers_enough,
)
from planner.training.memory import STATE_BYTES, Split
from planner.training.scenario import SpeedSpec, TrainingScenario
from planner.training.sources import Source
from planner.training.speed import Limit, Speed, Subject, launches_s
from planner.training.traffic import Traffic
from simulator.hardware import GPU
from simulator.precision import WEIGHT_BYTES
from simulator.profile import Evidence

OPTIMIZER_PASSES = 3
"""Times that weights, gradients and states are read or written in an update."""
RUN = "a run of this training that the scenario states"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step's time, what holds it, what that is worth, and where it comes from."""

    time_s: Range
    limit: Limit
    evidence: Evidence
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A scenario on so many GPUs of one source, divided among them."""

    s: TrainingScenario
    what: Subject
    source: Source
    count: int
    split: Split
    micro: float
    """Samples of one pass on one copy of the model."""
    speed: Speed

    @property
    def per_step(self) -> int:
        """Samples of a step on all GPUs."""
        return round(self.micro * self.split.data * self.s.train.accumulation)

    @property
    def machines(self) -> int:
        """That make up the GPUs."""
        return self.count // self.source.gpus_each

    @property
    def traffic(self) -> Traffic:
        """What the GPUs send each other."""
        return Traffic(
            s=self.s, what=self.what, source=self.source, machines=self.machines, split=self.split, micro=self.micro
        )

    # How much there is to do

    def samples(self) -> float:
        """Of one epoch."""
        d = self.s.data
        if d.samples is not None:
            return d.samples * d.used
        assert d.tokens is not None
        assert self.what.shape
        return d.tokens * d.used / self.what.shape.sequence

    def epochs(self) -> Range:
        """To the end, or to the target."""
        t = self.s.train
        found = exactly(t.epochs if t.epochs is not None else 1.0)
        if t.epochs_to_target:
            law = epoch_law([(p.global_batch, p.epochs) for p in t.epochs_to_target])
            found = law.range(self.per_step)
        return found * (1 + self.s.parallel.epochs_per_staleness * self.staleness())

    def staleness(self) -> int:
        """Updates by other copies before a gradient arrives; 0 where all step together."""
        return 0 if self.s.parallel.synchronous else self.split.data - 1

    def steps(self) -> Range:
        """Of all GPUs together; asynchronous: as many updates, `data` of them in the time of one."""
        return self.epochs() * (self.samples() / self.per_step)

    # A step

    def step(self) -> Step:
        """The longer of the loader and of all that the GPUs do."""
        spec = nearest(self.s.speed, self.source.gpu, self.count)
        found = self.stated(spec) if spec else self.whole() if self.speed.whole else self.computed(self.speed.pass_s)
        ready_s = self.loading_s()
        limit = Limit.LOADER if ready_s > found.time_s.mid else found.limit
        return replace(found, time_s=found.time_s.each(lambda t: max(t, ready_s)), limit=limit)

    def computed(self, pass_s: Range) -> Step:
        """From the time of one pass on one GPU, with all that dividing the work adds."""
        m, split = self.s.train.accumulation, self.split
        tensor_s, hand_over_s = self.traffic.tensor_s(), self.traffic.hand_over_s()

        def stages_s(t: float) -> float:
            return pipeline_s(t / split.tensor + tensor_s, split.pipeline, m, hand_over_s)

        time_s = self.agreed(pass_s.each(stages_s)) + (self.update_s() + self.traffic.norms_s())
        computing = pass_s.mid * m / split.parts
        waiting = pipeline_s(pass_s.mid / split.tensor, split.pipeline, m) - computing
        alone = computing + self.update_s()
        held = {Limit.NETWORK: time_s.mid - alone - waiting, Limit.OVERHEAD: waiting}
        held[self.speed.limit] = held.get(self.speed.limit, 0.0) + alone
        return Step(time_s=time_s, limit=most(held), evidence=self.speed.evidence, source=self.speed.source)

    def agreed(self, computing: Range) -> Range:
        """With the gradients' way, less what the backward pass hides."""
        hidden = self.s.parallel.overlap and self.s.parallel.synchronous
        travel_s = self.traffic.gradients_s()
        return computing.each(lambda t: t + exposed_s(travel_s, t, hidden))

    def whole(self) -> Step:
        """From speeds of whole runs; never faster than this run's own links and waiting allow."""
        time_s = self.speed.pass_s * (self.s.train.accumulation / self.split.parts)
        found = Step(time_s=time_s, limit=self.speed.limit, evidence=self.speed.evidence, source=self.speed.source)
        if not self.speed.least_s:
            return found
        own = self.computed(exactly(self.speed.least_s))
        limit = own.limit if own.time_s.mid > time_s.mid else found.limit
        return replace(found, time_s=time_s.each(lambda t: max(t, own.time_s.mid)), limit=limit)

    def stated(self, spec: SpeedSpec) -> Step:
        """From a step or a run that the scenario states, at this number of GPUs or carried to it."""
        batch = spec.global_batch or self.stated_batch(spec.gpu_count)
        measured_s = self.stated_s(spec, batch)
        each, wanted = batch / spec.gpu_count, self.per_step / self.count
        if spec.gpu_count == self.count and each == wanted:
            said = RUN if spec.run is not None else "a step that the scenario states"
            found = exactly(measured_s)
            return Step(time_s=found, limit=self.speed.limit, evidence=Evidence.PUBLISHED, source=said)
        launch_s = launches_s(self.what)
        step = rescaled_step_s(measured_s, each, wanted, launch_s)
        divided = step.each(self.divided_s) if spec.gpu_count % self.split.parts else step
        longer = self.agreed(divided) if self.count > spec.gpu_count else divided
        held = {Limit.NETWORK: longer.mid - step.mid, Limit.OVERHEAD: min(launch_s, step.mid)}
        held[self.speed.limit] = held.get(self.speed.limit, 0.0) + step.mid - held[Limit.OVERHEAD]
        said = f"carried from {spec.gpu_count} GPUs that the scenario states"
        return Step(time_s=longer, limit=most(held), evidence=Evidence.EXTRAPOLATED, source=said)

    def stated_batch(self, gpu_count: int) -> int:
        """Of so many GPUs with passes as large as here."""
        if gpu_count == self.count:
            return self.per_step
        return round(self.micro * gpu_count * self.s.train.accumulation / self.split.parts)

    def stated_s(self, spec: SpeedSpec, batch: int) -> float:
        """The step that was measured."""
        if spec.run is not None:
            return spec.run / (self.epochs().mid * self.samples() / batch)
        return spec.step if spec.step is not None else batch / (spec.rate or math.inf)

    def divided_s(self, step_s: float) -> float:
        """A step of whole models, where each is divided: with its bubble, and what its parts send each other."""
        m, p = self.s.train.accumulation, self.split.pipeline
        sent_s = m * self.traffic.tensor_s() / p + 2 * (p - 1) * self.traffic.hand_over_s()
        return step_s / (1 - bubble(p, m)) + sent_s

    def update_s(self) -> float:
        """The optimizer: weights, gradients and states pass the memory a few times."""
        t = self.s.train
        each = WEIGHT_BYTES[t.precision] * 2 + STATE_BYTES[t.optimizer]
        shared = self.split.data if self.split.zero else 1
        params = self.what.params / self.split.parts / shared
        return OPTIMIZER_PASSES * each / 2 * params / self.source.gpu.memory_bytes_per_s

    # The loader

    def loading_s(self) -> float:
        """To have a step's samples ready."""
        d, samples = self.s.data, self.per_step / self.split.data
        copies_each = max(1.0, self.split.data / self.machines)
        storage = d.storage / d.bytes / copies_each if d.storage and d.bytes else math.inf
        if d.loader is None:
            return samples / storage
        return loader_s(samples, d.loader.workers, d.loader.rate, storage)

    def workers_enough(self) -> int | None:
        """Loader workers for each GPU with which the loader holds nothing up; None where nothing is known of it."""
        if (loader := self.s.data.loader) is None:
            return None
        free = replace(self, s=replace(self.s, data=replace(self.s.data, loader=None)))
        return workers_enough(self.per_step / self.split.data, loader.rate, free.step().time_s.mid)

    # The whole training

    def time(self, step: Step) -> Range:
        """Steps, evaluation, what runs take over that, interruptions."""
        work = self.steps() * step.time_s
        if step.source != RUN:
            work = self.run_over_steps(work + self.judging(step.time_s))
        between_s, stop = self.between_s(), self.s.interruptions
        return work.each(lambda t: with_interruptions_s(t, between_s, stop.write, stop.restart))

    def judging(self, step_s: Range) -> Range:
        """Evaluation after each epoch: forward passes alone, a third of a step's operations."""
        return self.epochs() * (self.s.train.evaluation / self.per_step) * step_s * (1 / 3)

    def run_over_steps(self, work: Range) -> Range:
        """What a run takes over its steps; nothing where the speed was that of whole runs."""
        if self.s.goodput:
            return work * (1 / self.s.goodput)
        if self.speed.whole and nearest(self.s.speed, self.source.gpu, self.count) is None:
            return work
        low, mid, high = RUN_OVER_STEPS
        return work * Range(low=low, mid=mid, high=high)

    def between_s(self) -> float:
        """Mean time between interruptions of all machines together."""
        stop = self.s.interruptions
        each = [stop.mean_time_between] if stop.mean_time_between else []
        if self.source.price_kind == PriceKind.SPOT:
            each.append(stop.spot_mean_time_between)
        rate = sum(1 / t for t in each) * self.machines
        return 1 / rate if rate else math.inf


def most(held: Mapping[Limit, float]) -> Limit:
    """What takes the largest part."""
    return max(held, key=held.__getitem__)


def nearest(speeds: Sequence[SpeedSpec], gpu: GPU, count: int) -> SpeedSpec | None:
    """The stated step or run on this kind of GPU whose number of GPUs is nearest, by ratio."""
    known = [x for x in speeds if x.gpu == gpu.name and x.achieved is None]
    return min(known, key=lambda x: (abs(math.log(x.gpu_count / count)), x.gpu_count), default=None)
