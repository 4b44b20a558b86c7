"""Serve: runs a deployment on one real device in real time, with real models, and notes what the simulator would note.

Arrivals are fixed before the run; a request's latency counts from when it was due, never from when the loop saw it.
It runs the models' own code, and with it whatever a user's factory brought. Needs torch.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
import torch

from calibrate.devices.device import SHARED_COUNT, Cuda, Device, DeviceError, find_device
from calibrate.devices.regime import in_regime, of_process
from calibrate.io.points import Settings
from calibrate.serving.executor import Executor, RealGpu, WaitingLine
from calibrate.serving.resident import Weights
from calibrate.serving.served import SEGMENTS_BYTES, HeldMemory, Served, ServeError, batch_sizes, doublings
from calibrate.sweep.measure import MeasuredModel, prepared
from calibrate.zoo.built import tensors
from calibrate.zoo.sources import ZooError
from simulator.clock.records import Batches, MemoryUse, Outcome, Requests, SimulationResult, Stall
from simulator.clock.run import stages
from simulator.rules.queues import Log, Stage
from simulator.world.deployment import Deployment, Service
from simulator.world.hardware import Device as Gpu
from simulator.world.workload import Demand

NOTHING = Demand(np.empty(0), np.empty(0, dtype=np.int32))
WARM_UPS = 2
"""Runs of each doubling of the batch size before the clock starts, other sizes have one: the first compiles, chooses
algorithms and allocates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the real model of a service comes from."""

    name: str
    """In the zoo, or `package.module:factory`."""
    settings: Settings = field(default_factory=Settings)
    input_shape: tuple[int, ...] | None = None
    """One sample's shape for a model of one's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """When the clock starts, and who may stop it: several processes serve together."""

    at_s: Callable[[], float] = perf_counter
    """Called when all is ready: the moment of arrival time 0 on the monotonic clock, which it waits for."""
    stop: Callable[[], bool] = bool
    """Asked between batches."""


NOW = Start()


@dataclass(frozen=True, slots=True)
class ServingJob:
    """What one process serves."""

    deployment: Deployment
    """Of one device, where `check` has passed it; of several, for as many processes."""
    demand: Mapping[str, Demand]
    models: Mapping[str, Source]
    device: str
    duration_s: float
    seed: int


def serve_alone(job: ServingJob, start: Start = NOW) -> Served:
    """Serve in this process."""
    return serve_on(opened(job), job, start)


def serve_on(bench: "Bench", job: ServingJob, start: Start = NOW) -> Served:
    """Serve on a bench that is open, and clear it."""
    began_s = perf_counter()
    real = bench.device
    with in_regime(job.models[job.deployment.services[0].model].settings):
        try:
            executor = bench.executor(job.deployment, job.demand, job.models)
            stopped = executor.serve(start.at_s, job.duration_s, start.stop)
        except Exception as error:
            raise ServeError(f"{job.deployment.devices[0].id}: {in_one_line(error, real)}") from error
        finally:
            allocated_bytes, process_bytes = bench.clear()
    ended_s = min(executor.ended_s, job.duration_s)
    gpu = executor.gpu
    name = gpu.device.id
    held = HeldMemory(
        limit_bytes=gpu.device.memory_bytes,
        counted_peak_bytes=max(gpu.memory_used),
        workspace_bytes={line.stage.model: line.measured_bytes for line in gpu.lines},
        weight_bytes={line.stage.model: line.stage.weight_bytes for line in gpu.lines},
        allocated_peak_bytes=allocated_bytes,
        context_bytes=own_bytes(real, real.context_bytes, shared=start is not NOW),
        process_peak_bytes=own_bytes(real, process_bytes, shared=start is not NOW),
    )
    return Served(
        result=bench.recorded(executor, job, ended_s, perf_counter() - began_s),
        actions=executor.actions(),
        held={name: held},
        stopped=stopped,
    )


