"""What a person waits for: whole-process times of the command line, and how far an answer is from its lower bound."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent


class CommandError(RuntimeError):
    """A command that ended with another status than 0."""


def process_s(arguments: list[str], times: int) -> float:
    """Shortest of several whole-process times of `python ARGUMENTS`."""
    return min(_once_s(arguments) for _ in range(times))


def _once_s(arguments: list[str]) -> float:
    began_s = perf_counter()
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    took_s = perf_counter() - began_s
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
        raise CommandError(f"exit {done.returncode}: {last}")
    return took_s


@dataclass(frozen=True, slots=True)
class Planned:
    """One scenario, answered."""

    process_s: float
    cost_usd_per_hour: float
    lower_bound_usd_per_hour: float

    @property
    def gap(self) -> float:
        """Share of the cost that could still be saved at most."""
        return 1 - self.lower_bound_usd_per_hour / self.cost_usd_per_hour


def plan(scenario: str, times: int) -> Planned:
    """`planner plan` on one of the shipped scenarios; its plan.json goes to a folder that is removed."""
    with TemporaryDirectory() as folder:
        kept = Path(folder) / "plan.json"
        took_s = process_s(["-m", "planner", "plan", f"scenarios/{scenario}", "--quiet", "-o", str(kept)], times)
        answer = json.loads(kept.read_text(encoding="utf-8"))["recommendation"]
    return Planned(took_s, answer["cost_usd_per_hour"], answer["lower_bound_usd_per_hour"])
