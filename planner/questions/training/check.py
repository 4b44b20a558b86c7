"""Prediction beside measurement: a few real steps and a short epoch of the scenario's model on this machine."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from calibrate.io.process import BUSY_SHARE, busy_share, running
from calibrate.sweep.request import device as known_device
from planner.io.load import ScenarioError
from planner.model.ranges import Range, ranged
from planner.questions.training.reading import LoadedTraining
from planner.questions.training.scenario import TrainingScenario
from planner.questions.training.speed import MEASURED_OPTIMIZER

SCHEMA = "planner.training-check/v1"
STEPS = 20
"""Steps of the short epoch, where no number of samples is given."""
BATCH_MAX = 64
"""Batch where the scenario's is larger and none is given: a check shall not take the night."""
SECONDS = 5.0
"""Time to measure steps by themselves."""
LIMIT_S = 1800.0
"""Longest time of a check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Predicted and measured times of a short training, and the whole training at that speed."""

    schema: str = SCHEMA
    model: str
    device: str
    batch: int
    steps: int
    predicted_step_s: float
    measured_step_s: float
    predicted_epoch_s: float
    measured_epoch_s: float
    error: float
    """Error of the epoch: predicted over measured, less one."""
    busy_predicted_epoch_s: float | None
    """The epoch in time of the processor, of which other processes take none; None on a GPU."""
    busy_measured_epoch_s: float | None
    busy_error: float | None
    threads: int
    """That a processor computes with."""
    load_share: float | None
    """Load of the cores in the minute before, over their number; None on a GPU."""
    workers: int
    """Workers of the loader; 0: the process that trains makes the batches itself."""
    load_s: float
    """Time between batches of the loader alone."""
    copy_s: float
    """Time to copy a batch to the GPU; 0 on a processor."""
    start_s: float
    """What an epoch takes beside batches and steps: the loader's workers start, memory is copied for them."""
    whole_s: Range
    """Time of the scenario's training on this device: between predicted and measured speed."""

    @property
    def is_disturbed(self) -> bool:
        """Whether others took cores that the threads of a step wait for."""
        return self.threads > 1 and (self.load_share or 0.0) > BUSY_SHARE


def check(
    loaded: LoadedTraining,
    device: str,
    batch: int | None = None,
    samples: int | None = None,
    budget_s: float = SECONDS,
    threads: int | None = None,
) -> Check:
    """Trains for real, in a process of its own. **Runs the model's code.**

    ScenarioError or InputError where that cannot be.
    """
    scenario = loaded.scenario
    train = scenario.train
    device = known_device(device)
    size = batch or min(BATCH_MAX, train.micro_batch or train.global_batch or BATCH_MAX)
    if wrong := [f"{loaded.path}: {key}: with --measure {text}" for key, text in not_runnable(scenario)]:
        raise ScenarioError(wrong)
    options = {
        "--device": device,
        "--batch": size,
        "--samples": samples or STEPS * size,
        "--optimizer": MEASURED_OPTIMIZER[train.optimizer],
        "--precision": train.precision,
        "--seconds": budget_s,
        "--threads": threads or None,
        **model_options(scenario),
    }
    load_share = busy_share() if device == "cpu" else None
    measured = run(loaded, options)
    busy_predicted_s, busy_epoch_s = measured["busy_predicted_s"], measured["busy_epoch_s"]
    return Check(
        model=measured["model"],
        device=measured["device"],
        batch=size,
        steps=measured["steps"],
        predicted_step_s=measured["step_s"],
        measured_step_s=measured["real_step_s"],
        predicted_epoch_s=measured["predicted_s"],
        measured_epoch_s=measured["epoch_s"],
        error=measured["predicted_s"] / measured["epoch_s"] - 1,
        busy_predicted_epoch_s=busy_predicted_s,
        busy_measured_epoch_s=busy_epoch_s,
        busy_error=busy_predicted_s / busy_epoch_s - 1 if busy_epoch_s else None,
        threads=measured["threads"],
        load_share=load_share,
        workers=measured["workers"],
        load_s=measured["load_s"],
        copy_s=measured["copy_s"],
        start_s=measured["start_s"],
        whole_s=whole_s(scenario, size, measured),
    )


def not_runnable(scenario: TrainingScenario) -> Iterator[tuple[str, str]]:
    """Keys of the scenario with which it cannot be run, and what to write."""
    model, train = scenario.model, scenario.train
    if model.transformer:
        yield "model.transformer", "a shape cannot be run. Name a model by `zoo` or `factory`."
    if model.channels:
        yield "model.channels", "models are run with all their channels. Leave it out."
    if train.optimizer not in MEASURED_OPTIMIZER:
        yield "train.optimizer", f"{train.optimizer} cannot be run. Write sgd, momentum or adam."


def model_options(scenario: TrainingScenario) -> dict[str, int | str | None]:
    """Options of the process that name the model's input and the loader."""
    model, loader = scenario.model, scenario.data.loader
    return {
        "--workers": loader.workers if loader else None,
        "--resolution": model.pixels,
        "--input": "x".join(map(str, model.input)) or None,
    }


def whole_s(scenario: TrainingScenario, batch: int, measured: Mapping[str, Any]) -> Range:
    """Time of the scenario's training: between predicted and measured speed."""
    data = scenario.data
    steps = (data.samples or 0) * data.used * (scenario.train.epochs or 1.0) / batch
    low_s, high_s = sorted(steps * measured[key] / measured["steps"] for key in ("predicted_s", "epoch_s"))
    return ranged(low_s, (low_s + high_s) / 2, high_s)


def run(loaded: LoadedTraining, options: Mapping[str, object]) -> dict[str, Any]:
    """The process's answer: the last line it wrote. Options without a value are left out."""
    model = loaded.scenario.model
    words = [model.zoo or model.factory or ""]
    for option, value in options.items():
        if value is not None:
            words += [option, str(value)]
    try:
        done = subprocess.run(
            [*running("calibrate.sweep.short_training"), *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        text = f"{loaded.path}: --measure took more than {LIMIT_S:.0f} s. Give less --samples."
        raise ScenarioError([text]) from None
    if done.returncode == 0 and done.stdout.strip():
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return answer
    lines = done.stderr.strip().splitlines() or [f"its process ended with {done.returncode}"]
    raise ScenarioError([f"{loaded.path}: --measure: {lines[-1]}"])
