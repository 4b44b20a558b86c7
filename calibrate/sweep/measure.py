"""Measuring: what one model costs on one device - loading, memory, run time, energy, training. Needs torch.

It runs the model's own code, and with it whatever a user's factory brought.
"""

import copy
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from calibrate.devices.device import Cpu, Device, OutOfMemoryError
from calibrate.devices.nvml import counter_energy_j, mean_power_w
from calibrate.devices.timer import Repeats, StopRule, Timer, sample, warm_up
from calibrate.io.points import Point, Settings, What
from calibrate.zoo.zoo import Built, floats, tensors

DEFAULT = StopRule()
CASTS = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Precisions in which the weights themselves are kept."""
AUTOCAST = {"cuda": torch.float16, "cpu": torch.bfloat16}
"""Precision of `amp` by kind of device: on a CPU fp16 is emulated."""
PREFIXES = (0.125, 0.25, 0.5, 1.0)
"""Shares of a model's tensors that are loaded, to tell the time per tensor from the time per byte."""
FEW = 5
"""Repeats of what is one of many figures."""
COOLING = 2
"""Times the largest cache: so much is touched to empty it."""
USUAL_CACHE_BYTES = 32 << 20
SCALINGS = 30
"""Steps until a loss scale of 65536, halved each time, is surely small enough."""
ENERGY_S = 1.0
"""How long energy is counted: the counter moves every 20 to 100 ms."""
READING_S = 0.02
"""Between two readings of energy; each leaves the device idle for a moment."""


class Figures(NamedTuple):
    """The figures that an `Outcome` holds of one point."""

    values: dict[str, float]
    samples: dict[str, list[float]]
    details: dict[str, Any]


def measure(
    built: Built, device: Device, point: Point, rule: StopRule = DEFAULT, timer: Timer | None = None
) -> Figures:
    """The figures of one point on an open device, its model built on the CPU, where it is left.

    Raises `OutOfMemoryError`, with all that was allocated given back; `ValueError`, in one line, for what cannot be
    measured: a precision the device lacks, a model whose output is not a number; else what the model's code raises.
    `timer` stands in for the device's own, to replay a recording.
    """
    ways = {What.LOAD: load, What.MEMORY: memory, What.LATENCY: latency, What.TRAINING: training}
    if refusal := device.refuse(point.settings.precision):
        raise ValueError(f"{point.model}: precision: {refusal}")
    try:
        with switches(point.settings):
            return ways[point.what](built, device, point, rule, timer or device.timer())
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
    with _on_host(built, point.settings) as module:
        weights = _weights(module)
        loads = Loads(device, rule, timer, _cooler(device))
        values: dict[str, float | None] = {"weight_bytes": _bytes(weights), "tensors": len(weights)}
        eager = os.environ.get("CUDA_MODULE_LOADING", "").lower() == "eager"
        values["context_eager_bytes" if eager else "context_lazy_bytes"] = device.context_bytes
        values |= _sizes_on_device(weights, device)
        pinned = device.pin(weights)
        sources = {"pageable_s": weights}
        if pinned is not None:
            sources["pinned_s"] = pinned
        samples = {kind: loads.copies(source) for kind, source in sources.items()}
        samples["unload_s"], cold_s = loads.unloads(weights)
        details: dict[str, Any] = {"allocating_s": cold_s, "sizes": loads.by_size(sources), **loads.cool.details}
        del pinned, sources
        samples["disk_s"], details["disk"] = loads.from_disk(module)
    return _figures(values, samples, details | _host(device))


def memory(built: Built, device: Device, point: Point, rule: StopRule, timer: Timer) -> Figures:
    """Most memory held by one batch, or by a training step once the optimizer has its state."""
    with _on_device(built, device, point.settings) as model:
        return _training_memory(model, point) if point.optimizer else _inference_memory(model, point)


