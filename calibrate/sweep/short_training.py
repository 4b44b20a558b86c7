"""A short training for real: a few steps are measured, an epoch is predicted from them, then run. Needs torch.

`python -m calibrate.sweep.short_training MODEL --batch N --samples N` writes one JSON line. It runs the model's code.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

import torch
from torch.utils.data import DataLoader, RandomSampler

from calibrate.devices.device import Device, find_device
from calibrate.devices.regime import CASTS, in_regime
from calibrate.devices.timer import CpuTimer, Sample, StopRule
from calibrate.io.files import one_line
from calibrate.io.points import OPTIMIZERS, PRECISIONS, Point, Settings, What
from calibrate.sweep.measure import MeasuredModel, MeasuredStep, adapted, measure
from calibrate.zoo.built import Built, ZooTask, mapped
from calibrate.zoo.zoo import build

POOL = 512
"""Different samples at most; an epoch draws from them."""
LEARNING_RATE = 1e-3
SPLIT = 8
"""Parts of the epoch; steps are measured before each, so that both see the machine in the same state."""
FETCHES = 10
WARM_UP = 3
"""Batches of a loader before its pace is measured: those that its workers made while it started."""
SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortTraining:
    """A training to be tried."""

    model: str
    device: str
    batch: int
    samples: int
    optimizer: str
    precision: str
    resolution: int | None
    input_shape: tuple[int, ...] | None
    seconds: float
    threads: int | None
    workers: int = 0
    """Processes of the loader; 0: the process that trains makes the batches itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """The predicted and the measured times of a training."""

    model: str
    device: str
    threads: int
    """That a processor computes with."""
    batch: int
    steps: int
    step_s: float
    """Measured by itself, on data that is there already: the mean of what was measured around the epoch's parts."""
    workers: int
    load_s: float
    """To make one batch ready: without workers by the process that trains, so that it adds up; else the time between
    batches of the loader alone."""
    copy_s: float
    """To copy one batch to the device; 0 where that is the processor, which copies nothing."""
    start_s: float
    """What an epoch of one step takes beside that, with workers: they start and make the first batch, and the step
    copies the memory that it writes, which they were given too. 0 without."""
    predicted_s: float
    """Time of the epoch: steps x (step_s + copy_s + load_s), or with workers start_s, the first step, and for each
    other the longer of load_s and step_s + copy_s."""
    epoch_s: float
    """Measured."""
    real_step_s: float
    """Mean of the epoch's own steps, loading left out."""
    busy_predicted_s: float | None
    """The same two in time of the processor, which other processes take none of; None on a GPU."""
    busy_epoch_s: float | None


class BusyTimer(CpuTimer):
    """Wall clock, and beside it the time that the processor worked for this process."""

    def time(self, run: Callable[[], object]) -> Sample:
        """Run it once."""
        busy_s = time.process_time()
        sample = super().time(run)
        return Sample(sample.wall_s, time.process_time() - busy_s)


@dataclass(frozen=True, slots=True)
class Loading:
    """Time between batches of the loader, and to copy one to the device."""

    batch_s: float
    copy_s: float


@dataclass(frozen=True, slots=True)
class EpochPart:
    """Times of a part of an epoch."""

    took_s: float
    busy_s: float
    steps_s: list[float]


def train(training: ShortTraining) -> Trained:
    """Measure steps, train an epoch in parts with steps measured between, and put both together."""
    if training.threads:
        torch.set_num_threads(training.threads)
    torch.manual_seed(SEED)
    device = find_device(training.device)
    if refusal := device.refuse(training.precision):
        raise ValueError(f"{training.model}: precision: {refusal}")
    device.open()
    built = build(training.model, training.input_shape)
    if built.is_opaque:
        raise ValueError(f"{training.model}: what can be called and nothing more is not trained. Name a torch model")
    built.module.to(device=device.label, dtype=CASTS.get(training.precision))
    return Run(training, built, device).result()


