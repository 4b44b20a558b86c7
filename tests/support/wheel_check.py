"""`make wheel-check`: the wheel alone, without this folder, runs what README shows and gives the answer that it shows.

`python tests/support/wheel_check.py README.md` in an environment that has the wheel.
"""

import re
import shlex
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from walks import ageless  # beside this file

PLANNER = Path(sys.executable).with_name("planner")
CALLS = """
from planner import plan
answer = plan("scenarios/trace.yaml")
assert answer.feasible and answer.models["tagging"].slo_met
"""


def run(words: list[str], folder: str) -> str:
    """Standard output of a command in a folder; SystemExit where it fails."""
    began = time.monotonic()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}: exit code {done.returncode}\n{done.stderr}")
    print(f"  {time.monotonic() - began:5.1f} s  {shlex.join(words[1:]).splitlines()[0]}")
    return done.stdout


def check(readme: str) -> None:
    """Every command of README in an empty folder, the first with its whole answer, and its lines of Python."""
    shown = readme.partition("```text\n")[2].partition("```")[0]
    commands = [shlex.split(line)[1:] for line in re.findall(r"^\$ (planner .*)$", readme, re.MULTILINE)]
    with tempfile.TemporaryDirectory() as folder:
        answers = [run([str(PLANNER), *words], folder) for words in commands]
        run([sys.executable, "-c", CALLS], folder)
    assert ageless(answers[0]) == ageless(shown), f"{commands[0]}: README shows another answer:\n{answers[0]}"


if __name__ == "__main__":
    print(f"gpu-capacity-planner {version('gpu-capacity-planner')}, installed from its wheel:")
    check(Path(sys.argv[1]).read_text(encoding="utf-8"))
