"""A short training for real: a few steps are measured, an epoch is foretold from them, then run. Needs torch.

`python -m calibrate.short_training MODEL --batch N --samples N` writes one JSON line. It runs the model's own code.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from statistics import mean
from typing import TYPE_CHECKING, Any

from calibrate.points import Point, Settings, What
from calibrate.timer import Sample

if TYPE_CHECKING:
    from calibrate.device import Device
    from calibrate.zoo import Built

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
class Asked:
    """What is trained, and how."""

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
    """Of the loader; 0: the process that trains makes the batches itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What was foretold, and what came out."""

    model: str
    device: str
    batch: int
    steps: int
    step_s: float
    """Measured by itself, on data that is there already: the mean of what was measured around the epoch's parts."""
    workers: int
    load_s: float
    """To make one batch ready: without workers by the process that trains, so that it adds up; else the time between
    batches of the loader alone."""
    start_s: float
    """Until a loader with workers has its first batch; 0 without."""
    predicted_s: float
    """Of the epoch: steps x (step_s + load_s), or with workers start_s + steps x the longer of the two."""
    epoch_s: float
    """Measured."""
    real_step_s: float
    """Mean of the epoch's own steps, loading left out."""
    busy_predicted_s: float | None
    """The same two in time of the processor, which other processes take none of; None on a GPU."""
    busy_epoch_s: float | None
    loss_first: float
    loss_last: float


class BusyTimer:
    """Wall clock, and beside it the time that the processor worked for this process."""

    def time(self, run: Callable[[], object]) -> Sample:
        """Runs it once."""
        busy_s = time.process_time()
        start_s = time.perf_counter()
        run()
        return Sample(time.perf_counter() - start_s, time.process_time() - busy_s)

    def now_s(self) -> float:
        """Seconds since some moment."""
        return time.perf_counter()


