"""The commands that README shows."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
SHOWN = re.findall(
    r"^\$ (planner .*?)(?:\s+# exit (\d))?$",
    "\n".join(re.findall(r"^```console\n(.*?)^```", README, re.M | re.S)),
    re.M,
)
TRAINED_IN_TEST_JOINT = "planner merge train scenarios/merge/digits.yaml --device cpu"
"""Takes a minute: run once, and looked at, there."""


def chains(shown):
    """Commands that work on from each other's files, in order; each chain can run in a folder of its own."""
    chains, made = [], {}
    for command, code in shown:
        if command == TRAINED_IN_TEST_JOINT:
            continue
        words = shlex.split(command)
        chain = next((made[word] for word in words if word in made), None)
        if chain is None:
            chain = []
            chains.append(chain)
        chain.append((words, int(code or 0)))
        named = [after for word, after in pairwise(words) if word in {"-o", "--output", "--out", "--record"}]
        made |= dict.fromkeys(named or {"plan": ["plan.json"], "init": words[2:]}.get(words[1], []), chain)
    return chains
