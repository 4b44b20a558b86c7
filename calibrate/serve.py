"""Serve: runs a deployment on one real device in real time, with real models, and notes what the simulator would note.

Arrivals are fixed before the run; a request's latency counts from when it was due, never from when the loop saw it.
It runs the models' own code, and with it whatever a user's factory brought. Needs torch.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
import torch

from calibrate import measure, zoo
from calibrate.device import Cuda, Device, DeviceError, find_device
from calibrate.executor import Executor, Line, size_bytes
from calibrate.points import Settings
from calibrate.resident import Weights
from calibrate.served import Held, Served, ServeError, batch_sizes, doublings
from simulator.deployment import Deployment, Service
from simulator.hardware import Device as Card
from simulator.records import Batches, MemoryUse, Outcome, Requests, SimulationResult
from simulator.workload import Demand

NOTHING = Demand(np.empty(0), np.empty(0, dtype=np.int32))
SEGMENTS_BYTES = 100_000_000
"""What a GPU's allocator may hold for each model beyond what it gave out. It takes segments of 2 MiB and of 20 MiB for
each stream anew, weights come on another stream than batches, and what is used in part cannot be given back: 44 MiB;
the matrix library keeps up to 32 MiB there, on Hopper."""
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


def serve(
    deployment: Deployment,
    demand: Mapping[str, Demand],
    models: Mapping[str, Source],
    device: str,
    duration_s: float,
    *,
    seed: int = 0,
) -> Served:
    """Serve `demand` for `duration_s` seconds on `device` (`cpu`, `cuda:0`); `models` by name of service.

    A deployment of several devices is served by a process for each, all of them on the one real device at the same
    time. `seed` is only noted: the one that drew the demand. What goes wrong while serving - out of memory, a model
    that raises, Ctrl-C - ends the run, and what was measured is kept. What goes wrong before raises ServeError.
    """
    check(deployment, demand, models, duration_s)
    if len(deployment.devices) == 1:
        return serve_alone(deployment, demand, models, device, duration_s, seed)
    from calibrate.together import serve_together

    return serve_together(deployment, demand, models, device, duration_s, seed)


def serve_alone(
    deployment: Deployment,
    demand: Mapping[str, Demand],
    models: Mapping[str, Source],
    device: str,
    duration_s: float,
    seed: int,
    start: Start = NOW,
) -> Served:
    """Serve in this process a deployment of one device that `check` has passed."""
    began_s = perf_counter()
    bench = opened(deployment, device)
    real = bench.device
    with measure.switches(models[deployment.services[0].model].settings):
        try:
            executor = bench.executor(deployment, demand, models)
            stopped = executor.serve(start.at_s, duration_s, start.stop)
        except Exception as error:
            raise ServeError(f"{deployment.devices[0].id}: {in_one_line(error, real)}") from error
        finally:
            allocated_bytes = bench.clear()
    ended_s = min(executor.ended_s, duration_s)
    return Served(
        result=recorded(executor, deployment, demand, ended_s, seed, perf_counter() - began_s),
        actions=executor.notes.columns(),
        launch_s={executor.card.id: np.array(executor.launch_s)},
        held={
            executor.card.id: Held(
                limit_bytes=executor.card.memory_bytes,
                counted_peak_bytes=max(executor.memory_used),
                workspace_bytes={line.model: line.measured_bytes for line in executor.lines},
                weight_bytes={line.model: size_bytes(line.layers) for line in executor.lines},
                allocated_peak_bytes=allocated_bytes,
                context_bytes=own_context_bytes(real, shared=start is not NOW),
            )
        },
        stopped=stopped,
    )


def opened(deployment: Deployment, device: str) -> "Bench":
    """The device, ready for models. ServeError where it cannot be had."""
    name = deployment.devices[0].id
    try:
        real = find_device(device)
    except DeviceError as error:
        raise ServeError(f"{name}: {error}") from error
    try:
        # Without a limit: on a CPU it would hold for this process ever after. There resident copies are counted.
        real.open()
        return Bench(real, Weights(real, pinned=deployment.swap.pinned))
    except Exception as error:
        raise ServeError(f"{name}: {in_one_line(error, real)}") from error


def own_context_bytes(real: Device, *, shared: bool) -> int | None:
    """What the context holds; None where several processes grew at once and NVML does not tell them apart."""
    blurred = shared and isinstance(real, Cuda) and real.nvml.process_bytes() is None
    return None if blurred else real.context_bytes


# What cannot be served


def check(
    deployment: Deployment, demand: Mapping[str, Demand], models: Mapping[str, Source], duration_s: float
) -> None:
    """Refuse what cannot be served for real. Raises ServeError."""
    if not duration_s > 0:
        raise ServeError(f"duration: must be above 0 s, got {duration_s:g}. Serve for some seconds")
    if deployment.failures is not None:
        raise ServeError("failures: nobody pulls the plug of a real device. Leave failures out")
    for service in deployment.services:
        _check_service(service, deployment, models)
    if unknown := sorted(set(demand) - {service.model for service in deployment.services}):
        raise ServeError(f"workload: asks {unknown[0]!r}, which no service answers. Add a service")
    for card in deployment.devices:
        if not alone(deployment, card).services:
            raise ServeError(f"{card.id}: serves no model. Place one there, or leave the device out")
    if len({(one.settings.precision == "tf32", one.settings.cudnn_benchmark) for one in models.values()}) > 1:
        raise ServeError("models: tf32 and cudnn_benchmark hold for a whole process. Give all models the same")


def _check_service(service: Service, deployment: Deployment, models: Mapping[str, Source]) -> None:
    if len(service.replicas) != 1 or len(service.replicas[0].devices) != 1:
        raise ServeError(f"{service.model}: must have one replica on one device to be served for real. Place it so")
    device = service.replicas[0].devices[0]
    if device not in {card.id for card in deployment.devices}:
        raise ServeError(f"{service.model}: device {device!r} is not in the deployment. Add it")
    if service.model not in models:
        raise ServeError(f"{service.model}: no real model is named for it. Name one of the zoo, or a factory")
    if models[service.model].settings.compile:
        raise ServeError(f"{service.model}: a compiled model is bound to its batch size. Serve it without compile")


def alone(deployment: Deployment, card: Card) -> Deployment:
    """The part of a deployment that one of its devices serves."""
    mine = tuple(service for service in deployment.services if service.replicas[0].devices == (card.id,))
    return replace(deployment, services=mine, devices=(card,))


def in_one_line(error: BaseException, device: Device) -> str:
    """What went wrong; the kind of error where its text does not speak for itself."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, ServeError | zoo.ZooError):
        return text
    return f"out of memory: {text}" if device.is_out_of_memory(error) else f"{type(error).__name__}: {text}"


