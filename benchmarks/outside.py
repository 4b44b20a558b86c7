"""From outside: what the benchmarks that judge plans have in common - a table that grows, and the planner's command."""

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 900.0
"""After which a command is given up."""
FEASIBLE, INFEASIBLE, GIVEN_UP = 0, 3, 124
"""Exit codes."""
Line = TypeVar("Line")


def each(judge: Callable[[int], Line], given: Namespace, head: str) -> list[Line]:
    """What comes of each seed, printed as a line of a table as soon as it and all before it are known."""
    print(head)
    lines = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for line in pool.map(judge, range(given.first_seed, given.first_seed + given.count)):
            print(line, flush=True)
            lines.append(line)
    return lines


@dataclass(frozen=True, slots=True)
class Ran:
    """One of the planner's commands when it was done."""

    code: int
    answer: dict[str, Any]
    """Empty where there is none."""
    error: str
    """The last line it said."""

    @property
    def cost_usd_per_hour(self) -> float | None:
        """Of a plan that meets every SLO, as it says."""
        best = self.answer.get("recommendation", {})
        return best["cost_usd_per_hour"] if best.get("feasible") else None


def planner(*words: object) -> Ran:
    """`planner WORDS --quiet --format json` of this checkout, in a process of its own."""
    command = [sys.executable, "-m", "planner", *map(str, words), "--quiet", "--format", "json"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return Ran(GIVEN_UP, {}, f"not done after {LIMIT_S:g} s")
    answer = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return Ran(done.returncode, answer, (done.stderr.strip().splitlines() or [""])[-1])


class Watch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.began_s = perf_counter()

    def __str__(self) -> str:
        return f"{perf_counter() - self.began_s:5.0f} s"
