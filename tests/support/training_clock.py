"""A training job as processes: loader workers, copies to the device, stages that compute, all-reduce, updates.

One set of loader and copy engine for each GPU (or pipeline of GPUs) that holds a copy of the model. Where a closed form
exists the clock agrees with it; it is here for what has none: batches of uneven length, stragglers, staleness.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

Process = Generator[simpy.Event, Any, None]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """What is trained, as times of its parts. Each copy of the model takes its share of the global batch."""

    steps: int
    copies: int = 1
    """Of the model, each on a GPU or a pipeline of them."""
    stages: int = 1
    """GPUs among which the layers of a copy are divided equally."""
    micro_batches: int = 1
    """Into which a copy's share of the batch is divided."""
    load_s: float = 0.0
    """One worker, a copy's share of one batch."""
    workers: int = 1
    """Of the loader, for each copy."""
    prefetch: int = 2
    """Batches that wait ready for each worker, as PyTorch's loader keeps them."""
    copy_s: float = 0.0
    """Host to device, a copy's share of one batch; the next batch is copied while one is computed."""
    forward_s: float
    """The whole model, one micro-batch."""
    backward_s: float
    hand_over_s: float = 0.0
    """Between two stages: activations of one micro-batch, or their gradients."""
    all_reduce_s: float = 0.0
    """Gradients of all copies, what the backward pass hides left out; asynchronous: to and from the server."""
    update_s: float = 0.0
    """The optimizer."""
    asynchronous: bool = False
    """Each copy updates the parameters by itself, whatever the others do meanwhile."""
    cv: float = 0.0
    """Coefficient of variation of a step's computing time: who waits for whom depends on it."""
    seed: int = 0


@dataclass(slots=True)
class TrainingRecords:
    """What happened, in order of time."""

    update_s: list[float] = field(default_factory=list)
    """When each update was done: one a step, or one a step and copy where they are asynchronous."""
    staleness: list[int] = field(default_factory=list)
    """Asynchronous: updates by others between reading the parameters and changing them."""
    waited_s: float = 0.0
    """For data, all copies together, the first batch left out."""
    computed_s: float = 0.0
    """All copies together."""

    def step_s(self) -> float:
        """Time between updates once the pipe is full: over the second half."""
        half = len(self.update_s) // 2
        return (self.update_s[-1] - self.update_s[half - 1]) / (len(self.update_s) - half)


class Barrier:
    """Everyone waits for the last."""

    def __init__(self, env: simpy.Environment, members: int) -> None:
        self.env, self.members = env, members
        self.there = 0
        self.open = env.event()

    def wait(self) -> simpy.Event:
        """Happens when all members wait."""
        self.there += 1
        gate = self.open
        if self.there == self.members:
            self.there, self.open = 0, self.env.event()
            gate.succeed()
        return gate


def train(job: TrainingJob) -> TrainingRecords:
    """Run the job from its first batch to its last update. The same seed gives the same records."""
    env = simpy.Environment()
    records = TrainingRecords()
    barrier = Barrier(env, job.copies)
    parameters = Parameters(env)
    factors = noise(job)
    for copy in range(job.copies):
        on_device = data(env, job)
        if job.asynchronous:
            env.process(alone(env, job, on_device, parameters, factors[copy], records))
        else:
            env.process(together(env, job, on_device, barrier, factors[copy], records, leads=copy == 0))
    env.run()
    return records


def noise(job: TrainingJob) -> Floats:
    """Factors of computing time, by copy and step: gamma with mean 1."""
    if not job.cv:
        return np.ones((job.copies, job.steps))
    shape = 1 / job.cv**2
    return np.random.default_rng(job.seed).gamma(shape, 1 / shape, (job.copies, job.steps))


# Data


def data(env: simpy.Environment, job: TrainingJob) -> simpy.Store:
    """The batches of one copy as they arrive on its device."""
    # A worker's batches in hand are its own place in the queue, so that `prefetch` of them wait or are made.
    ready = simpy.Store(env, capacity=max(1, job.workers * (job.prefetch - 1)))
    on_device = simpy.Store(env, capacity=1)
    batches = iter(range(job.steps))
    for _ in range(job.workers):
        env.process(worker(env, job, batches, ready))
    env.process(copier(env, job, ready, on_device))
    return on_device


def worker(env: simpy.Environment, job: TrainingJob, batches: Iterator[int], ready: simpy.Store) -> Process:
    """Takes the next batch there is, makes it, and waits until there is room for it."""
    for batch in batches:
        yield env.timeout(job.load_s)
        yield ready.put(batch)


def copier(env: simpy.Environment, job: TrainingJob, ready: simpy.Store, on_device: simpy.Store) -> Process:
    """The device's copy engine: one batch at a time."""
    for _ in range(job.steps):
        batch = yield ready.get()
        yield env.timeout(job.copy_s)
        yield on_device.put(batch)


def next_batch(env: simpy.Environment, on_device: simpy.Store, step: int, records: TrainingRecords) -> Process:
    """Waits for data, and notes how long."""
    asked_s = env.now
    yield on_device.get()
    records.waited_s += env.now - asked_s if step else 0.0


# Computing


def compute(env: simpy.Environment, job: TrainingJob, factor: float, records: TrainingRecords) -> Process:
    """Forward and backward of all micro-batches, through the stages where there are several (GPipe)."""
    begun_s = env.now
    if job.stages == 1:
        yield env.timeout(job.micro_batches * (job.forward_s + job.backward_s) * factor)
    else:
        for whole_s in (job.forward_s, job.backward_s):
            line = [
                simpy.Resource(env) for _ in range(2 * job.stages - 1)
            ]  # stages, and a link after each but the last
            part_s = whole_s * factor / job.stages
            yield env.all_of([env.process(through(env, job, line, part_s)) for _ in range(job.micro_batches)])
    records.computed_s += env.now - begun_s


def through(env: simpy.Environment, job: TrainingJob, line: list[simpy.Resource], part_s: float) -> Process:
    """One micro-batch, through stages and the links between them."""
    for i, place in enumerate(line):
        with place.request() as turn:
            yield turn
            yield env.timeout(job.hand_over_s if i % 2 else part_s)


def together(
    env: simpy.Environment,
    job: TrainingJob,
    on_device: simpy.Store,
    barrier: Barrier,
    factors: Floats,
    records: TrainingRecords,
    *,
    leads: bool,
) -> Process:
    """One copy of a synchronous job: all add up their gradients and take the same step."""
    for step in range(job.steps):
        yield from next_batch(env, on_device, step, records)
        yield from compute(env, job, float(factors[step]), records)
        yield barrier.wait()
        yield env.timeout(job.all_reduce_s + job.update_s)
        if leads:
            records.update_s.append(env.now)


class Parameters:
    """What a server of asynchronous copies keeps: a count of updates, and who is at it."""

    def __init__(self, env: simpy.Environment) -> None:
        self.version = 0
        self.turn = simpy.Resource(env)


def alone(
    env: simpy.Environment,
    job: TrainingJob,
    on_device: simpy.Store,
    parameters: Parameters,
    factors: Floats,
    records: TrainingRecords,
) -> Process:
    """One copy of an asynchronous job: read, compute, update; the others have moved on meanwhile."""
    read = parameters.version
    for step in range(job.steps):
        yield from next_batch(env, on_device, step, records)
        yield from compute(env, job, float(factors[step]), records)
        yield env.timeout(job.all_reduce_s)
        with parameters.turn.request() as turn:
            yield turn
            yield env.timeout(job.update_s)
            records.staleness.append(parameters.version - read)
            parameters.version += 1
            read = parameters.version
            records.update_s.append(env.now)
