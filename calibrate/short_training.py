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
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from calibrate.points import Point, Settings, What
from calibrate.timer import Sample

if TYPE_CHECKING:
    from calibrate.device import Device
    from calibrate.zoo import Built

POOL = 512
"""Different samples at most; an epoch draws from them."""
LEARNING_RATE = 1e-3
SPLIT = 4
"""Parts of the epoch; between them steps are measured again, so that both see the machine in the same state."""
FETCHES = 10
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What was foretold, and what came out."""

    model: str
    device: str
    batch: int
    steps: int
    step_s: float
    """Measured by itself, on data that is there already: the mean of what was measured around the epoch's parts."""
    load_s: float
    """To make one batch ready; the same process trains, so that it adds up."""
    predicted_s: float
    """Of the epoch: steps x (step_s + load_s)."""
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
    load_s = fetching_s(samples, asked.batch)
    steps = max(1, asked.samples // asked.batch)
    parts = split(steps)
    measured = [steps_s(built, device, asked, settings)]
    epochs = []
    run = trainer(built, device, asked, settings)
    for count in parts:
        epochs.append(run(samples, count))
        measured.append(steps_s(built, device, asked, settings))
    real = [t for part in epochs for t in part.steps_s]
    step_s, busy_s = (mean(found) for found in zip(*measured, strict=True))  # an epoch is a sum: disturbances are in it
    on_cpu = device.kind == "cpu"
    return Trained(
        model=asked.model,
        device=device.name,
        batch=asked.batch,
        steps=steps,
        step_s=step_s,
        load_s=load_s,
        predicted_s=steps * (step_s + load_s),
        epoch_s=sum(part.took_s for part in epochs),
        real_step_s=mean(real),
        busy_predicted_s=steps * (busy_s + load_s) if on_cpu else None,
        busy_epoch_s=sum(part.busy_s for part in epochs) if on_cpu else None,
        loss_first=epochs[0].losses[0],
        loss_last=epochs[-1].losses[-1],
    )


def split(steps: int) -> list[int]:
    """Parts of nearly one size: 10 steps are 3, 3, 2 and 2."""
    parts = min(SPLIT, steps)
    return [steps // parts + (i < steps % parts) for i in range(parts)]


# Data


def pool(built: "Built", settings: Settings, count: int) -> list[Any]:
    """Single samples, on the host."""
    return list(built.make_input(count, "cpu", settings))


def fetch(samples: Sequence[Any], batch: int, order: Sequence[int], *, as_list: bool) -> Any:
    """A batch of the samples that `order` names."""
    import torch

    chosen = [samples[i % len(samples)] for i in order[:batch]]
    return chosen if as_list else torch.stack(chosen)


def batches(samples: Sequence[Any], batch: int, *, as_list: bool) -> Iterator[Any]:
    """Shuffled batches without end."""
    import torch

    while True:
        order = torch.randint(len(samples), (batch,)).tolist()
        yield fetch(samples, batch, order, as_list=as_list)


def fetching_s(samples: Sequence[Any], batch: int) -> float:
    """To make one batch ready."""
    source = batches(samples, batch, as_list=False)
    next(source)
    taken = []
    for _ in range(FETCHES):
        start_s = time.perf_counter()
        next(source)
        taken.append(time.perf_counter() - start_s)
    return median(taken)


# Steps


def steps_s(built: "Built", device: "Device", asked: Asked, settings: Settings) -> tuple[float, float]:
    """A training step as calibration measures it: by the clock, and of the device."""
    from calibrate.measure import measure
    from calibrate.timer import Rule

    rule = Rule(seconds=asked.seconds / (SPLIT + 1), at_least=3)
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
    from calibrate.zoo import Task

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
        source = batches(samples, asked.batch, as_list=built.task is Task.DETECTION)
        steps, losses = [], []
        device.synchronise()
        start_s, busy_s = time.perf_counter(), time.process_time()
        for _ in range(count):
            inputs = moved(next(source), device.label)
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
