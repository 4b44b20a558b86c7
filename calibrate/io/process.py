"""Processes that this one starts: they never outlive it, and they say how they ended."""

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from simulator.machine_code import cores

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal to get when the parent dies."""
LOOK_S = 0.5
"""How often a process looks for its parent where the system does not tell it."""


def python(module: str, function: str) -> list[str]:
    """The command that calls a function with the number of this process, and exits with what it returns."""
    call = f"from {module} import {function}; sys.exit({function}({os.getpid()}))"
    return [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {call}"]


def running(module: str) -> list[str]:
    """The command that runs a module of ours as a program.

    No package is taken from the folder where this program was started: one named `triton` there, empty, would pass for
    the package that torch looks for. A user's own code is found there all the same (`calibrate.zoo.zoo`).
    """
    root = str(Path(__file__).parents[2])  # where the project is not installed
    run = f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return [sys.executable, "-P", "-c", f"import runpy, sys; sys.path.append({root!r}); {run}"]


def end_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have this process get a signal when `parent` ends, however that ends."""
    if sys.platform == "linux":
        # The parent is the thread that started this process, which must live as long as the process is needed.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
        # Where memory ends, the system is to end this process rather than another.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    else:
        threading.Thread(target=_watch, args=(parent, number), daemon=True).start()
    if os.getppid() != parent:
        sys.exit(0)


def _watch(parent: int, number: signal.Signals) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), number)


def ending(code: int) -> str:
    """An exit code in words: `SIGKILL`, `exit code 3`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def last_line(output: str) -> str:
    """The last line of an output that is not empty."""
    lines = output.rstrip().splitlines()
    return " ".join(lines[-1].split()) if lines else ""


BUSY_SHARE = 0.5
"""Load of the last minute, over the cores, from which others disturb the figures."""
ONE_THREAD = (
    "Where others use the cores, threads of one batch wait for each other, which may take a hundred times as long: "
    "put OMP_NUM_THREADS=1 in front"
)
"""Of a processor that computes with several threads."""


def busy_share() -> float:
    """Load of the last minute over the cores that may be used."""
    return os.getloadavg()[0] / cores()
