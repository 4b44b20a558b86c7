"""`python -m planner` is `planner`."""

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress


def main() -> None:
    """Run the command line. Ctrl-C while it is still imported is a line too; what `timeout` sends is one."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        from planner.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted before there was an answer.\n")
        sys.exit(130)


def run() -> None:
    """The same as a process, which ends at once: Python would free one by one, for a third of a second, what the system
    frees anyway."""
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, int) and threading.active_count() == 1:
            _leave(ended.code)
        raise


def _leave(status: int) -> None:
    """End the process; returns where what was printed cannot be written, which Python tells."""
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        os._exit(status)


if __name__ == "__main__":
    run()
