"""Cluster: reaches a Ray cluster that is there, for studies and for calibration, and says in one line why it cannot.

Ray is imported only here and in `calibrate.cluster.everywhere`.
"""

import logging
import os
import socket
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from types import ModuleType

from calibrate.io.files import one_line
from calibrate.io.process import last_line
from simulator.errors import InputError

ANSWER_S = 10.0
"""A cluster that has not answered by then is none, or wants another token."""
LOOK_S = 0.5
"""How often it is looked whether it has."""


class ClusterError(InputError):
    """A cluster that cannot be reached, or cannot do what is asked; the text is one line."""


def connect(address: str) -> ModuleType:
    """Ray, connected to the cluster at `address`. ClusterError where none answers in time."""
    if find_spec("ray") is None:
        raise ClusterError("--engine ray takes Ray: pip install 'gpu-capacity-planner[cluster]'.")
    if _has_token():
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # read when Ray is imported
    if why := _closed(address) or _refusal(address):
        raise ClusterError(
            f"--address {address}: no Ray cluster answers there: {why}. Start one with `ray start --head`, or name"
            " another, e.g. ray://10.0.0.1:10001."
        )
    import ray

    return ray


def _has_token() -> bool:
    """True where there is a token to show. By itself Ray shows it to `auto`, and not to a cluster that is named."""
    kept = Path.home() / ".ray" / "auth_token"
    return bool(os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")) or kept.is_file()


def _closed(address: str) -> str:
    """Why nothing listens there; empty where something does, or where Ray has to find out what is meant."""
    host, _, port = address.removeprefix("ray://").partition("/")[0].rpartition(":")
    if not host or not port.isdigit():
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S / 2).close()
    except (OSError, OverflowError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""


def _refusal(address: str) -> str:
    """Why the cluster does not let us in; empty where it does."""
    came: SimpleQueue[BaseException | None] = SimpleQueue()
    with tempfile.TemporaryFile() as errors:
        # Ray tries on for minutes, which is not waited for; the thread ends with it or with this process.
        threading.Thread(target=_init, args=(address, os.dup(errors.fileno()), came), daemon=True).start()
        give_up_s = time.monotonic() + ANSWER_S
        while time.monotonic() < give_up_s:
            with suppress(Empty):
                error = came.get(timeout=LOOK_S)
                return in_one_line(error) if error else ""
            if b"InvalidAuthToken" in os.pread(errors.fileno(), 1 << 20, 0):
                return "it wants another token, in ~/.ray/auth_token or RAY_AUTH_TOKEN"
    return f"nothing came for {ANSWER_S:g} s; if it is one, look at its token in ~/.ray/auth_token or RAY_AUTH_TOKEN"


def _init(address: str, errors: int, came: "SimpleQueue[BaseException | None]") -> None:
    """Connect, and hand over the error or None. Meanwhile what is not Python's own writes to the file `errors`."""
    python, fd = sys.stderr, os.dup(2)
    sys.stderr = open(fd, "w", buffering=1, encoding="utf-8")  # noqa: SIM115 - until the other is back
    os.dup2(errors, 2)
    error: BaseException | None = None
    try:
        import ray

        logging.getLogger("ray").setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except BaseException as raised:
        error = raised
    os.dup2(fd, 2)
    sys.stderr.close()
    sys.stderr = python
    os.close(errors)
    came.put(error)


def in_one_line(error: BaseException) -> str:
    """The error alone, without the traceback that Ray puts before it."""
    text = str(getattr(error, "cause", None) or error)
    return one_line(f"{type(error).__name__}: {last_line(text)}").rstrip(".")
