"""The engine of one machine: worker processes that threads of a pool ask. A worker that dies loses no point."""

import os
import pickle
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import Any, Self

from calibrate.io.process import end_with, ending, last_line, python
from planner.questions.studies.engine import ATTEMPTS, Context, Inputs, Lost, Outcome, run_point

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Each worker has a core: more threads would only stand in each other's way."""
TAIL_BYTES = 2000
"""End of a worker's standard error that is read: its last line shows why it died."""


class LocalWorker:
    """A process that works points out, one at a time."""

    def __init__(self, context: bytes) -> None:
        """Start it; OSError where that cannot be. It need not be ready yet: what is sent waits in the pipe."""
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the pipes
        try:
            self.process = subprocess.Popen(
                python("planner.questions.studies.local_engine", "serve"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                env=os.environ | ONE_THREAD,
                # Ctrl-C in a terminal reaches the study alone, which then ends its workers.
                start_new_session=True,
            )
        except OSError:
            self.errors.close()
            raise
        self.context = context

    def ask(self, inputs: Inputs) -> Outcome:
        """The point's outcome; EOFError or OSError where the process has ended."""
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

    def close(self) -> str:
        """Close its pipes once it has ended; how it ended, in one line."""
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if pipe:
                    pipe.close()
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - TAIL_BYTES))
        line = last_line(self.errors.read().decode(errors="replace"))
        self.errors.close()
        return f"{ending(code)} {line}".rstrip()


class LocalEngine:
    """Processes of this machine, each asked by a thread of a pool."""

    def __init__(self, context: Context, workers: int) -> None:
        """So many of them, started when there is work."""
        self.context = pickle.dumps(context)
        self.window = 2 * workers
        self.pool = ThreadPoolExecutor(workers)
        self.running: dict[Future[Outcome | Lost], str] = {}
        """Keys of the points under way."""
        self.idle: list[LocalWorker] = []
        self.workers: set[LocalWorker] = set()
        self.lock = threading.Lock()
        self.closing = False

    def __enter__(self) -> Self:
        """Nothing starts before there is work."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End the workers, whatever they are at."""
        with self.lock:
            self.closing = True
            for worker in self.workers:
                worker.kill()
        self.pool.shutdown(cancel_futures=True)
        for worker in self.idle:
            worker.close()

    def submit(self, key: str, inputs: Inputs) -> None:
        """Have a point worked out."""
        self.running[self.pool.submit(self._outcome, inputs)] = key

    def take(self) -> tuple[str, Outcome | Lost]:
        """The next point that ends."""
        ended = next(as_completed(self.running))
        return self.running.pop(ended), ended.result()

    def _outcome(self, inputs: Inputs) -> Outcome | Lost:
        """The outcome of a point, by one worker after the other, each until it dies."""
        lost = Lost("")
        for _ in range(ATTEMPTS):
            worker: LocalWorker | None = None
            try:
                worker = self._worker()
                outcome = worker.ask(inputs)
            except (EOFError, OSError, pickle.UnpicklingError) as error:
                lost = Lost(self._reason(worker, error))
            else:
                self.idle.append(worker)
                return outcome
        return lost

    def _worker(self) -> LocalWorker:
        """A worker that waits, else a new one; OSError where none can be started."""
        with self.lock:
            if self.closing:
                raise OSError("the study ends")
            if self.idle:
                return self.idle.pop()
            worker = LocalWorker(self.context)
            self.workers.add(worker)
            return worker

    def _reason(self, worker: LocalWorker | None, error: Exception) -> str:
        """Why a point has no outcome: its worker died, or none could be started."""
        if worker is None:
            return f"no process could be started for it ({getattr(error, 'strerror', None) or error})"
        with self.lock:
            self.workers.discard(worker)
            worker.kill()
        return f"its process died {ATTEMPTS} times, the last time with {worker.close()}"


def serve(parent: int) -> None:
    """Work out points that come on standard input; outcomes go to standard output, until the study ends."""
    import planner.search.one_way
    import planner.search.simulation  # noqa: F401 - loaded before the first point, not in it

    end_with(parent)
    points, outcomes = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not stand between outcomes
    with suppress(EOFError, BrokenPipeError):
        context: Any = pickle.load(points)
        while True:
            pickle.dump(run_point(context, pickle.load(points)), outcomes)
            outcomes.flush()
