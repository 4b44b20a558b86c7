"""Worker: the process that holds one model and measures it. Points come in and outcomes go out as JSON lines.

It runs code of the user's: whatever that prints goes to standard error, whatever it raises costs one point.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from calibrate.devices import provenance
from calibrate.devices.device import Cpu, Device, find_device, process_bytes
from calibrate.io.files import one_line
from calibrate.io.points import NO_WEIGHTS, Figures, Point, PointOutcome, Settings, Status, What
from calibrate.io.process import end_with
from calibrate.sweep.supervisor import Job

if TYPE_CHECKING:
    from calibrate.zoo.built import Built

Measure = Callable[[Point], Figures]
IGNORED = (
    "{}: what its make_input gives is as large for a batch of {} as for one sample, and so is what the model makes of "
    "it. Let its first size be the batch, or measure --batches 1 alone"
)
MEMORY_SHARE = 0.9
"""Share of the memory free at the start that a model on the CPU may take: the rest of the machine must live on."""


class Pipe:
    """The way to the process that asked."""

    def __init__(self) -> None:
        """Take standard input and output for itself, so that user code can neither read nor write them."""
        self.points: TextIO = os.fdopen(os.dup(0), "r", encoding="utf-8")
        self.replies: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        self.owner = os.getpid()

    def send(self, event: str, value: object) -> None:
        """One line. ValueError where it holds what JSON cannot: nan, or an infinite number."""
        line = json.dumps({event: value}, allow_nan=False)
        if os.getpid() != self.owner:
            os._exit(0)  # A copy that user code forked and let go on: one process answers.
        self.replies.write(line + "\n")
        self.replies.flush()


def main() -> int:
    """Measure what comes in until nothing more comes."""
    device_name, parent = sys.argv[1], int(sys.argv[2])
    end_with(parent)
    pipe = Pipe()
    try:
        device = find_device(device_name)
        import calibrate.sweep.measure  # noqa: F401 # takes seconds, which are not the model's

        pipe.send("ready", provenance.read(device))
        job = pipe.points.readline()
        measure = prepare(device, Job.from_json(json.loads(job))) if job else None
    except (Exception, SystemExit) as error:
        pipe.send("refused", in_one_line(error))
        return 0
    if measure is None:
        return 0  # The sweep has ended.
    pipe.send("built", {})
    for line in pipe.points:
        outcome = measured(device, Point.from_json(json.loads(line)), measure)
        pipe.send("outcome", outcome.to_json())
    return 0


def prepare(device: Device, job: Job) -> Measure:
    """A function that measures a point: on a model that is built and has run once, or on the device alone."""
    if not job.model:
        from calibrate.sweep import probes

        return lambda point: probes.run(point.probe, device.label, job.seconds_per_point)
    from calibrate.devices.regime import CASTS
    from calibrate.devices.timer import StopRule
    from calibrate.layers.modules import trace
    from calibrate.sweep.measure import measure
    from calibrate.zoo.sources import ZooError, is_sourced
    from calibrate.zoo.zoo import build, factory_of

    device.open(job.memory_bytes or default_limit_bytes(device))
    if ":" in job.model and not is_sourced(job.model):
        factory_of(job.model)  # what it imports is no part of the model
    before = held_bytes(device)
    built = build(job.model, job.input_shape, device.label)
    after = held_bytes(device)
    refuse_unfit(built, job.settings, device)

    following: dict[int, bool] = {}
    fed = {"input_shape": list(job.input_shape)} if job.input_shape else {}

    def one(point: Point) -> Figures:
        if point.what is What.LAYERS:
            values, details = trace(built, job.settings)
            return Figures(values, {}, details | fed)
        # This process measures nothing else: the model stays as it is to be run.
        built.module.to(device=device.label, dtype=CASTS.get(job.settings.precision))
        if point.batch not in following:
            following[point.batch] = follows_batch(built, job.settings, device, point.batch)
        if not following[point.batch]:
            raise ZooError(IGNORED.format(built.name, point.batch))
        rule = StopRule(seconds=job.soak_s if point.what is What.SOAK else job.seconds_per_point)
        found = measure(built, device, point, rule)
        return found._replace(details=found.details | fed)

    return of_opaque(one, before, after) if built.is_opaque else one


def held_bytes(device: Device) -> int:
    """Bytes that this process holds on the device, or on the CPU altogether."""
    return process_bytes("VmRSS") or 0 if isinstance(device, Cpu) else device.held()[0]


def of_opaque(measure: Measure, before: int, after: int) -> Measure:
    """Measures what can be called and nothing more: it has no layers and is not loaded.

    Its weights are what the process grew by as it was made, its workspace what it grows by as it runs.
    """
    weights = max(1, after - before)

    def one(point: Point) -> Figures:
        if point.what in (What.LAYERS, What.LOAD):
            return Figures({}, {}, {"left_out": "it can be called and nothing more"})
        if point.optimizer:
            raise ValueError("what can be called and nothing more is not trained. Leave training out")
        values, samples, details = measure(point)
        if point.what is What.MEMORY:
            grown = max(values["allocated_bytes"], values.get("device_bytes", 0) - after)
            values = {**values, "weights_bytes": weights, "allocated_bytes": weights + grown}
            values.pop("reserved_bytes", None)
        return Figures(values, samples, details)

    return one


def refuse_unfit(built: "Built", settings: Settings, device: Device) -> None:
    """Run one sample as the model is to be run: one that cannot run at all need not be tried at every batch size."""
    from calibrate.devices.regime import in_regime
    from calibrate.sweep.measure import on_device, weights_of
    from calibrate.zoo.built import floats
    from calibrate.zoo.sources import ZooError

    eager = replace(settings, compile=False, cuda_graph=False)
    try:
        with in_regime(eager), on_device(built, device, eager) as model:
            demand_known_weights(built.name, model.module, settings)
            outputs = floats(model.forward(model.inputs(1)))
            has_weights = built.is_opaque or any(weight.numel() for weight in weights_of(model.module))
    except ZooError:
        raise
    except Exception as error:
        sample = built.sample
        if device.is_out_of_memory(error):
            wrong, remedy = (
                f"no memory for one sample of {sample}",
                "Allow more with --memory, or make the model smaller",
            )
        else:
            wrong, remedy = f"does not run on one sample of {sample}", "Correct the model, or --input"
        raise ZooError(f"{built.name}: {wrong}: {in_one_line(error)}. {remedy}") from error
    if any(output.isnan().any() for output in outputs):
        raise ValueError(f"{built.name}: its output is not a number (NaN). Correct the model or its weights")
    if not has_weights:
        raise ZooError(f"{built.name}: {NO_WEIGHTS}")


def demand_known_weights(name: str, module: Any, settings: Settings) -> None:
    """ZooError where most weights are kept in other numbers than the precision says, by which plans know them."""
    from calibrate.devices.regime import CASTS, LIKE_FP32, kept_in
    from calibrate.zoo.sources import ZooError

    kept = kept_in(module)
    cast = CASTS.get(settings.precision)
    if kept is None or kept in ((cast,) if cast else LIKE_FP32):
        return
    own, wanted = (str(kind).removeprefix("torch.") for kind in (kept, cast or LIKE_FP32[0]))
    wrong = f"{name}: its weights are {own}, and the precision {settings.precision} keeps them in {wanted}"
    if not kept.is_floating_point:
        tool = "Time it with a tool of your own, and take that in: planner profiles import"
        raise ZooError(f"{wrong}. {tool}")
    same = next((precision for precision, dtype in CASTS.items() if dtype is kept), "")
    remedy = f"Write --precision {same}, or let" if same else "Let"
    raise ZooError(f"{wrong}. {remedy} the factory return it in float32: model.float()")


def follows_batch(built: "Built", settings: Settings, device: Device, batch: int) -> bool:
    """Whether the input that a factory makes follows the batch, or else what comes out; a failure is the point's."""
    from calibrate.devices.regime import in_regime
    from calibrate.sweep.measure import on_device
    from calibrate.zoo.batches import follows

    if batch <= 1 or not built.hooks.make_input:
        return True
    eager = replace(settings, compile=False, cuda_graph=False)
    with suppress(Exception), in_regime(eager), on_device(built, device, eager) as model:
        if follows(model.inputs(1), model.inputs(batch), batch):
            return True
        alone = model.forward(model.inputs(1))
        return follows(alone, model.forward(model.inputs(batch)), batch)
    return True