def opened(job: ServingJob) -> "Bench":
    """The device, ready for models. ServeError where it cannot be had."""
    deployment, name = job.deployment, job.deployment.devices[0].id
    if deployment.swap.disk:
        raise ServeError("swap.disk: weights are served from memory alone. Leave it out, or write false")
    try:
        real = find_device(job.device)
    except DeviceError as error:
        raise ServeError(f"{name}: {error}") from error
    try:
        # Without a limit: on a CPU it would hold for this process ever after. There resident copies are counted.
        real.open()
        return Bench(real, Weights(real, pinned=deployment.swap.pinned))
    except Exception as error:
        raise ServeError(f"{name}: {in_one_line(error, real)}") from error


def own_bytes(real: Device, held_bytes: int | None, *, shared: bool) -> int | None:
    """What was read as this process's; None where several processes grew at once and NVML does not tell them apart."""
    blurred = shared and isinstance(real, Cuda) and real.nvml.process_bytes() is None
    return None if blurred else held_bytes


# What cannot be served


def check(job: ServingJob) -> None:
    """Refuse what cannot be served for real. Raises ServeError."""
    deployment, models = job.deployment, job.models
    if not job.duration_s > 0:
        raise ServeError(f"duration: must be above 0 s, got {job.duration_s:g}. Serve for some seconds")
    if deployment.failures is not None:
        raise ServeError("failures: nobody pulls the plug of a real device. Leave failures out")
    for service in deployment.services:
        _check_service(service, deployment, models)
    answering = {one.model for one in deployment.services} | {one.name for one in deployment.pipelines}
    if unknown := sorted(job.demand.keys() - answering):
        raise ServeError(f"workload: asks {unknown[0]!r}, which no service answers. Add a service")
    for gpu in deployment.devices:
        if not alone(deployment, gpu).services:
            raise ServeError(f"{gpu.id}: serves no model. Place one there, or leave the device out")
    if len({of_process(one.settings) for one in models.values()}) > 1:
        raise ServeError("models: tf32, torch and cudnn_benchmark hold for a whole process. Give all models the same")


def _check_service(service: Service, deployment: Deployment, models: Mapping[str, Source]) -> None:
    if len(service.replicas) != 1 or len(service.replicas[0].devices) != 1:
        raise ServeError(f"{service.model}: must have one replica on one device to be served for real. Place it so")
    device = service.replicas[0].devices[0]
    if device not in {gpu.id for gpu in deployment.devices}:
        raise ServeError(f"{service.model}: device {device!r} is not in the deployment. Add it")
    if service.model not in models:
        raise ServeError(f"{service.model}: no real model is named for it. Name one of the zoo, or a factory")
    if models[service.model].settings.runtime != "pytorch":
        raise ServeError(f"{service.model}: what is compiled or a graph is bound to one batch size. Serve it as it is")


def alone(deployment: Deployment, gpu: Gpu) -> Deployment:
    """The part of a deployment that one of its devices serves."""
    mine = tuple(service for service in deployment.services if service.replicas[0].devices == (gpu.id,))
    return replace(deployment, services=mine, devices=(gpu,))