def latency(built: Built, device: Device, point: Point, rule: StopRule, timer: Timer) -> Figures:
    """Run time of one inference batch, and its energy."""
    with _on_device(built, device, point.settings) as model:
        inputs = model.inputs(point.batch)
        outputs = model.forward(inputs)
        _refuse_nan(outputs, f"{point.key}: output")
        values: dict[str, float | None] = {"output_bytes": _bytes(tensors(outputs))}
        del outputs
        repeats, seen = _timed(lambda: model.forward(inputs), device, rule, timer)
        details = _how(repeats, device) | seen.details
        samples = {"wall_s": list(repeats.wall_s), "device_s": list(repeats.device_s)}
    return _figures(values | seen.values, samples, details)


def training(built: Built, device: Device, point: Point, rule: StopRule, timer: Timer) -> Figures:
    """Time of one training step unsplit, then of its parts with the device waited for after each."""
    with _on_device(built, device, point.settings, training=True) as model:
        inputs, step = model.inputs(point.batch), MeasuredStep(model, point.optimizer)
        _refuse_nan(step.forward(inputs), f"{point.key}: loss")
        repeats, seen = _timed(lambda: step.run(inputs), device, rule, timer)
        samples = {"step_s": list(repeats.wall_s), "device_s": list(repeats.device_s)}
        samples |= _parts(step, inputs, rule, timer)
        details = _how(repeats, device) | seen.details | step.details
    return _figures(seen.values, samples, details)


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
        return _adapted(self.built.make_input(batch, self.device.label, self.settings), self.settings)

    def forward(self, inputs: Any) -> Any:
        with torch.inference_mode(), self.autocast():
            return self.built.forward(self.module, inputs)

    def loss(self, inputs: Any) -> Any:
        with self.autocast():
            return self.built.loss(self.module, inputs)

    def autocast(self) -> AbstractContextManager[Any]:
        if self.settings.precision != "amp":
            return nullcontext()
        return torch.autocast(self.device.kind, dtype=AUTOCAST[self.device.kind])


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
        self.details = {"optimizer": optimizer, "learning_rate": learning_rate, "loss_scaling": scaled}
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
def switches(settings: Settings) -> Iterator[None]:
    """TF32 and cuDNN's choice of algorithm as set, and as before afterwards.

    The older names of the TF32 switches are set on purpose: they keep the newer `fp32_precision` in step, but not the
    other way round, and torch.compile reads the older and raises where they differ (torch 2.9 to 2.13). What a model
    set by the newer names is put aside first, for the older ones cannot be read beside it.
    """
    backends: Any = torch.backends
    matmul, cudnn = backends.cuda.matmul, backends.cudnn
    newer = _newer_switches()
    older = [(owner, _readable(owner)) for owner in (matmul, cudnn)]
    benchmark = cudnn.benchmark
    if newer:
        backends.fp32_precision = "none"
    tf32 = settings.precision == "tf32"
    try:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = tf32, tf32, settings.cudnn_benchmark
        yield
    finally:
        cudnn.benchmark = benchmark
        for owner, allowed in older:
            if allowed is not None:
                owner.allow_tf32 = allowed
        for owner, precision in newer:
            owner.fp32_precision = precision


def _readable(owner: Any) -> bool | None:
    """The older switch of `owner`; None where the newer ones say what it cannot say."""
    try:
        return bool(owner.allow_tf32)
    except RuntimeError:
        return None


def _newer_switches() -> list[tuple[Any, str]]:
    """What holds a switch `fp32_precision`, and how it stands, the widest first; empty before torch 2.9."""
    backends: Any = torch.backends
    if not hasattr(backends, "fp32_precision"):
        return []
    owners = (backends, backends.cuda.matmul, backends.cudnn, backends.cudnn.conv, backends.cudnn.rnn)
    return [(owner, owner.fp32_precision) for owner in owners]


