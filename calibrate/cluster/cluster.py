"""Cluster: reaches a Ray cluster that is there, for studies and for calibration, and says in one line why it cannot.

Ray is imported only in the process that `Cluster` starts.
"""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from calibrate.io.files import one_line
from calibrate.io.process import end_with, ending, last_line, python
from simulator.errors import InputError

ANSWER_S = 30.0
"""A cluster that has not answered by then is none, or wants another token."""
KNOCK_S = 5.0
"""A machine that has not taken a connection by then is none."""
LOOK_S = 0.5
"""How often it is looked whether it has."""
LEAVE_S = 10.0
"""Leaving a cluster takes less."""
REMEDY = "What had ended is kept: with --resume the same command goes on, there or with --engine local here"


class ClusterError(InputError):
    """A cluster that cannot be reached, or cannot do what is asked; the text is one line."""


class Cluster:
    """A process of ours that is connected to a cluster, and the line to it.

    Where a cluster is lost, Ray ends the process that is connected, at once and often without a word. So it is not
    this one, which keeps what came.
    """

    def __init__(self, address: str, serve: Callable[[int], None], *given: Any) -> None:
        """`serve` runs in that process, which `reached` connects to `address`, and is `given` this. Starts nothing."""
        self.address, self.serve, self.given = address, serve, given

    def __enter__(self) -> Self:
        """Reach it. ClusterError where none answers in time."""
        if find_spec("ray") is None:
            raise ClusterError("--engine ray takes Ray: pip install 'gpu-capacity-planner[cluster]'.")
        if why := closed(self.address):
            raise self._none_answers(why)
        self.errors = tempfile.TemporaryFile()
        self.line, theirs = Pipe()
        with theirs:
            self.process = subprocess.Popen(
                python(self.serve.__module__, self.serve.__name__),
                stdin=theirs.fileno(),
                stdout=self.errors,
                stderr=self.errors,
                start_new_session=True,  # Ctrl-C in a terminal reaches this process alone
            )
        try:
            self.send((self.address, *self.given))
            self.receive()  # Ray is loaded, which takes as long as it takes
            if why := self._refusal():
                raise self._none_answers(why)
        except BaseException:
            self.process.kill()
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the cluster, which ends what is under way there."""
        self.line.close()
        if any(error):
            self.process.send_signal(signal.SIGINT)  # it may be waiting for the cluster
        try:
            self.process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()

    def send(self, message: Any) -> None:
        """A message to the process. ClusterError where the cluster is lost."""
        try:
            self.line.send(message)
        except OSError:
            raise self._lost() from None

    def receive(self) -> Any:
        """The next message from it. ClusterError where the cluster is lost, or where the message is one."""
        try:
            message = self.line.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if isinstance(message, ClusterError):
            raise message
        return message

    def _none_answers(self, why: str) -> ClusterError:
        return ClusterError(
            f"--address {self.address}: no Ray cluster answers there: {why}. Start one with `ray start --head`, or name"
            " another, e.g. ray://10.0.0.1:10001."
        )

    def _refusal(self) -> str:
        """Why the cluster does not let us in; empty where it does."""
        give_up_s = time.monotonic() + ANSWER_S
        while time.monotonic() < give_up_s:
            if self.line.poll(LOOK_S):
                return str(self.receive())
            if b"InvalidAuthToken" in os.pread(self.errors.fileno(), 1 << 20, 0):  # Ray tries on for minutes
                return "it wants another token, in ~/.ray/auth_token or RAY_AUTH_TOKEN"
        return (
            f"nothing came for {ANSWER_S:g} s; if it is one, look at its token in ~/.ray/auth_token or RAY_AUTH_TOKEN"
        )

    def _lost(self) -> ClusterError:
        """The error to raise once the process has ended, with what it said last."""
        code = self.process.wait()
        self.errors.seek(0)
        line = last_line(self.errors.read().decode(errors="replace"))
        message = re.sub(r"^\[.*?\] (\S+:\d+: )?", "", line).partition(". ")[0].rstrip(".")
        why = one_line(message, 160) or f"Ray ended with {ending(code)}"
        return ClusterError(f"--address {self.address}: the cluster was lost: {why}. {REMEDY}.")


@contextmanager
def reached(parent: int) -> Iterator[tuple[ModuleType, Connection, Any]]:
    """In the process that `parent` has started: Ray, connected; the line to the parent; what it has given.

    When the parent closes the line, or interrupts, the process leaves the cluster.
    """
    end_with(parent)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt), Connection(os.dup(0)) as line:
        address, *given = line.recv()
        if has_token():
            os.environ.setdefault("RAY_AUTH_MODE", "token")  # read when Ray is imported
        import ray

        logging.getLogger("ray").setLevel(logging.ERROR)
        line.send("loaded")
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:
            line.send(in_one_line(error))
            sys.exit(1)
        line.send("")
        try:
            yield ray, line, given
        finally:
            ray.shutdown()


def has_token() -> bool:
    """True where there is a token to show. By itself Ray shows it to `auto`, and not to a cluster that is named."""
    kept = Path.home() / ".ray" / "auth_token"
    return bool(os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")) or kept.is_file()


def closed(address: str) -> str:
    """Why nothing listens there; empty where something does, or where Ray has to find out what is meant."""
    host, _, port = address.removeprefix("ray://").partition("/")[0].rpartition(":")
    if not host or not port.isdigit():
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()
    except (OSError, OverflowError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""


def in_one_line(error: BaseException) -> str:
    """The error alone, without the traceback that Ray puts before it."""
    text = str(getattr(error, "cause", None) or error)
    return one_line(f"{type(error).__name__}: {last_line(text)}").rstrip(".")