def in_one_line(error: BaseException, device: Device) -> str:
    """What went wrong; the kind of error where its text does not speak for itself."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, ServeError | ZooError):
        return text
    return f"out of memory: {text}" if device.is_out_of_memory(error) else f"{type(error).__name__}: {text}"


# Before the clock starts


@dataclass(frozen=True, slots=True)
class Runner:
    """A real model with its inputs at hand."""

    model: MeasuredModel
    inputs: Any
    """Of the largest batch, on the device; a smaller batch takes its first samples."""

    def run(self, count: int) -> None:
        """One batch, until its outputs are there."""
        self.answer(count)

    def answer(self, count: int) -> Any:
        """The outputs of one batch."""
        outputs = self.model.forward(self.inputs[:count])
        if self.model.device.kind == "cuda":
            # Not the whole device: weights may be under way on another stream.
            torch.cuda.current_stream(self.model.device.label).synchronize()
        return outputs

    @property
    def input_bytes(self) -> int:
        """Of the largest batch."""
        return sum(tensor.nbytes for tensor in tensors(self.inputs))


@dataclass(slots=True)
class Bench:
    """All that serving needs at hand: models with inputs, weights in host memory."""

    device: Device
    weights: Weights
    lines: list[WaitingLine] = field(default_factory=list)
    runners: list[Runner] = field(default_factory=list)

    def executor(self, deployment: Deployment, demand: Mapping[str, Demand], models: Mapping[str, Source]) -> Executor:
        """Build, measure and warm up the models; where they will take turns, their room is taken."""
        (gpu,) = deployment.devices
        for service in deployment.services:
            self.add(service, deployment, demand.get(service.model, NOTHING), models[service.model])
        self.limit(gpu)
        for line, runner in zip(self.lines, self.runners, strict=True):
            self.measure(line, runner, gpu)
        for line in self.lines:
            self.warm_up(line)
        executor = self.over(RealGpu(deployment, self.lines, self.weights))
        if executor.gpu.swaps:
            least = min(line.stage.workspace_bytes for line in self.lines)
            self.weights.reserve(gpu.memory_bytes - gpu.context_bytes - least)
        if isinstance(self.device, Cuda):
            self.device.empty_caches()  # of weights as they were built: those that are loaded come from another pool
            torch.cuda.reset_peak_memory_stats(self.device.index)
        return executor

    def over(self, gpu: RealGpu) -> Executor:
        """What drives the device."""
        return Executor(gpu)

    def line(self, service: Service, stage: Stage, demand: Demand, runner: Runner) -> WaitingLine:
        """Where requests wait for a model that is built."""
        return WaitingLine(service, stage, demand.arrival_s.tolist(), runner.run)

    def recorded(self, executor: Executor, job: ServingJob, ended_s: float, wall_s: float) -> SimulationResult:
        """What happened until `ended_s`."""
        return recorded(executor.gpu, job, ended_s, wall_s)

    def add(self, service: Service, deployment: Deployment, demand: Demand, source: Source) -> None:
        """Build one model."""
        model = prepared(source.name, source.input_shape, self.device, source.settings)
        replica = service.replicas[0]
        runner = Runner(model, model.inputs(replica.batching.max_batch_size))
        self.runners.append(runner)
        (planned,) = stages(service, replica, deployment.swap, None)
        layers = self.weights.adopt(service.model, model.module, replica.profile.layers)
        stage = replace(planned, layers=layers, cv=0.0, beside_load=1.0)
        self.lines.append(self.line(service, stage, demand, runner))

    def limit(self, gpu: Gpu) -> None:
        """Bound a GPU's allocator to what the deployment allows; inputs that wait are the executor's own and on top."""
        if isinstance(self.device, Cuda):
            inputs_bytes = sum(runner.input_bytes for runner in self.runners)
            most = gpu.memory_bytes - gpu.context_bytes + inputs_bytes + SEGMENTS_BYTES * len(self.runners)
            share = min(1.0, most / self.device.memory_bytes())
            torch.cuda.set_per_process_memory_fraction(share, self.device.index)

    def measure(self, line: WaitingLine, runner: Runner, gpu: Gpu) -> None:
        """Workspace of the largest batch. ServeError where the model cannot be on the device even alone."""
        most = line.cap
        keys = [layer.key for layer in line.stage.layers]
        self.weights.load(keys)
        line.forward(most)
        before = self.device.allocated_bytes() or 0
        peaks = self.device.peaks(lambda: line.forward(most))
        line.measured_bytes = peaks.allocated_bytes - before + runner.input_bytes
        line.stage = replace(line.stage, workspace_bytes=max(line.stage.workspace_bytes, line.measured_bytes))
        self.weights.evict(keys)
        needs = gpu.context_bytes + line.stage.weight_bytes + line.stage.workspace_bytes
        if needs > gpu.memory_bytes:
            raise ServeError(
                f"{line.stage.model}: needs {needs:,} bytes for context, weights and workspace at batch {most}, "
                f"the limit is {gpu.memory_bytes:,}. Allow more memory or smaller batches"
            )

    def warm_up(self, line: WaitingLine) -> None:
        """Run every size of batch that may form; beyond 16 every doubling and the largest."""
        most = line.cap
        keys = [layer.key for layer in line.stage.layers]
        self.weights.load(keys)
        for count in batch_sizes(most) if not line.policy.padded else [most]:
            for _ in range(WARM_UPS if count in doublings(most) else 1):
                line.forward(count)
        self.weights.evict(keys)

    def clear(self) -> tuple[int | None, int | None]:
        """Let go of the device; most bytes that its allocator gave out since all was ready, and that the process held.

        The latter is read first: the allocator keeps its blocks until it is told to let go. None where not known.
        """
        process_bytes = self._process_bytes()
        self.weights.evict(list(self.weights.groups))
        self.runners.clear()
        if not isinstance(self.device, Cuda):
            return None, None
        with suppress(RuntimeError):  # a context that an error broke ends with the process
            torch.cuda.set_per_process_memory_fraction(1.0, self.device.index)
            self.device.empty_caches()
        return int(torch.cuda.max_memory_allocated(self.device.index)), process_bytes

    def _process_bytes(self) -> int | None:
        if not isinstance(self.device, Cuda):
            return None
        with suppress(RuntimeError):
            held_bytes, method = self.device.held()
            return None if method == SHARED_COUNT else held_bytes
        return None


# After it stopped


def recorded(gpu: RealGpu, job: ServingJob, ended_s: float, wall_s: float) -> SimulationResult:
    """The simulator's columns of what happened until `ended_s`."""
    name = gpu.device.id
    lines = {line.stage.model: line for line in gpu.lines}
    return SimulationResult(
        deployment=job.deployment,
        duration_s=ended_s,
        seed=job.seed,
        requests={model: requests(lines[model].log, asked, ended_s) for model, asked in job.demand.items()},
        batches=tuple(batches(line, name, ended_s) for line in gpu.lines),
        loads=tuple(load for load in gpu.loads if load.finish_s <= ended_s),
        stalls=tuple(Stall(name, stall.start_s, min(stall.finish_s, ended_s)) for stall in gpu.stalls),
        memory={name: MemoryUse(np.array(gpu.memory_at_s), np.array(gpu.memory_used, dtype=np.int64))},
        wall_s=wall_s,
    )


