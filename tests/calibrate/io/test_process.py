"""Processes: they end with the one that started them, by the signal that was asked for, and say how they ended."""

import signal
import subprocess
import sys

import pytest

from calibrate.io.process import ending, last_line

CHILD = """
import os, signal, sys, time
from calibrate.io.process import end_with

def stop(*_):
    print("stopped cleanly", flush=True)
    sys.exit()

signal.signal(signal.SIGTERM, stop)
end_with(os.getppid(), signal.SIGTERM)
print("ready", flush=True)
time.sleep(600)
"""
PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1]])
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process looks for its parent now and then")
def test_a_process_gets_its_signal_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        assert parent.stdout.readline() == "stopped cleanly\n"


def test_an_exit_code_in_words() -> None:
    assert ending(3) == "exit code 3"
    assert ending(-signal.SIGKILL) == "SIGKILL"
    assert ending(-99) == "signal 99"


def test_the_last_line_that_is_not_empty() -> None:
    assert last_line("Traceback\n  ValueError:  no\tsuch thing \n\n") == "ValueError: no such thing"
    assert last_line(" \n") == ""
