"""Measuring: what one model costs on one device - loading, memory, run time, energy, training. Needs torch.

It runs the model's own code, and with it whatever a user's factory brought.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from statistics import median
from typing import Any

import torch

from calibrate.devices.device import Device, OutOfMemoryError, Peaks
from calibrate.devices.regime import CASTS, autocast, in_force, in_regime
from calibrate.devices.timer import StopRule, Timer, repeat, warm_up
from calibrate.io.points import Figures, Point, Settings, What
from calibrate.sweep.loads import FEW, Loads, cooler, load_peak_bytes, rounds, size_bytes
from calibrate.sweep.rates import rates, soak
from calibrate.zoo.built import Built, floats, mapped, tensors
from calibrate.zoo.zoo import build

DEFAULT = StopRule()
SCALINGS = 30
"""Steps until a loss scale of 65536, halved each time, is surely small enough."""
WARM_UP_RUNS = 3
"""Before a graph is captured: libraries choose algorithms and allocate."""
COMPILED_MAX = 256
"""Batch sizes, times inference and training, that are compiled of one model before torch compiles no more."""


def measure(
    built: Built, device: Device, point: Point, rule: StopRule = DEFAULT, timer: Timer | None = None
) -> Figures:
    """The figures of one point on an open device; the model is left where it was.

    Raises `OutOfMemoryError`, with all that was allocated given back; `ValueError`, in one line, for what cannot be
    measured: a precision the device lacks, a model whose output is not a number; else what the model's code raises.
    `timer` stands in for the device's own, to replay a recording. A soak lasts `rule.seconds`.
    """
    ways = {What.LOAD: load, What.MEMORY: memory, What.LATENCY: latency, What.TRAINING: training, What.SOAK: soaked}
    settings = point.settings
    if refusal := device.refuse(settings.precision):
        raise ValueError(f"{point.model}: precision: {refusal}")
    try:
        with in_regime(settings):
            regime = in_force(settings, device.kind)
            found = ways[point.what](built, device, point, rule, timer or device.timer())
            return _known(found, {"regime": regime})
    except Exception as error:
        if not device.is_out_of_memory(error):
            raise
        message = str(error).strip().split("\n", 1)[0]
    # Not in the clause above: the error's frames still hold the tensors there.
    device.empty_caches()
    raise OutOfMemoryError(f"{point.key}: out of memory: {message}")


# Kinds of points


def load(built: Built, device: Device, point: Point, rule: StopRule, timer: Timer) -> Figures:
    """Weights from pageable and pinned memory to memory already allocated, unloading, loading from disk, peak."""
    with placed(built, "cpu", point.settings) as module:
        weights = weights_of(module)
        loads = Loads(device, rule, timer, cooler(device))
        values: dict[str, float] = {"weight_bytes": size_bytes(weights)}
        values["load_peak_bytes"] = load_peak_bytes(weights, device)
        pinned = device.pin(weights)
        sources = {"pageable_s": weights}
        if pinned is not None:
            sources["pinned_s"] = pinned
        samples = {kind: loads.copies(source) for kind, source in sources.items()}
        samples["unload_s"], cold_s = loads.unloads(weights)
        details: dict[str, Any] = {"allocating_s": cold_s, "sizes": loads.by_size(sources), **loads.cool.details}
        del pinned, sources
        samples["disk_s"], details["disk"] = loads.from_disk(module)
    return Figures(values, samples, details)


def memory(built: Built, device: Device, point: Point, rule: StopRule, timer: Timer) -> Figures:
    """Most memory held by one batch, or by a training step once the optimizer has its state."""
    with on_device(built, device, point.settings) as model:
        return _training_memory(model, point) if point.optimizer else _inference_memory(model, point)


def latency(built: Built, device: Device, point: Point, rule: StopRule, timer: Timer) -> Figures:
    """Run time of one inference batch, alone and in a row, and its energy."""
    with on_device(built, device, point.settings) as model:
        run = model.runner(model.inputs(point.batch))
        _refuse_nan(run(), f"{point.key}: output")
        alone = repeat(timer, run, rule)
        seen = rates(run, device, timer, alone, weights=weights_of(model.module))
    return Figures(seen.values | _others(device), {"wall_s": list(alone.wall_s)} | seen.samples, seen.details)


def training(built: Built, device: Device, point: Point, rule: StopRule, timer: Timer) -> Figures:
    """Time of one training step unsplit, then of its parts with the device waited for after each."""
    with on_device(built, device, point.settings, training=True) as model:
        inputs, step = model.inputs(point.batch), MeasuredStep(model, point.optimizer)
        _refuse_nan(step.forward(inputs), f"{point.key}: loss")
        alone = repeat(timer, lambda: step.run(inputs), rule)
        seen = rates(lambda: step.run(inputs), device, timer, alone)
        samples = {"step_s": list(alone.wall_s)} | seen.samples | _parts(step, inputs, rule, timer)
        if device.kind == "cpu":
            samples["device_s"] = list(alone.device_s)  # of a timer that knows the processor's own
    return Figures(seen.values | _others(device), samples, seen.details)


def soaked(built: Built, device: Device, point: Point, rule: StopRule, timer: Timer) -> Figures:
    """An inference batch back to back for long enough to meet the limits of power and heat."""
    with on_device(built, device, point.settings) as model:
        run = model.runner(model.inputs(point.batch))
        run_s = median(taken.wall_s for taken in warm_up(timer, run, rule))
        return soak(run, device, run_s, rule.seconds)


# The model as it is run


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """A model on the device, as its settings want it."""

    built: Built
    module: Any
    """Compiled where the settings say so."""
    device: Device
    settings: Settings

    def inputs(self, batch: int) -> Any:
        return adapted(self.built.make_input(batch, self.device.label, self.settings), self.settings)

    def forward(self, inputs: Any) -> Any:
        with torch.inference_mode(), autocast(self.settings, self.device.kind):
            return self.built.forward(self.module, inputs)

    def loss(self, inputs: Any) -> Any:
        with autocast(self.settings, self.device.kind):
            return self.built.loss(self.module, inputs)

    def runner(self, inputs: Any) -> Callable[[], Any]:
        """Runs a batch over and over, on inputs that are there."""

        def run() -> Any:
            return self.forward(inputs)

        return self._captured(run) if self.settings.cuda_graph else run

    def _captured(self, run: Callable[[], Any]) -> Callable[[], Any]:
        """The run as a graph, replayed; its outputs lie where they lay when it was captured."""
        cuda: Any = torch.cuda
        own = cuda.Stream(self.device.label)
        own.wait_stream(cuda.current_stream(self.device.label))
        with cuda.stream(own):
            for _ in range(WARM_UP_RUNS):
                run()
        cuda.current_stream(self.device.label).wait_stream(own)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            outputs = run()

        def replay() -> Any:
            graph.replay()
            return outputs

        return replay


def prepared(name: str, input_shape: tuple[int, ...] | None, device: Device, settings: Settings) -> MeasuredModel:
    """A model as its settings want it, in host memory: whoever serves it brings its weights to the device."""
    built = build(name, input_shape)
    built.module.to(dtype=CASTS.get(settings.precision))
    if settings.channels_last:
        built.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return MeasuredModel(built, built.module, device, settings)


class MeasuredStep:
    """A training step in parts. With a learning rate of 0 the work is the same, and the weights stay as they are."""

    def __init__(self, model: MeasuredModel, optimizer: str, learning_rate: float = 0.0) -> None:
        parameters = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
        self.model = model
        self.optimizer: Any
        if optimizer == "sgd":
            self.optimizer = torch.optim.SGD(parameters, lr=learning_rate, momentum=0.9)
        else:
            self.optimizer = torch.optim.Adam(parameters, lr=learning_rate)
        # Gradients in fp16 need scaling, and its cost belongs to the step.
        scaled = model.settings.precision == "amp" and model.device.kind == "cuda"
        self.scaler: Any = torch.amp.GradScaler(model.device.kind, enabled=scaled)
        self._loss: Any = None

    def run(self, inputs: Any) -> None:
        self.forward(inputs)
        self.backward()
        self.update()

    def forth_and_back(self, inputs: Any) -> None:
        self.forward(inputs)
        self.backward()
        self.optimizer.zero_grad(set_to_none=True)

    def forward(self, inputs: Any) -> Any:
        self._loss = self.model.loss(inputs)
        return self._loss

    def backward(self) -> None:
        self.scaler.scale(self._loss).backward()
        self._loss = None

    def update(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def state(self) -> list[torch.Tensor]:
        return tensors([list(kept.values()) for kept in self.optimizer.state.values()])


@contextmanager
def placed(built: Built, place: str, settings: Settings, *, training: bool = False) -> Iterator[Any]:
    """The module at `place` in the settings' precision and layout; afterwards where and as it was, in eval mode."""
    module: Any = built.module
    home = next((str(tensor.device) for tensor in chain(module.parameters(), module.buffers())), "cpu")
    cast = CASTS.get(settings.precision)
    if cast and any(weight.is_floating_point() and weight.dtype != cast for weight in module.parameters()):
        module = copy.deepcopy(module).to(cast)  # a cast loses digits that the next precision wants back
    if settings.channels_last:
        module.to(memory_format=torch.channels_last)
    try:
        yield module.to(place).train(training)
    finally:
        module.zero_grad(set_to_none=True)
        if settings.channels_last:
            module.to(memory_format=torch.contiguous_format)
        module.to(home).eval()


