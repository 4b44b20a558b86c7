"""Supervisor: starts the process that measures, hands it points, and survives whatever happens to it."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from calibrate.io.points import Point, PointOutcome, Settings, Status
from calibrate.io.process import ending, last_line, running
from simulator.errors import InputError

COMMAND = running("calibrate.sweep.worker")
"""The worker's command; device and number of this process follow."""
LOOK_S = 0.25
"""Between two looks whether to stop."""
START_LIMIT_S = 300.0
"""To import torch from a slow disk and wake the device's driver."""
STEPS = {
    "ready": ("starting on the device", "See what planner doctor says", "See what planner doctor says"),
    "built": ("building the model", "Allow more with --timeout", "Build it alone to see more"),
}
"""Steps by the event that ends them, with the remedies where one takes too long and where the worker dies."""
TAIL_BYTES = 4000
"""End of a worker's standard error that is kept: enough to show what killed it."""
LINE_MAX = 200


class WorkerError(InputError):
    """The worker cannot measure this group at all; the text is one line."""


class NoDeviceError(WorkerError):
    """The worker cannot use the device or what it needs to measure: no group can be measured."""


class StoppedError(Exception):
    """Somebody, or the budget, ended the sweep; the point in flight is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The model that a worker holds, and how it measures."""

    model: str
    """Empty for the device's probes."""
    settings: Settings
    input_shape: tuple[int, ...] | None
    seconds_per_point: float
    soak_s: float
    memory_bytes: int | None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Job":
        """The job that `asdict` wrote."""
        shape = raw["input_shape"]
        return cls(**{**raw, "settings": Settings(**raw["settings"]), "input_shape": shape and tuple(shape)})


class Worker:
    """A process that holds one model and measures it, point after point."""

    def __init__(self, device: str, check: Callable[[], None]) -> None:
        """Start it and wait until it knows the device. `check` is called all the while; it raises `StoppedError`."""
        self.check = check
        self.errors = b""
        self.buffer = b""
        self.process = subprocess.Popen(
            [*COMMAND, device, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # So that Ctrl-C in a terminal reaches the sweep alone, and what user code starts can be ended with it.
            start_new_session=True,
        )
        try:
            self.provenance: Mapping[str, Any] = self._greeting("ready", START_LIMIT_S, NoDeviceError)
        except BaseException:
            self.end()
            raise

    def build(self, job: Job, limit_s: float) -> None:
        """Have it build the model; WorkerError says in one line why it cannot."""
        try:
            self._send(asdict(job))
        except BrokenPipeError:
            raise WorkerError(self._cause_of_death()[1]) from None
        self._greeting("built", limit_s, WorkerError)

    def measure(self, point: Point, limit_s: float) -> PointOutcome:
        """The outcome of `point`. Whatever kills the worker costs this point alone."""
        started_s = time.monotonic()
        try:
            self._send(asdict(point))
            reply = self._receive(limit_s)
        except (TimeoutError, BrokenPipeError, EOFError) as error:
            took_s = time.monotonic() - started_s
            if isinstance(error, TimeoutError):
                return PointOutcome(point=point, status=Status.TIMED_OUT, message=str(error), took_s=took_s)
            status, message = self._cause_of_death()
            return PointOutcome(point=point, status=status, message=message, took_s=took_s)
        return PointOutcome.from_json(reply["outcome"])

    def end(self) -> None:
        """End it, and all processes it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # It died with a point unread.

    def _send(self, line: Mapping[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def _greeting(self, event: str, limit_s: float, error: type[WorkerError]) -> dict[str, Any]:
        step, if_late, if_dead = STEPS[event]
        try:
            reply = self._receive(limit_s)
        except TimeoutError as late:
            raise error(f"{step} {late}. {if_late}") from None
        except EOFError:
            raise error(f"{step}: {self._cause_of_death()[1]}. {if_dead}") from None
        if "refused" in reply:
            raise error(reply["refused"])
        value: dict[str, Any] = reply[event]
        return value

    def _receive(self, limit_s: float) -> dict[str, Any]:
        """The next line it sends. TimeoutError: it took longer than `limit_s`; EOFError: it died."""
        assert self.process.stdout
        assert self.process.stderr
        out, err = self.process.stdout.fileno(), self.process.stderr.fileno()
        end_s = time.monotonic() + limit_s
        open_pipes = [out, err]
        while b"\n" not in self.buffer:
            self.check()
            if time.monotonic() > end_s:
                raise TimeoutError(f"took longer than {limit_s:g} s")
            for pipe in select.select(open_pipes, [], [], LOOK_S)[0]:
                data = os.read(pipe, 1 << 16)
                if not data and pipe == out:
                    raise EOFError
                if not data:
                    open_pipes.remove(pipe)
                elif pipe == out:
                    self.buffer += data
                else:
                    self.errors = (self.errors + data)[-TAIL_BYTES:]
        line, self.buffer = self.buffer.split(b"\n", 1)
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _cause_of_death(self) -> tuple[Status, str]:
        """How its process ended, by signal or exit code, with its last line on standard error."""
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return Status.CRASHED, "its process closed its output"
        if code == -signal.SIGKILL:
            return Status.OUT_OF_MEMORY, "the system killed its process (SIGKILL), as it does when memory runs out"
        how = f"its process ended with {ending(code)}"
        last = self._last_line()
        return Status.CRASHED, f"{how}: {last}" if last else how

    def _last_line(self) -> str:
        assert self.process.stderr
        os.set_blocking(self.process.stderr.fileno(), False)
        with suppress(BlockingIOError):
            self.errors += os.read(self.process.stderr.fileno(), 1 << 16)
        return last_line(self.errors[-TAIL_BYTES:].decode(errors="replace"))[:LINE_MAX]
