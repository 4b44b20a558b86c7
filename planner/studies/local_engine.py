"""The engine of one machine: worker processes, each fed by a thread of its own. A worker that dies loses no point."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from planner.studies.engine import ATTEMPTS, Context, Inputs, Lost, Outcome, run_point

SERVE = "import sys; sys.path[:] = {path!r}; from planner.studies.local_engine import serve; serve()"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Each worker has a core: more threads would only stand in each other's way."""
TAIL_BYTES = 2000
"""Of what a worker said before it died."""
LOOK_S = 0.5
"""How often a worker looks whether its study still lives."""

Job = tuple[str, Inputs]


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """A process that works points out, one at a time."""

    def __init__(self, context: bytes) -> None:
        """Start it; OSError where that cannot be. It need not be ready yet: what is sent waits in the pipe."""
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the pipes
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVE.format(path=sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.said,
                env=os.environ | ONE_THREAD,
                # Ctrl-C in a terminal reaches the study alone, which then ends its workers.
                start_new_session=True,
            )
        except OSError:
            self.said.close()
            raise
        self.context = context

    def ask(self, inputs: Inputs) -> Outcome:
        """The point's outcome; EOFError or OSError where the process is no more."""
        assert self.process.stdin
        assert self.process.stdout
        if self.context:
            self.process.stdin.write(self.context)
            self.context = b""
        pickle.dump(inputs, self.process.stdin)
        self.process.stdin.flush()
        outcome: Outcome = pickle.load(self.process.stdout)
        return outcome

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self.process.kill()

    def last_words(self) -> str:
        """How it ended, in one line. Its pipes are closed."""
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if pipe:
                    pipe.close()
        self.said.seek(0, os.SEEK_END)
        self.said.seek(max(0, self.said.tell() - TAIL_BYTES))
        lines = self.said.read().decode(errors="replace").split("\n")
        self.said.close()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return " ".join([how, *[line.strip() for line in lines if line.strip()][-1:]])


class LocalEngine:
    """Processes of this machine."""

    def __init__(self, context: Context, workers: int) -> None:
        """So many of them, started on entry."""
        self.context = pickle.dumps(context)
        self.window = 2 * workers
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.ended: SimpleQueue[tuple[str, Outcome | Lost]] = SimpleQueue()
        self.threads = [threading.Thread(target=self._feed, daemon=True) for _ in range(workers)]
        self.workers: set[Worker] = set()
        self.lock = threading.Lock()
        self.closing = False

    def __enter__(self) -> Self:
        """Start the workers."""
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """End them."""
        with self.lock:
            self.closing = True
            for worker in self.workers:
                worker.kill()
        for _ in self.threads:
            self.jobs.put(None)
        for thread in self.threads:
            thread.join()

    def submit(self, key: str, inputs: Inputs) -> None:
        """Have a point worked out."""
        self.jobs.put((key, inputs))

    def take(self) -> tuple[str, Outcome | Lost]:
        """The next point that ends."""
        return self.ended.get()

    def _feed(self) -> None:
        """One worker after the other, each until it dies."""
        worker: Worker | None = None
        while job := self.jobs.get():
            key, inputs = job
            ended: Outcome | Lost = Lost("")
            for _ in range(ATTEMPTS):
                try:
                    if (worker := worker or self._start()) is None:
                        return
                    ended = worker.ask(inputs)
                    break
                except (EOFError, OSError, pickle.UnpicklingError) as error:
                    ended = Lost(self._why(worker, error))
                    worker = None
            self.ended.put((key, ended))
        if worker:
            self._bury(worker)

    def _start(self) -> Worker | None:
        """A new worker; None where all shall end."""
        with self.lock:
            if self.closing:
                return None
            worker = Worker(self.context)
            self.workers.add(worker)
            return worker

    def _why(self, worker: Worker | None, error: Exception) -> str:
        """What became of a point's worker, if it had one."""
        if worker is None:
            return f"no process could be started for it ({getattr(error, 'strerror', None) or error})"
        return f"its process died {ATTEMPTS} times, the last time with {self._bury(worker)}"

    def _bury(self, worker: Worker) -> str:
        """How it ended."""
        with self.lock:
            self.workers.discard(worker)
            worker.kill()
        return worker.last_words()


def serve() -> None:
    """What a worker does: points come on standard input, outcomes go to standard output, until the study ends."""
    import planner.search
    import planner.simulation  # noqa: F401 - loaded before the first point, not in it

    threading.Thread(target=_outlive_nobody, args=(os.getppid(),), daemon=True).start()
    points, outcomes = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not stand between outcomes
    with suppress(EOFError, BrokenPipeError):
        context: Any = pickle.load(points)
        while True:
            pickle.dump(run_point(context, pickle.load(points)), outcomes)
            outcomes.flush()


def _outlive_nobody(parent: int) -> None:
    """End with the study, even where it was killed."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)
