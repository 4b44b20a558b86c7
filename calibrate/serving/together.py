"""Together: several processes serve at the same time on one real device, one for each device of the deployment.

Each has a context and memory of its own, as the deployment says; what they share is the device's time. The clock
starts for all at the same moment, once all are ready.
"""

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import perf_counter, sleep
from typing import Any

import numpy as np

from calibrate.serving.executor import NAP_S, interrupts_noted
from calibrate.serving.serve import ServingJob, Start, alone, requests, serve_alone
from calibrate.serving.served import HeldMemory, Served, ServeError, joined
from simulator.clock.records import Batches, MemoryUse, SimulationResult
from simulator.rules.queues import Log
from simulator.world.deployment import Deployment

HEAD_START_S = 0.1
"""From the moment all are ready to arrival 0, so that each learns of it before."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One of the processes."""

    job: ServingJob
    process: Any
    pipe: Connection

    @property
    def name(self) -> str:
        """The deployment's device that it serves."""
        return self.job.deployment.devices[0].id

    def hears(self) -> Any:
        """What it says next; ServeError where it is gone or refused."""
        try:
            message = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            raise ServeError(f"{self.name}: {died(self.process.exitcode)}") from None
        if isinstance(message, ServeError):
            raise message
        return message


def died(code: int) -> str:
    """Why a process is gone; without memory the system kills it unasked."""
    text = f"its process died, exit code {code}"
    return f"{text}. Memory probably ended: allow less, or fewer processes" if code == -signal.SIGKILL else text


def serve_together(job: ServingJob) -> Served:
    """Serve a deployment whose devices are processes on one real device. One that stops early stops all."""
    context = get_context("spawn")
    stop = context.RawValue("b", 0)
    peers = [_begun(context, _part_of(job, alone(job.deployment, gpu)), stop) for gpu in job.deployment.devices]
    try:
        for peer in peers:
            peer.hears()
        at_s = perf_counter() + HEAD_START_S
        for peer in peers:
            peer.pipe.send(at_s)
        with interrupts_noted() as interrupts:
            parts = _gathered(peers, stop, at_s, interrupts)
        served = joined(job.deployment, parts)
        return replace(served, stopped="interrupted") if interrupts else served
    finally:
        for peer in peers:
            peer.process.terminate()
            peer.process.join()
            peer.pipe.close()


def _part_of(job: ServingJob, part: Deployment) -> ServingJob:
    """What one of its processes serves."""
    asked = [service.model for service in part.services]
    demand = {model: job.demand[model] for model in asked if model in job.demand}
    return replace(job, deployment=part, demand=demand, models={model: job.models[model] for model in asked})


def _begun(context: Any, job: ServingJob, stop: Any) -> Peer:
    mine, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(job, theirs, stop), daemon=True)
    process.start()
    theirs.close()
    return Peer(job, process, mine)


def _gathered(peers: Sequence[Peer], stop: Any, at_s: float, interrupts: Sequence[int]) -> list[Served]:
    """What each served. Ctrl-C, or one that stops early, asks all to stop."""
    parts: dict[str, Served] = {}
    while waiting := [peer for peer in peers if peer.name not in parts]:
        ready = wait([peer.pipe for peer in waiting], NAP_S)
        for peer in waiting:
            if peer.pipe in ready:
                try:
                    parts[peer.name] = peer.hears()
                except ServeError as error:
                    ended_s = min(perf_counter() - at_s, peer.job.duration_s)
                    parts[peer.name] = _lost(peer.job, ended_s, str(error))
        stop.value = bool(interrupts) or any(part.stopped for part in parts.values())
    return [parts[peer.name] for peer in peers]


def _lost(job: ServingJob, ended_s: float, why: str) -> Served:
    """What is known of a process that took its records with it: the requests that arrived."""
    gpu = job.deployment.devices[0]
    nothing = np.empty(0)
    result = SimulationResult(
        deployment=job.deployment,
        duration_s=ended_s,
        seed=job.seed,
        requests={model: requests(Log(), demand, ended_s) for model, demand in job.demand.items()},
        batches=tuple(
            Batches(service.model, gpu.id, nothing, nothing, nothing.astype(np.int32), nothing.astype(bool))
            for service in job.deployment.services
        ),
        loads=(),
        stalls=(),
        memory={gpu.id: MemoryUse(np.zeros(1), np.full(1, gpu.context_bytes))},
        wall_s=ended_s,
    )
    unseen = HeldMemory(
        limit_bytes=gpu.memory_bytes,
        counted_peak_bytes=gpu.context_bytes,
        workspace_bytes={},
        weight_bytes={},
        allocated_peak_bytes=None,
        context_bytes=None,
    )
    return Served(result=result, actions=(), held={gpu.id: unseen}, stopped=why)


# In the process


def _serve(job: ServingJob, pipe: Connection, stop: Any) -> None:
    """Serve one part; Ctrl-C goes to all processes of a terminal, and only the one that asked answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        answer: Served | ServeError = serve_alone(job, Start(at_s=_agreed(pipe), stop=lambda: bool(stop.value)))
    except ServeError as error:
        answer = error
    with suppress(OSError):  # the one that asked may be gone
        pipe.send(answer)


def _agreed(pipe: Connection) -> Callable[[], float]:
    """Says that all is ready, then waits for the moment that was agreed on."""

    def at_s() -> float:
        pipe.send("ready")
        origin_s: float = pipe.recv()
        sleep(max(0.0, origin_s - perf_counter()))
        return origin_s

    return at_s