# Before the clock starts


@dataclass(frozen=True, slots=True)
class Runner:
    """A real model with its inputs at hand."""

    model: measure.Model
    inputs: Any
    """Of the largest batch, on the device; a smaller batch takes its first samples."""

    def run(self, count: int) -> None:
        """One batch, until its outputs are there."""
        self.model.forward(self.inputs[:count])
        if self.model.device.kind == "cuda":
            # Not the whole device: weights may be under way on another stream.
            torch.cuda.current_stream(self.model.device.label).synchronize()

    @property
    def input_bytes(self) -> int:
        """Of the largest batch."""
        return sum(tensor.nbytes for tensor in zoo.tensors(self.inputs))


@dataclass(slots=True)
class Bench:
    """All that serving needs at hand: models with inputs, weights in host memory."""

    device: Device
    weights: Weights
    lines: list[Line] = field(default_factory=list)
    runners: list[Runner] = field(default_factory=list)

    def executor(self, deployment: Deployment, demand: Mapping[str, Demand], models: Mapping[str, Source]) -> Executor:
        """Build, measure and warm up the models; where they will take turns, their room is taken."""
        card = deployment.devices[0]
        for service in deployment.services:
            self.add(service, deployment, demand.get(service.model, NOTHING), models[service.model])
        self.limit(card)
        for line, runner in zip(self.lines, self.runners, strict=True):
            self.measure(line, runner, card)
        for line in self.lines:
            self.warm_up(line)
        executor = Executor(deployment, card, self.lines, self.weights)
        if executor.swaps:
            least = min(line.workspace_bytes for line in self.lines)
            self.weights.reserve(card.memory_bytes - card.context_bytes - least)
        if isinstance(self.device, Cuda):
            torch.cuda.reset_peak_memory_stats(self.device.index)
        return executor

    def add(self, service: Service, deployment: Deployment, demand: Demand, source: Source) -> None:
        """Build one model."""
        built = zoo.build(source.name, source.input_shape)
        module, settings = built.module, source.settings
        if (cast := measure.CASTS.get(settings.precision)) is not None:
            module.to(cast)
        if settings.channels_last:
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        replica = service.replicas[0]
        profile, most = replica.profile, replica.batching.max_batch_size
        model = measure.Model(built, module, self.device, settings)
        runner = Runner(model, model.inputs(most))
        sizes = [most if replica.batching.padded else n for n in range(1, most + 1)]
        self.runners.append(runner)
        self.lines.append(
            Line(
                service=service,
                times=demand.arrival_s.tolist(),
                run=runner.run,
                layers=self.weights.adopt(service.model, module, profile.layers),
                service_s=(0.0, *(profile.latency(n) for n in sizes)),
                load_time=profile.load_from(pinned=deployment.swap.pinned),
                workspace_bytes=round(profile.workspace(most)),
                measured_bytes=0,
                number=len(self.lines),
            )
        )

    def limit(self, card: Card) -> None:
        """Bound a GPU's allocator to what the deployment allows; inputs that wait are the executor's own and on top."""
        if isinstance(self.device, Cuda):
            inputs_bytes = sum(runner.input_bytes for runner in self.runners)
            most = card.memory_bytes - card.context_bytes + inputs_bytes + SEGMENTS_BYTES * len(self.runners)
            share = min(1.0, most / self.device.memory_bytes())
            torch.cuda.set_per_process_memory_fraction(share, self.device.index)

    def measure(self, line: Line, runner: Runner, card: Card) -> None:
        """Workspace of the largest batch. ServeError where the model cannot be on the device even alone."""
        most = line.policy.max_batch_size
        keys = [layer.key for layer in line.layers]
        self.weights.load(keys)
        line.run(most)
        before = self.device.allocated_bytes() or 0
        peaks = self.device.peaks(lambda: line.run(most))
        line.measured_bytes = peaks.allocated_bytes - before + runner.input_bytes
        line.workspace_bytes = max(line.workspace_bytes, line.measured_bytes)
        self.weights.evict(keys)
        needs = card.context_bytes + size_bytes(line.layers) + line.workspace_bytes
        if needs > card.memory_bytes:
            raise ServeError(
                f"{line.model}: needs {needs:,} bytes for context, weights and workspace at batch {most}, "
                f"the limit is {card.memory_bytes:,}. Allow more memory or smaller batches"
            )

    def warm_up(self, line: Line) -> None:
        """Run every size of batch that may form; beyond 16 every doubling and the largest."""
        most = line.policy.max_batch_size
        keys = [layer.key for layer in line.layers]
        self.weights.load(keys)
        for count in batch_sizes(most) if not line.policy.padded else [most]:
            for _ in range(WARM_UPS if count in doublings(most) else 1):
                line.run(count)
        self.weights.evict(keys)

    def clear(self) -> int | None:
        """Let go of the device; most bytes that its allocator gave out since all was ready."""
        self.weights.evict(list(self.weights.groups))
        self.runners.clear()
        if not isinstance(self.device, Cuda):
            return None
        with suppress(RuntimeError):  # a context that an error broke ends with the process
            torch.cuda.set_per_process_memory_fraction(1.0, self.device.index)
            self.device.close()
        return int(torch.cuda.max_memory_allocated(self.device.index))


