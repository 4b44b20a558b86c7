"""Prediction beside measurement: a few real steps and a short epoch of the scenario's model on this machine."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

from calibrate.request import device as known_device
from planner.layout import Column, Format, Screen, counted, seconds, table
from planner.load import ScenarioError
from planner.store import to_json
from planner.training.closed_forms import Range
from planner.training.report import between
from planner.training.scenario import LoadedTraining
from planner.training.speed import MEASURED_OPTIMIZER

SCHEMA = "planner.training-check/v1"
STEPS = 20
"""Of the short epoch, where nobody says how many samples."""
SECONDS = 5.0
"""For measuring steps by themselves."""
LIMIT_S = 1800.0
FEW = 64
"""Batch where the scenario's is larger and nobody chose: a check shall not take the night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was foretold, what was measured, and the whole training at that speed."""

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
    """Of the epoch: predicted over measured, less one."""
    busy_error: float | None
    """The same in time of the processor, which other processes take none of; None on a GPU."""
    workers: int
    """Of the loader; 0: the process that trains makes the batches itself."""
    load_s: float
    """Between batches of the loader alone."""
    start_s: float
    """Until its workers have the first batch."""
    whole_s: Range
    """The scenario's training on this device: between what was foretold and what was measured."""


def check(
    loaded: LoadedTraining,
    device: str,
    batch: int | None = None,
    samples: int | None = None,
    budget_s: float = SECONDS,
    threads: int | None = None,
) -> Check:
    """Trains for real, in a process of its own. **Runs the model's code.** ScenarioError or RequestError where that
    cannot be."""
    s = loaded.scenario
    size = batch or min(FEW, s.train.micro_batch or s.train.global_batch or FEW)
    words = command(loaded, known_device(device), size, samples or STEPS * size, budget_s, threads)
    found = run(loaded, words)
    whole_steps = (s.data.samples or 0) * s.data.used * (s.train.epochs or 1.0) / size
    ends = sorted(whole_steps * found[key] / found["steps"] for key in ("predicted_s", "epoch_s"))
    return Check(
        model=found["model"],
        device=found["device"],
        batch=size,
        steps=found["steps"],
        predicted_step_s=found["step_s"],
        measured_step_s=found["real_step_s"],
        predicted_epoch_s=found["predicted_s"],
        measured_epoch_s=found["epoch_s"],
        error=found["predicted_s"] / found["epoch_s"] - 1,
        busy_error=found["busy_predicted_s"] / found["busy_epoch_s"] - 1 if found["busy_epoch_s"] else None,
        workers=found["workers"],
        load_s=found["load_s"],
        start_s=found["start_s"],
        whole_s=Range(low=ends[0], mid=sum(ends) / 2, high=ends[1]),
    )


def command(
    loaded: LoadedTraining, device: str, batch: int, samples: int, budget_s: float, threads: int | None
) -> list[str]:
    """What is run."""
    s, m = loaded.scenario, loaded.scenario.model
    optimizer = MEASURED_OPTIMIZER.get(s.train.optimizer)
    refused = {
        "model.transformer": "a shape cannot be run. Name a model by `zoo` or `factory`." if m.transformer else "",
        "model.channels": "models are run with all their channels. Leave it out." if m.channels else "",
        "train.optimizer": "" if optimizer else f"{s.train.optimizer} cannot be run. Write sgd, momentum or adam.",
        "train.precision": f"{s.train.precision} cannot be run. Write fp32 or amp."
        if s.train.precision not in ("fp32", "amp")
        else "",
    }
    if wrong := [f"{loaded.path}: {key}: with --measure {text}" for key, text in refused.items() if text]:
        raise ScenarioError(wrong)
    words = [m.zoo or m.factory or "", "--device", device, "--batch", str(batch), "--samples", str(samples)]
    words += ["--optimizer", optimizer or "", "--precision", s.train.precision, "--seconds", str(budget_s)]
    words += ["--workers", str(s.data.loader.workers)] if s.data.loader else []
    words += ["--resolution", str(m.pixels)] if m.pixels else []
    words += ["--input", "x".join(map(str, m.input))] if m.input else []
    return words + (["--threads", str(threads)] if threads else [])


def run(loaded: LoadedTraining, words: list[str]) -> dict[str, Any]:
    """The process's answer: the last line it wrote."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "calibrate.short_training", *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ScenarioError(
            [f"{loaded.path}: --measure took more than {LIMIT_S:.0f} s. Give less --samples."]
        ) from None
    if done.returncode == 0 and done.stdout.strip():
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return answer
    said = (done.stderr.strip().splitlines() or [f"its process ended with {done.returncode}"])[-1]
    raise ScenarioError([f"{loaded.path}: --measure: {said}"])


def render(found: Check, form: Format, screen: Screen) -> str:
    """For people, or as JSON."""
    if form is Format.JSON:
        return to_json(asdict(found))
    predicted, measured = (found.predicted_step_s, found.predicted_epoch_s), (
        found.measured_step_s,
        found.measured_epoch_s,
    )  # fmt: skip
    errors = [f"{100 * (p / m - 1):+.1f} %" for p, m in zip(predicted, measured, strict=True)]
    columns = [
        Column("", ["one step", f"{found.steps} steps, data included"]),
        Column("foretold", [seconds(t) for t in predicted], True),
        Column("measured", [seconds(t) for t in measured], True),
        Column("error", errors, True),
    ]
    lines = [screen.bold(f"{found.model} trained on {found.device}, batches of {found.batch}:")]
    lines += table(columns, screen)
    if found.busy_error is not None:
        lines.append(f"In time of the processor, which other processes take none of: {100 * found.busy_error:+.1f} %.")
    if found.workers:
        line = (
            f"{counted(found.workers, 'worker')} made a batch each {seconds(found.load_s)} by themselves, and began in"
        )
        lines.append(f"{line} {seconds(found.start_s)}. They put samples together that are in memory: no decoding.")
    if found.whole_s.mid:
        lines.append(f"The whole training on this device: {between(found.whole_s)}.")
    return "\n".join(lines) + "\n"