@contextmanager
def on_device(built: Built, device: Device, settings: Settings, *, training: bool = False) -> Iterator[MeasuredModel]:
    """The model ready to run on the device."""
    device.empty_caches()
    with placed(built, device.label, settings, training=training) as module:
        yield MeasuredModel(built, _compiled(module) if settings.compile else module, device, settings)


@lru_cache(maxsize=1)
def _compiled(module: Any) -> Any:
    """Compiled once for each batch size, whatever is measured of it: memory, then time."""
    torch.compiler.reset()
    config: Any = torch._dynamo.config
    for limit in ("cache_size_limit", "accumulated_cache_size_limit"):  # past them torch silently compiles no more
        setattr(config, limit, COMPILED_MAX)
    return torch.compile(module, dynamic=False)


def adapted(inputs: Any, settings: Settings) -> Any:
    """Inputs in the layout and, where weights are cast, the precision of the settings."""
    cast = CASTS.get(settings.precision)

    def adapted(tensor: torch.Tensor) -> torch.Tensor:
        if cast and tensor.is_floating_point():
            tensor = tensor.to(cast)
        if settings.channels_last and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        return tensor

    return mapped(inputs, adapted)


# Memory


def _inference_memory(model: MeasuredModel, point: Point) -> Figures:
    weights_bytes = size_bytes(weights_of(model.module))

    def work() -> None:
        _refuse_nan(model.runner(model.inputs(point.batch))(), f"{point.key}: output")

    if model.settings.compile or model.settings.cudnn_benchmark:
        work()  # both try more, the first time, than running needs
    peaks = model.device.peaks(work, weights_bytes)
    return _of_memory({"weights_bytes": weights_bytes}, peaks)