@contextmanager
def _on_host(built: Built, settings: Settings) -> Iterator[Any]:
    """The module on the CPU in the precision and layout of the settings, and as it was afterwards."""
    module: Any = built.module
    cast = CASTS.get(settings.precision)
    if cast is not None:
        module = copy.deepcopy(module).to(cast)  # a cast loses digits that the next precision wants back
    if settings.channels_last:
        module.to(memory_format=torch.channels_last)
    try:
        yield module
    finally:
        if settings.channels_last:
            module.to(memory_format=torch.contiguous_format)


@contextmanager
def _on_device(built: Built, device: Device, settings: Settings, *, training: bool = False) -> Iterator[MeasuredModel]:
    """The model ready to run on the device, and back on the CPU afterwards, without gradients and in eval mode."""
    with _on_host(built, settings) as module:
        try:
            device.empty_caches()
            module.to(device.label).train(training)
            yield MeasuredModel(built, _compiled(module) if settings.compile else module, device, settings)
        finally:
            module.zero_grad(set_to_none=True)
            module.to("cpu").eval()


def _compiled(module: Any) -> Any:
    # What was compiled for other batches counts against a limit past which torch silently compiles no more.
    torch.compiler.reset()
    return torch.compile(module, dynamic=False)


def _adapted(inputs: Any, settings: Settings) -> Any:
    """Inputs in the layout and, where weights are cast, the precision of the settings."""
    if isinstance(inputs, torch.Tensor):
        if inputs.is_floating_point() and (cast := CASTS.get(settings.precision)) is not None:
            inputs = inputs.to(cast)
        if settings.channels_last and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return inputs
    if isinstance(inputs, Mapping):
        return {key: _adapted(value, settings) for key, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return type(inputs)([_adapted(value, settings) for value in inputs])
    return inputs


# Loading


def _sizes_on_device(weights: Sequence[torch.Tensor], device: Device) -> dict[str, float | None]:
    """Most memory while weights are brought in, and what they hold once there: allocators round up."""
    device.empty_caches()
    before = device.allocated_bytes()
    peak = device.peaks(lambda: _fetched(weights, device)).allocated_bytes
    held = _fetched(weights, device)
    after = device.allocated_bytes()
    if before is None or after is None:
        return {"load_peak_bytes": peak, "weights_device_bytes": _bytes(held)}
    return {"load_peak_bytes": peak - before, "weights_device_bytes": after - before}


def _fetched(weights: Sequence[torch.Tensor], device: Device) -> list[torch.Tensor]:
    return [weight.to(device.label, copy=True) for weight in weights]


@dataclass(frozen=True, slots=True)
class Cooler:
    """Drives what was copied last out of a processor's caches: weights that are loaded again were away for a while.

    A GPU's copies come from main memory by themselves.
    """

    others: torch.Tensor | None
    """Touched instead."""
    cache_bytes: int

    def __call__(self) -> torch.Tensor | None:
        return None if self.others is None else self.others.add_(1)

    @property
    def details(self) -> dict[str, Any]:
        """The amount that was touched, where that leaves something in the caches."""
        touched = self.others.nbytes if self.others is not None else 0
        return {"cooled_bytes": touched, "cache_bytes": self.cache_bytes} if touched < self.cache_bytes else {}


def _cooler(device: Device) -> Cooler:
    """Touches the largest cache some times over; where memory is limited, no more than half of what is left."""
    if not isinstance(device, Cpu):
        return Cooler(None, 0)
    cache, room = _cache_bytes(), device.room_bytes()
    wanted = COOLING * cache if room is None else min(COOLING * cache, room // 2)
    return Cooler(torch.zeros(wanted, dtype=torch.uint8), cache)


def _cache_bytes() -> int:
    """Size of the first processor's largest cache; `USUAL_CACHE_BYTES` where the system does not state it."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) << 10 for size in sizes if size.endswith("K")), default=USUAL_CACHE_BYTES)


@dataclass(frozen=True, slots=True)
class Loads:
    """Takes the times of bringing weights to a device."""

    device: Device
    rule: StopRule
    timer: Timer
    cool: Cooler

    def copies(self, source: Sequence[torch.Tensor]) -> list[float]:
        """Times of copying `source` over tensors that are there: as after an eviction, when memory is at hand."""
        run = self._copying(source)
        return list(sample(self.timer, run, self.rule, warm_up(self.timer, run, self.rule), self.cool).wall_s)

    def by_size(self, sources: Mapping[str, Sequence[torch.Tensor]]) -> list[dict[str, Any]]:
        """Times by number of tensors and bytes, from the first tensors of the model to all."""
        weights = sources["pageable_s"]
        listed = []
        for count in sorted({max(1, round(share * len(weights))) for share in PREFIXES}):
            times = {kind: self._a_few(self._copying(held[:count])) for kind, held in sources.items()}
            listed.append({"tensors": count, "bytes": _bytes(weights[:count]), **times})
        return listed

    def unloads(self, weights: Sequence[torch.Tensor]) -> tuple[list[float], list[float]]:
        """Times of giving memory back to the device, and of bringing weights in when it has to be allocated first."""
        held: list[torch.Tensor] = []
        unload_s, load_s = [], []

        def bring() -> None:
            held.extend(_fetched(weights, self.device))

        def drop() -> None:
            held.clear()
            self.device.release()

        self.device.empty_caches()
        for _ in _rounds(2 * FEW, self.rule, self.timer):
            load_s.append(self.timer.time(bring).wall_s)
            unload_s.append(self.timer.time(drop).wall_s)
        return unload_s, load_s

    def from_disk(self, module: Any) -> tuple[list[float], dict[str, Any]]:
        """Times of `torch.load` onto the device from a file that is not in the page cache, and how sure that is."""
        weights = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        try:
            with tempfile.TemporaryDirectory(prefix="calibrate-") as folder:
                path = Path(folder) / "weights.pt"
                with path.open("wb") as file:
                    torch.save({name: tensor.detach() for name, tensor in weights.items()}, file)
                    file.flush()
                    os.fsync(file.fileno())
                return self._read_cold(path)
        except OSError as error:
            return [], {"left_out": f"weights could not be written to {tempfile.gettempdir()} ({error.strerror})"}

    def _copying(self, source: Sequence[torch.Tensor]) -> Callable[[], None]:
        targets = [torch.empty_like(tensor, device=self.device.label) for tensor in source]

        def run() -> None:
            for target, tensor in zip(targets, source, strict=True):
                target.copy_(tensor, non_blocking=True)

        return run

    def _a_few(self, run: Callable[[], object]) -> list[float]:
        """Times of up to `FEW` runs after one that does not count."""
        self.timer.time(run)
        times_s = []
        for _ in _rounds(FEW, self.rule, self.timer):
            self.cool()
            times_s.append(self.timer.time(run).wall_s)
        return times_s

    def _read_cold(self, path: Path) -> tuple[list[float], dict[str, Any]]:
        size = path.stat().st_size
        held: list[Any] = []
        times_s, shares = [], []

        def read() -> None:
            held.append(torch.load(path, self.device.label, weights_only=True))

        for _ in _rounds(FEW, self.rule, self.timer):
            dropped = _drop_from_cache(path)
            before = _read_from_storage_bytes()
            times_s.append(self.timer.time(read).wall_s)
            held.clear()
            after = _read_from_storage_bytes()
            if dropped and before is not None and after is not None:
                shares.append((after - before) / size)
        return times_s, {"file_bytes": size, "share_from_storage": min(shares, default=None)}


def _drop_from_cache(path: Path) -> bool:
    """Asks the system to forget the file's pages; it need not, and a file system in memory cannot."""
    if not hasattr(os, "posix_fadvise"):
        return False
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return True


def _read_from_storage_bytes() -> int | None:
    """Bytes this process has caused to be fetched from storage (proc(5), io); None where they are not counted."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), None)


# Memory


def _inference_memory(model: MeasuredModel, point: Point) -> Figures:
    weights_bytes = _bytes(_weights(model.module))
    sizes: dict[str, float | None] = {"weights_bytes": weights_bytes}

    def work() -> None:
        inputs = model.inputs(point.batch)
        outputs = model.forward(inputs)
        _refuse_nan(outputs, f"{point.key}: output")
        sizes.update(input_bytes=_bytes(tensors(inputs)), output_bytes=_bytes(tensors(outputs)))

    if model.settings.compile or model.settings.cudnn_benchmark:
        work()  # both try more, the first time, than running needs
    peaks = model.device.peaks(work, weights_bytes)
    return _figures(sizes | _peak_values(peaks), {}, {"device_bytes_by": peaks.method} | _host(model.device))


def _training_memory(model: MeasuredModel, point: Point) -> Figures:
    """By kind: activations are the peak of forward and backward less the rest; on small batches the optimizer's own
    temporaries (`update_bytes`) can lie above that."""
    model.module.train()
    step = MeasuredStep(model, point.optimizer)
    weights, gradients = _bytes(_weights(model.module)), _first_step(step, point)
    state = _bytes(step.state())
    both_ways = model.device.peaks(lambda: step.forth_and_back(model.inputs(point.batch)), weights + state)
    peaks = model.device.peaks(lambda: step.run(model.inputs(point.batch)), weights + state)
    kinds: dict[str, float | None] = {
        "weights_bytes": weights,
        "gradients_bytes": gradients,
        "optimizer_bytes": state,
        "activations_bytes": max(0, both_ways.allocated_bytes - weights - gradients - state),
        "update_bytes": max(0, peaks.allocated_bytes - both_ways.allocated_bytes),
    }
    details = step.details | {"device_bytes_by": peaks.method} | _host(model.device)
    return _figures(kinds | _peak_values(peaks), {}, details)


def _first_step(step: MeasuredStep, point: Point) -> int:
    """Runs the step that gives the optimizer its state; bytes of the gradients."""
    inputs = step.model.inputs(point.batch)
    _refuse_nan(step.forward(inputs), f"{point.key}: loss")
    step.backward()
    gradients = [p.grad for p in step.model.module.parameters() if p.grad is not None]
    gradients_bytes = _bytes(gradients)
    del gradients
    step.update()
    for _ in range(SCALINGS):
        if step.optimizer.state:
            break
        step.run(inputs)  # scaling found infinite gradients, skipped the step and halved the scale
    return gradients_bytes


def _peak_values(peaks: Any) -> dict[str, float | None]:
    return {
        "allocated_bytes": peaks.allocated_bytes,
        "reserved_bytes": peaks.reserved_bytes,
        "device_bytes": peaks.device_bytes,
    }


# Time and energy


class _Seen(NamedTuple):
    values: dict[str, float | None]
    details: dict[str, Any]


def _timed(run: Callable[[], object], device: Device, rule: StopRule, timer: Timer) -> tuple[Repeats, _Seen]:
    """Repeats until the median is known, with the device's clocks once warm and at the end, then its energy."""
    before = warm_up(timer, run, rule)
    start_mhz = device.nvml.clock_mhz()
    repeats = sample(timer, run, rule, before)
    values: dict[str, float | None] = {
        "clock_start_mhz": start_mhz,
        "clock_end_mhz": device.nvml.clock_mhz(),
        "temperature_c": device.nvml.temperature_c(),
        "other_processes": device.nvml.other_processes(has_context=True),
    }
    reasons = device.nvml.slow_reasons()
    details = {} if reasons is None else {"slow_reasons": list(reasons)}
    energy = _energy(run, device, median(repeats.wall_s))
    return repeats, _Seen(values | energy.values, details | energy.details)


def _energy(run: Callable[[], object], device: Device, batch_s: float) -> _Seen:
    """Joules per batch by the energy counter, else by sampled power; nothing where there is neither."""
    read_counter, read_power = device.nvml.energy_mj, device.nvml.power_w
    counted = read_counter() is not None
    if not counted and read_power() is None:
        return _Seen({}, {})
    read: Callable[[], float | None] = read_counter if counted else read_power
    readings = _readings(run, device, read, max(1, round(READING_S / batch_s)))
    if len(readings) < 2:
        return _Seen({}, {})
    (first_done, first_s, _), (last_done, last_s, _) = readings[0], readings[-1]
    per_batch_s = (last_s - first_s) / (last_done - first_done)
    if counted:
        joules = counter_energy_j([(done, int(value)) for done, _, value in readings])
        power_w = None if joules is None else joules / per_batch_s
        return _Seen({"energy_j": joules, "power_w": power_w}, {"energy_by": "NVML, energy counter"})
    power_w = mean_power_w([(at_s, value) for _, at_s, value in readings])
    joules = None if power_w is None else power_w * per_batch_s
    return _Seen({"energy_j": joules, "power_w": power_w}, {"energy_by": "NVML, sampled power"})


def _readings(
    run: Callable[[], object], device: Device, read: Callable[[], float | None], batches: int
) -> list[tuple[int, float, float]]:
    """(batches done, seconds, reading) before the first batch and after every `batches` more, at least twice."""
    start_s, done = time.perf_counter(), 0
    readings = []
    while done <= 2 * batches or time.perf_counter() - start_s < ENERGY_S:
        if (value := read()) is not None:
            readings.append((done, time.perf_counter(), value))
        for _ in range(batches):
            run()
        device.synchronise()
        done += batches
    return readings


def _parts(step: MeasuredStep, inputs: Any, rule: StopRule, timer: Timer) -> dict[str, list[float]]:
    parts: dict[str, list[float]] = {"forward_s": [], "backward_s": [], "optimizer_s": []}
    runs = {"forward_s": lambda: step.forward(inputs), "backward_s": step.backward, "optimizer_s": step.update}
    for _ in _rounds(max(rule.at_least, 2 * FEW), rule, timer):
        for part, run in runs.items():
            parts[part].append(timer.time(run).wall_s)
    return parts


def _rounds(count: int, rule: StopRule, timer: Timer) -> Iterator[int]:
    """Counts up to `count`, fewer where half the time of the rule is used up, at least one."""
    start_s = timer.now_s()
    for i in range(count):
        if i and timer.now_s() - start_s > rule.seconds / 2:
            return
        yield i


def _how(repeats: Repeats, device: Device) -> dict[str, Any]:
    return {
        "stop": str(repeats.stop),
        "warm_up_runs": len(repeats.warm_up),
        **_host(device),
    }


# Small things


def _figures(
    values: Mapping[str, float | None], samples: Mapping[str, list[float]], details: dict[str, Any]
) -> Figures:
    """Without what could not be measured."""
    known = {name: value for name, value in values.items() if value is not None}
    return Figures(known, {name: taken for name, taken in samples.items() if taken}, details)


def _host(device: Device) -> dict[str, Any]:
    return {"threads": torch.get_num_threads()} if device.kind == "cpu" else {}


def _weights(module: Any) -> list[torch.Tensor]:
    """All that a model keeps between batches: parameters and buffers, shared ones once."""
    return [tensor.detach() for tensor in (*module.parameters(), *module.buffers())]


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _refuse_nan(outputs: Any, what: str) -> None:
    """`ValueError` where a number is none: such a run may have skipped work that real numbers need."""
    for tensor in floats(outputs):
        if count := int(tensor.isnan().sum()):
            raise ValueError(
                f"{what}: {count} of {tensor.numel()} values are not a number (NaN)."
                " Check the factory's weights, or choose another precision"
            )
