"""Several sessions by one command: the same calibration again and again, each in processes of its own, then joined."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from calibrate.assembling.telling import say
from calibrate.sessions.join import join
from calibrate.sweep.request import Request

INTERRUPTED = 128
"""Exit codes above it say that a signal ended a session."""


def measure_sessions(wanted: Request, measure: Callable[[Request], int]) -> int:
    """Measure `wanted` as often as it says, so far apart as it says, and join what came out; exit code.

    Each session has a folder beside `--out` and an order of its own. With `--resume`, one that is whole is not begun
    again. A model that cannot be measured costs its figures, and the exit code.
    """
    folders, worst = session_folders(wanted), 0
    for number, folder in enumerate(folders):
        begun = folder.is_dir() and any(folder.iterdir())
        if number and not (begun and wanted.resume):
            time.sleep(wanted.apart_s)
        say(f"Session {number + 1} of {len(folders)}, in {folder}:")
        code = measure(replace(wanted, out=folder, seed=wanted.seed + number, resume=wanted.resume and begun))
        if code > INTERRUPTED:
            return code
        worst = max(worst, code)
    for joined in join(folders, wanted.out):
        say(joined.text)
        print(f"Wrote {joined.path}", flush=True)
    return worst


def session_folders(wanted: Request) -> list[Path]:
    """`profiles-sessions/1` and so on, beside `profiles`, so that no plan reads a session as a profile."""
    beside = wanted.out.with_name(f"{wanted.out.name}-sessions")
    return [beside / str(number + 1) for number in range(wanted.sessions)]