def _training_memory(model: MeasuredModel, point: Point) -> Figures:
    """By kind: activations are the peak of forward and backward less the rest; on small batches the peak of a step,
    with the optimizer's own temporaries, can lie above the sum."""
    model.module.train()
    step = MeasuredStep(model, point.optimizer)
    weights, gradients = size_bytes(weights_of(model.module)), _first_step(step, point)
    state = size_bytes(step.state())
    both_ways = model.device.peaks(lambda: step.forth_and_back(model.inputs(point.batch)), weights + state)
    peaks = model.device.peaks(lambda: step.run(model.inputs(point.batch)), weights + state)
    kinds = {
        "weights_bytes": weights,
        "gradients_bytes": gradients,
        "optimizer_bytes": state,
        "activations_bytes": max(0, both_ways.allocated_bytes - weights - gradients - state),
    }
    return _of_memory(kinds, peaks)


def _first_step(step: MeasuredStep, point: Point) -> int:
    """Runs the step that gives the optimizer its state; bytes of the gradients."""
    inputs = step.model.inputs(point.batch)
    _refuse_nan(step.forward(inputs), f"{point.key}: loss")
    step.backward()
    gradients = [p.grad for p in step.model.module.parameters() if p.grad is not None]
    gradients_bytes = size_bytes(gradients)
    del gradients
    step.update()
    for _ in range(SCALINGS):
        if step.optimizer.state:
            break
        step.run(inputs)  # scaling found infinite gradients, skipped the step and halved the scale
    return gradients_bytes


def _of_memory(kinds: Mapping[str, float], peaks: Peaks) -> Figures:
    held: dict[str, Any] = {
        "allocated_bytes": peaks.allocated_bytes,
        "reserved_bytes": peaks.reserved_bytes,
        "device_bytes": peaks.device_bytes,
    }
    return Figures({**kinds, **held}, {}, {"device_bytes_by": peaks.method})


# Time


def _parts(step: MeasuredStep, inputs: Any, rule: StopRule, timer: Timer) -> dict[str, list[float]]:
    parts: dict[str, list[float]] = {"forward_s": [], "backward_s": [], "optimizer_s": []}
    runs = {"forward_s": lambda: step.forward(inputs), "backward_s": step.backward, "optimizer_s": step.update}
    for _ in rounds(max(rule.at_least, 2 * FEW), rule, timer):
        for part, run in runs.items():
            parts[part].append(timer.time(run).wall_s)
    return parts


def _others(device: Device) -> dict[str, Any]:
    return {"other_processes": device.nvml.other_processes()}


# Small things


def _known(found: Figures, more: Mapping[str, Any]) -> Figures:
    """Without what could not be measured, and with more details."""
    values = {name: value for name, value in found.values.items() if value is not None}
    samples = {name: list(taken) for name, taken in found.samples.items() if taken}
    return Figures(values, samples, {**found.details, **more})


def weights_of(module: Any) -> list[torch.Tensor]:
    """All that a model keeps between batches: parameters and buffers, shared ones once."""
    return [tensor.detach() for tensor in (*module.parameters(), *module.buffers())]


def _refuse_nan(outputs: Any, what: str) -> None:
    """`ValueError` where a number is none: such a run may have skipped work that real numbers need."""
    for tensor in floats(outputs):
        if count := int(tensor.isnan().sum()):
            raise ValueError(
                f"{what}: {count} of {tensor.numel()} values are not a number (NaN)."
                " Check the factory's weights, or choose another precision"
            )