class Run:
    """A training under way."""

    def __init__(self, training: ShortTraining, built: Built, device: Device) -> None:
        self.training = training
        self.built = built
        self.device = device
        self.settings = Settings(precision=training.precision, resolution=training.resolution)
        self.fed_whole = built.hooks.make_input is not None
        """A factory's own batches stay as they are: it alone knows what in them belongs to one sample."""
        count = training.batch if self.fed_whole else min(training.samples, POOL)
        made = built.make_input(count, "cpu", self.settings)
        self.samples = [made] if self.fed_whole else list(made)
        """On the host: single samples, or the one batch."""

    def result(self) -> Trained:
        """The epoch as it was predicted from steps, and as it was."""
        training = self.training
        steps = max(1, training.samples // training.batch)
        ready = self.loading()
        step = MeasuredStep(
            MeasuredModel(self.built, self.built.module, self.device, self.settings), training.optimizer, LEARNING_RATE
        )
        self.part(step, 1)  # gradients and the optimizer's state get their memory once in a training, not in each epoch
        start = self.part(step, 1) if training.workers else None
        measured, epoch = [], []
        for count in [steps] if training.workers else split(steps):
            measured.append(self.step_s())
            epoch.append(self.part(step, count))
        if training.workers:
            measured.append(self.step_s())
        return self.report(ready, start, measured, epoch)

    def report(
        self,
        ready: Loading,
        start: EpochPart | None,
        measured: Sequence[tuple[float, float]],
        epoch: Sequence[EpochPart],
    ) -> Trained:
        """The steps measured before and between, beside the epoch in its parts."""
        real = [step_s for part in epoch for step_s in part.steps_s]
        # Means, not medians: an epoch is a sum, and disturbances are in it.
        step_s, busy_s = map(mean, zip(*measured, strict=True))
        on_cpu = self.device.kind == "cpu"
        own_load_s = 0.0 if self.training.workers else ready.batch_s
        start_s = max(0.0, start.took_s - step_s - ready.copy_s) if start else 0.0
        busy_start_s = max(0.0, start.busy_s - busy_s) if start else 0.0
        turn_s = step_s + ready.copy_s + own_load_s
        return Trained(
            model=self.training.model,
            device=self.device.name,
            threads=torch.get_num_threads(),
            batch=self.training.batch,
            steps=len(real),
            step_s=step_s,
            workers=self.training.workers,
            load_s=ready.batch_s,
            copy_s=ready.copy_s,
            start_s=start_s,
            predicted_s=start_s + turn_s + (len(real) - 1) * max(turn_s, ready.batch_s),
            epoch_s=sum(part.took_s for part in epoch),
            real_step_s=mean(real),
            busy_predicted_s=busy_start_s + len(real) * (busy_s + own_load_s) if on_cpu else None,
            busy_epoch_s=sum(part.busy_s for part in epoch) if on_cpu else None,
        )

    def batches(self, count: int) -> Iterator[Any]:
        """So many shuffled batches, by PyTorch's own loader. Pictures of a detector differ in size: they are a list."""
        batch = None if self.fed_whole else self.training.batch
        loader: Any = DataLoader(
            self.samples,  # type: ignore[arg-type]
            batch,
            sampler=RandomSampler(self.samples, replacement=True, num_samples=count * (batch or 1)),
            num_workers=self.training.workers,
            pin_memory=self.device.kind == "cuda",
            collate_fn=list if self.built.task is ZooTask.DETECTION else None,
        )
        return iter(loader)

    def loading(self) -> Loading:
        """The loader alone, while nothing is trained."""
        more = WARM_UP + 2 * self.training.workers  # each worker has two ready
        source = self.batches(more + FETCHES)
        for _ in range(more):
            next(source)
        begun_s = time.perf_counter()
        for _ in range(FETCHES):
            batch = next(source)
        batch_s = (time.perf_counter() - begun_s) / FETCHES
        return Loading(batch_s, self.copy_s(batch))

    def copy_s(self, batch: Any) -> float:
        """Mean time to copy a batch of the loader to the device."""
        if self.device.kind == "cpu":
            return 0.0
        timer = self.device.timer()
        timer.time(lambda: self.moved(batch))
        return mean(timer.time(lambda: self.moved(batch)).wall_s for _ in range(FETCHES))

    def moved(self, batch: Any) -> Any:
        """A batch on the device, in the precision that the model is fed."""
        return adapted(mapped(batch, lambda tensor: tensor.to(self.device.label)), self.settings)

    def step_s(self) -> tuple[float, float]:
        """A training step as calibration measures it: by the clock, and on a processor in its own time."""
        training = self.training
        point = Point(
            what=What.TRAINING,
            model=training.model,
            batch=training.batch,
            optimizer=training.optimizer,
            settings=self.settings,
        )
        rule = StopRule(seconds=training.seconds / SPLIT, at_least=3)
        timer = BusyTimer() if self.device.kind == "cpu" else None
        samples = measure(self.built, self.device, point, rule, timer).samples
        return mean(samples["step_s"]), mean(samples.get("device_s", samples["step_s"]))

    def part(self, step: MeasuredStep, count: int) -> EpochPart:
        """Train for so many steps, from where the last part ended, by the arithmetic in which steps are measured."""
        self.built.module.train()
        steps_s = []
        with in_regime(self.settings):
            self.device.synchronise()
            start_s, busy_s = time.perf_counter(), time.process_time()
            for batch in self.batches(count):
                inputs = self.moved(batch)
                step_start_s = time.perf_counter()
                step.run(inputs)
                self.device.synchronise()
                steps_s.append(time.perf_counter() - step_start_s)
            return EpochPart(time.perf_counter() - start_s, time.process_time() - busy_s, steps_s)


def split(steps: int) -> list[int]:
    """Parts of nearly one size: 10 steps are 3, 3, 2 and 2."""
    parts = min(SPLIT, steps)
    return [steps // parts + (i < steps % parts) for i in range(parts)]


# Command line


def read(arguments: Sequence[str] | None = None) -> ShortTraining:
    """The training that the options ask for."""
    options = argparse.ArgumentParser(prog="python -m calibrate.sweep.short_training", allow_abbrev=False)
    add = options.add_argument
    add("model")
    add("--device", default="cpu")
    add("--batch", type=int, required=True)
    add("--samples", type=int, required=True)
    add("--optimizer", default="sgd", choices=OPTIMIZERS)
    add("--precision", default="fp32", choices=PRECISIONS)
    add("--resolution", type=int)
    add("--input", default="")
    add("--seconds", type=float, default=5.0)
    add("--threads", type=int)
    add("--workers", type=int, default=0)
    given = vars(options.parse_args(arguments))
    shape = given.pop("input")
    return ShortTraining(**given, input_shape=tuple(map(int, shape.split("x"))) if shape else None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; one JSON line on standard output, or one line on standard error that says what is wrong."""
    training = read(arguments)
    # What the model prints goes to standard error.
    reply = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        found = train(training)
    except Exception as error:
        if os.environ.get("PLANNER_DEBUG"):
            raise
        print(one_line(error, 500), file=sys.stderr)
        return 2
    print(json.dumps(asdict(found)), file=reply, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