# After it stopped


def recorded(
    executor: Executor, deployment: Deployment, demand: Mapping[str, Demand], ended_s: float, seed: int, wall_s: float
) -> SimulationResult:
    """The simulator's columns of what happened until `ended_s`."""
    memory = MemoryUse(np.array(executor.memory_at_s), np.array(executor.memory_used, dtype=np.int64))
    lines = {line.model: line for line in executor.lines}
    return SimulationResult(
        deployment=deployment,
        duration_s=ended_s,
        seed=seed,
        requests={model: requests(lines[model].rows, asked, ended_s) for model, asked in demand.items()},
        batches=tuple(batches(line, executor.card.id, ended_s) for line in executor.lines),
        loads=tuple(load for load in executor.loads if load.finish_s <= ended_s),
        stalls=tuple(executor.stalls),
        memory={executor.card.id: memory},
        wall_s=wall_s,
    )


def requests(rows: Sequence[tuple[float, float, int]], demand: Demand, ended_s: float) -> Requests:
    """What became of each request that arrived by the end."""
    known = int(np.searchsorted(demand.arrival_s, ended_s))
    start_s, finish_s = np.full(known, np.nan), np.full(known, np.nan)
    outcome = np.full(known, Outcome.WAITING, dtype=np.int8)
    if rows:
        began_s, done_s, count = np.array(rows).T
        state = np.where(np.isnan(done_s), Outcome.DROPPED, Outcome.RUNNING)
        state[done_s <= ended_s] = Outcome.FINISHED
        done_s[done_s > ended_s] = np.nan
        times = count.astype(int)
        left = int(times.sum())
        for column, values in ((start_s, began_s), (finish_s, done_s), (outcome, state)):
            column[:left] = np.repeat(values, times)
    return Requests(demand.arrival_s[:known], demand.source[:known], start_s, finish_s, outcome)


def batches(line: Line, device: str, ended_s: float) -> Batches:
    """The batches of one model; one that never ended, because the run did, counts as aborted then."""
    table = np.array([row for row in line.rows if not np.isnan(row[1])]).reshape(-1, 3)
    aborted = np.isinf(table[:, 1])
    finish_s = np.where(aborted, max(ended_s, table[-1, 0]) if len(table) else 0.0, table[:, 1])
    return Batches(line.model, device, table[:, 0], finish_s, table[:, 2].astype(np.int32), aborted)