def measured(device: Device, point: Point, measure: Measure) -> PointOutcome:
    """The outcome of a point, or in one line why it has no figures."""
    from calibrate.devices.device import OutOfMemoryError

    started_s = time.monotonic()
    try:
        values, samples, details = measure(point)
    except (Exception, SystemExit) as error:
        ended = isinstance(error, OutOfMemoryError) or device.is_out_of_memory(error)
        status = Status.OUT_OF_MEMORY if ended else Status.FAILED
        return PointOutcome(point=point, status=status, message=in_one_line(error), took_s=time.monotonic() - started_s)
    outcome = PointOutcome(
        point=point,
        status=Status.OK,
        values=values,
        samples=samples,
        details=details,
        took_s=time.monotonic() - started_s,
    )
    try:
        json.dumps(outcome.to_json(), allow_nan=False)
    except (TypeError, ValueError) as error:
        return PointOutcome(point=point, status=Status.FAILED, message=f"its figures: {in_one_line(error)}")
    return outcome


def default_limit_bytes(device: Device) -> int | None:
    """On the CPU most of what is free: beyond it the system would end whatever process it likes."""
    if not isinstance(device, Cpu):
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(MEMORY_SHARE * int(found[1]) * 1024) if found else None


def in_one_line(error: BaseException) -> str:
    """The text of an error, without line breaks: our own as they are, others with their kind."""
    text = one_line(error, 400).rstrip(".")
    return text if type(error).__module__.startswith("calibrate.") else f"{type(error).__name__}: {text}".rstrip(": ")


if __name__ == "__main__":
    sys.exit(main())
