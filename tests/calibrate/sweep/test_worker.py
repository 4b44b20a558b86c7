"""The process that measures: its messages, and that it never outlives the one that asked."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.forks import forking

from calibrate.devices.device import Cpu, OutOfMemoryError
from calibrate.io.points import Point, Status, What
from calibrate.sweep.supervisor import NoDeviceError, Worker
from calibrate.sweep.worker import in_one_line, measured
from calibrate.zoo.sources import ZooError

POINT = Point(what=What.LATENCY, model="m", batch=2)


def ended_by(error: BaseException) -> tuple[Status, str]:
    def measure(_: Point) -> tuple[object, object, object]:
        raise error

    outcome = measured(Cpu(), POINT, measure)
    assert outcome.point == POINT
    return outcome.status, outcome.message


def test_what_user_code_raises_costs_a_point_and_is_one_line() -> None:
    assert ended_by(RuntimeError("two\n  lines.")) == (Status.FAILED, "RuntimeError: two lines")
    assert ended_by(SystemExit(3)) == (Status.FAILED, "SystemExit: 3")
    assert ended_by(RecursionError()) == (Status.FAILED, "RecursionError")


def test_the_end_of_memory_is_told_from_other_errors() -> None:
    assert ended_by(OutOfMemoryError("m: out of memory"))[0] is Status.OUT_OF_MEMORY
    assert ended_by(MemoryError())[0] is Status.OUT_OF_MEMORY
    assert ended_by(RuntimeError("DefaultCPUAllocator: can't allocate memory"))[0] is Status.OUT_OF_MEMORY


def test_figures_that_are_none_are_refused() -> None:
    outcome = measured(Cpu(), POINT, lambda _: ({"energy_j": float("nan")}, {}, {}))
    assert outcome.status is Status.FAILED
    assert outcome.message.startswith("its figures: ValueError: Out of range float values")
    assert outcome.values == {}


def test_our_own_errors_speak_for_themselves() -> None:
    assert in_one_line(ZooError("m: no such model.")) == "m: no such model"


PARENT = """
import subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-m", "calibrate.sweep.worker", "cpu", str(__import__("os").getpid())],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
)
print(child.pid, flush=True)
child.stdout.readline()
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a worker ends when it next looks for a point")
@pytest.mark.parametrize("ready", [False, True])
def test_a_worker_dies_with_the_process_that_asked(ready: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        worker = Path("/proc", parent.stdout.readline().strip())
        if ready:
            assert parent.stdout.readline() == "ready\n"
        os.kill(parent.pid, signal.SIGKILL)
    until_s = time.monotonic() + 300
    while alive(worker):
        assert time.monotonic() < until_s
        time.sleep(0.05)


def alive(process: Path) -> bool:
    """Neither gone nor a zombie that nobody has buried yet."""
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_device_that_is_not_there_is_said_by_the_worker() -> None:
    with forking(), pytest.raises(NoDeviceError, match=r"--device: cuda:99 is not there"):
        Worker("cuda:99", lambda: None)
