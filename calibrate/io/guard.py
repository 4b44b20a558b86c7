"""A guard around what a command does: what is raised becomes one line and an exit code."""

import os
import sys
from collections.abc import Callable

from calibrate.io.files import one_line, printable, unusable
from simulator.errors import InputError

BAD_INPUT = 2
INTERNAL = 1


def guarded(work: Callable[[], int]) -> int:
    """The exit code of `work`; what is raised becomes one line."""
    try:
        return work()
    except InputError as error:
        text = printable(str(error))
        print(text if text.endswith((".", "?")) else f"{text}.", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("PLANNER_DEBUG"):
            raise
        if line := unusable(error):
            print(line, file=sys.stderr)
            return BAD_INPUT
        what = one_line(f"{type(error).__name__}: {error}")
        print(f"calibrate: internal error: {what}. PLANNER_DEBUG=1 shows where; please report it.", file=sys.stderr)
        return INTERNAL