def train(asked: Asked) -> Trained:
    """Measure steps, train an epoch in parts with steps measured between, and put both together."""
    import torch

    from calibrate.device import find_device
    from calibrate.zoo import build

    if asked.threads:
        torch.set_num_threads(asked.threads)
    torch.manual_seed(SEED)
    device = find_device(asked.device)
    if refusal := device.refuse(asked.precision):
        raise ValueError(f"{asked.model}: precision: {refusal}")
    device.open()
    built = build(asked.model, asked.input_shape)
    settings = Settings(precision=asked.precision, resolution=asked.resolution)
    samples = pool(built, settings, min(asked.samples, POOL))
    steps = max(1, asked.samples // asked.batch)
    ready = loading(samples, asked, built)
    measured, epoch = [], []
    run = trainer(built, device, asked, settings)
    for count in [steps] if asked.workers else split(steps):
        measured.append(steps_s(built, device, asked, settings))
        epoch.append(run(samples, count))
    if asked.workers:
        measured.append(steps_s(built, device, asked, settings))
    return report(asked, device, ready, measured, epoch)


def report(
    asked: Asked, device: "Device", ready: "Loading", measured: Sequence[tuple[float, float]], epoch: Sequence["Part"]
) -> Trained:
    """What was measured before and between, beside the epoch in its parts."""
    real = [t for part in epoch for t in part.steps_s]
    # Means, not medians: an epoch is a sum, and disturbances are in it.
    step_s, busy_s = (mean(found) for found in zip(*measured, strict=True))
    on_cpu = device.kind == "cpu"
    own_load_s = 0.0 if asked.workers else ready.batch_s
    return Trained(
        model=asked.model,
        device=device.name,
        batch=asked.batch,
        steps=len(real),
        step_s=step_s,
        workers=asked.workers,
        load_s=ready.batch_s,
        start_s=ready.start_s,
        predicted_s=ready.start_s + len(real) * max(step_s + own_load_s, ready.batch_s),
        epoch_s=sum(part.took_s for part in epoch),
        real_step_s=mean(real),
        busy_predicted_s=len(real) * (busy_s + own_load_s) if on_cpu else None,
        busy_epoch_s=sum(part.busy_s for part in epoch) if on_cpu else None,
        loss_first=epoch[0].losses[0],
        loss_last=epoch[-1].losses[-1],
    )


def split(steps: int) -> list[int]:
    """Parts of nearly one size: 10 steps are 3, 3, 2 and 2."""
    parts = min(SPLIT, steps)
    return [steps // parts + (i < steps % parts) for i in range(parts)]


# Data


def pool(built: "Built", settings: Settings, count: int) -> list[Any]:
    """Single samples, on the host."""
    return list(built.make_input(count, "cpu", settings))


@dataclass(frozen=True, slots=True)
class Loading:
    """What it takes to have batches ready."""

    batch_s: float
    start_s: float


def batches(samples: Sequence[Any], count: int, asked: Asked, *, as_list: bool) -> Iterator[Any]:
    """So many shuffled batches, by PyTorch's own loader."""
    from torch.utils.data import DataLoader, RandomSampler

    sampler = RandomSampler(samples, replacement=True, num_samples=count * asked.batch)
    loader: Any = DataLoader(
        samples,  # type: ignore[arg-type]
        asked.batch,
        sampler=sampler,
        num_workers=asked.workers,
        collate_fn=list if as_list else None,
    )
    return iter(loader)


def loading(samples: Sequence[Any], asked: Asked, built: "Built") -> Loading:
    """The loader alone, while nothing is trained."""
    start_s = time.perf_counter()
    more = WARM_UP + 2 * asked.workers  # each worker has two ready
    source = batches(samples, more + FETCHES, asked, as_list=is_list(built))
    next(source)
    started_s = time.perf_counter() - start_s
    for _ in range(more - 1):
        next(source)
    begun_s = time.perf_counter()
    for _ in range(FETCHES):
        next(source)
    return Loading((time.perf_counter() - begun_s) / FETCHES, started_s if asked.workers else 0.0)


def is_list(built: "Built") -> bool:
    """Whether a batch is a list of pictures, for they differ in size."""
    from calibrate.zoo import Task

    return built.task is Task.DETECTION


# Steps


def steps_s(built: "Built", device: "Device", asked: Asked, settings: Settings) -> tuple[float, float]:
    """A training step as calibration measures it: by the clock, and of the device."""
    from calibrate.measure import measure
    from calibrate.timer import Rule

    rule = Rule(seconds=asked.seconds / SPLIT, at_least=3)
    point = Point(
        what=What.TRAINING, model=asked.model, batch=asked.batch, optimizer=asked.optimizer, settings=settings
    )
    timer = BusyTimer() if device.kind == "cpu" else None
    samples = measure(built, device, point, rule, timer).samples
    return mean(samples["step_s"]), mean(samples["device_s"])


@dataclass(frozen=True, slots=True)
class Part:
    """What a part of an epoch took."""

    took_s: float
    busy_s: float
    steps_s: list[float]
    losses: list[float]


def trainer(built: "Built", device: "Device", asked: Asked, settings: Settings) -> Callable[[Sequence[Any], int], Part]:
    """What trains the model for so many steps and goes on where it stopped."""
    import torch

    from calibrate.measure import AUTOCAST

    module = built.module
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimizer: Any = (
        torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9)
        if asked.optimizer == "sgd"
        else torch.optim.Adam(parameters, lr=LEARNING_RATE)
    )
    scaler: Any = torch.amp.GradScaler(device.kind, enabled=settings.precision == "amp" and device.kind == "cuda")

    def cast() -> AbstractContextManager[Any]:
        if settings.precision != "amp":
            return nullcontext()
        return torch.autocast(device.kind, dtype=AUTOCAST[device.kind])

    def run(samples: Sequence[Any], count: int) -> Part:
        module.to(device.label).train()
        steps, losses = [], []
        device.synchronise()
        start_s, busy_s = time.perf_counter(), time.process_time()
        for batch in batches(samples, count, asked, as_list=is_list(built)):
            inputs = moved(batch, device.label)
            step_start_s = time.perf_counter()
            with cast():
                loss = built.loss(module, inputs)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            device.synchronise()
            steps.append(time.perf_counter() - step_start_s)
            losses.append(loss.item())
        return Part(time.perf_counter() - start_s, time.process_time() - busy_s, steps, losses)

    return run


def moved(inputs: Any, label: str) -> Any:
    """On the device."""
    return [sample.to(label) for sample in inputs] if isinstance(inputs, list) else inputs.to(label)


# Command line


def read(arguments: Sequence[str] | None = None) -> Asked:
    """What the options ask for."""
    options = argparse.ArgumentParser(prog="python -m calibrate.short_training", allow_abbrev=False)
    add = options.add_argument
    add("model")
    add("--device", default="cpu")
    add("--batch", type=int, required=True)
    add("--samples", type=int, required=True)
    add("--optimizer", default="sgd", choices=("sgd", "adam"))
    add("--precision", default="fp32", choices=("fp32", "amp"))
    add("--resolution", type=int)
    add("--input", default="")
    add("--seconds", type=float, default=5.0)
    add("--threads", type=int)
    add("--workers", type=int, default=0)
    given = options.parse_args(arguments)
    shape = tuple(map(int, given.input.split("x"))) if given.input else None
    return Asked(
        model=given.model,
        device=given.device,
        batch=given.batch,
        samples=given.samples,
        optimizer=given.optimizer,
        precision=given.precision,
        resolution=given.resolution,
        input_shape=shape,
        seconds=given.seconds,
        threads=given.threads,
        workers=given.workers,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; one JSON line on standard output, or one line on standard error that says what is wrong."""
    asked = read(arguments)
    # What the model prints goes to standard error.
    reply = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        found = train(asked)
    except Exception as error:
        if os.environ.get("PLANNER_DEBUG"):
            raise
        print(" ".join(str(error).split())[:500], file=sys.stderr)
        return 2
    print(json.dumps(asdict(found)), file=reply, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
