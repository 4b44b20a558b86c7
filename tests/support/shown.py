"""The commands that README and the tour show."""

import re
import shlex
from itertools import pairwise

from support.paths import ROOT

PAGES = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/tour.md"))
BLOCKS = "\n".join(re.findall(r"^```console\n(.*?)^```", PAGES, re.M | re.S))
SHOWN = list(dict.fromkeys(re.findall(r"^\$ (planner .*?)(?:\s+# exit (\d))?$", BLOCKS, re.M)))
TRAINED_IN_TEST_JOINT = "planner merge train scenarios/merge/digits.yaml --device cpu"
"""Takes a minute: run once, and looked at, there."""


def chains(shown):
    """Commands that work on from each other's files, in order; each chain can run in a folder of its own."""
    found, made = [], {}
    for number, (command, code) in enumerate(shown):
        if command == TRAINED_IN_TEST_JOINT:
            continue
        words = shlex.split(command)
        before = {made[name] for word in words for name in (word, word.partition("/")[0]) if name in made}
        chain = sorted([(number, words, int(code or 0)), *(step for i in before for step in found[i])])
        made = {name: len(found) if i in before else i for name, i in made.items()}
        found = [[] if i in before else steps for i, steps in enumerate(found)] + [chain]
        named = [after for word, after in pairwise(words) if word in {"-o", "--output", "--out", "--record"}]
        default = {"plan": [] if code else ["plan.json"], "init": words[2:]}.get(words[1], [])
        made |= dict.fromkeys(named or default, len(found) - 1)
    return [[(words, code) for _, words, code in chain] for chain in found if chain]