def requests(log: Log, demand: Demand, ended_s: float) -> Requests:
    """What became of each request that arrived by the end."""
    known = int(np.searchsorted(demand.arrival_s, ended_s))
    start_s, finish_s = np.full(known, np.nan), np.full(known, np.nan)
    outcome = np.full(known, Outcome.WAITING, dtype=np.int8)
    done_s = np.array(log.finish_s)
    state = np.where(np.isnan(done_s), Outcome.DROPPED, Outcome.RUNNING)
    state[done_s <= ended_s] = Outcome.FINISHED
    done_s[done_s > ended_s] = np.nan
    left = sum(log.count)
    for column, values in ((start_s, np.array(log.start_s)), (finish_s, done_s), (outcome, state)):
        column[:left] = np.repeat(values, log.count)
    return Requests(demand.arrival_s[:known], demand.source[:known], start_s, finish_s, outcome)


def batches(line: WaitingLine, device: str, ended_s: float) -> Batches:
    """The batches of one model; one that never ended, because the run did, counts as aborted then."""
    done_s = np.array(line.log.finish_s)
    ran = ~np.isnan(done_s)
    start_s, done_s = np.array(line.log.start_s)[ran], done_s[ran]
    count = np.array(line.log.count, dtype=np.int32)[ran]
    aborted = np.isinf(done_s)
    finish_s = np.where(aborted, np.maximum(start_s, ended_s), done_s)
    return Batches(line.stage.model, device, start_s, finish_s, count, aborted)
