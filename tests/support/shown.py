"""The commands that README and the documents show: which pages are walked, and what is run by no test."""

import re
import shlex
from itertools import pairwise

from support.paths import ROOT
from support.walks import steps

PAGES = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/tour.md"))
BLOCKS = "\n".join(re.findall(r"^```console\n(.*?)^```", PAGES, re.M | re.S))
SHOWN = list(dict.fromkeys(re.findall(r"^\$ (planner .*?)(?:\s+# exit (\d))?$", BLOCKS, re.M)))
TRAINED_IN_TEST_JOINT = "planner merge train scenarios/merge/digits.yaml --device cpu"
"""Takes a minute: run once, and looked at, there."""
WEIGHED_IN_TEST_MERGED = "planner plan scenarios/edge-box.yaml --set merging=auto -o shop.json"
LOOKED_AT = {TRAINED_IN_TEST_JOINT, WEIGHED_IN_TEST_MERGED, "planner doctor --device cpu"}
"""The same of all such: the doctor is asked in `tests/calibrate/test_cli.py`."""

DOCS = ROOT / "docs"
WALKED = [
    *sorted((DOCS / "howto").glob("*.md")),
    *(DOCS / f"{name}.md" for name in ("deploying", "students", "merging", "profile", "horizons", "studies")),
]
"""Their answers rest on shipped figures, the same everywhere: `tests/test_walks.py` runs them from top to end."""
RUN_THERE = [["planner", *step.words] for page in WALKED for step in steps(page.read_text(encoding="utf-8"))]
UNRUN = {
    "calibrate --engine ray": "needs a cluster of Ray",
    "calibrate --device cpu --models lenet": "minutes of measuring; the tutorial calibrates a smaller model",
    "calibrate --models lecture --sessions 3": "minutes of measuring, minutes apart",
    "profiles show lenet --profiles profiles": "shows what was measured above it",
    "profiles join": "joins what several calibrations wrote",
    "profiles import": "another tool's files; tests/planner/imports reads such ones",
    "plan scenario.yaml": "the reader's own scenario",
    "prices import": "another tool's file; tests/planner/imports reads such ones",
    "prices refresh": "the network",
    "init shop.yaml --from": "another tool's file; tests/planner/imports reads such ones",
    "validate": "runs in real time, or replays such a run; tests/planner/questions/validation runs shorter ones",
}
"""Beginnings of the commands in blocks of other pages, and why no test runs them. Their options are read."""


def chains(shown):
    """Commands that work on from each other's files, in order; each chain can run in a folder of its own. What stands
    alone and is run with a page is left out."""
    found, made = [], {}
    for number, (command, code) in enumerate(shown):
        if command in LOOKED_AT:
            continue
        words = shlex.split(command)
        before = {made[name] for word in words for name in (word, word.partition("/")[0]) if name in made}
        chain = sorted([(number, words, int(code or 0)), *(step for i in before for step in found[i])])
        made = {name: len(found) if i in before else i for name, i in made.items()}
        found = [[] if i in before else steps for i, steps in enumerate(found)] + [chain]
        named = [after for word, after in pairwise(words) if word in {"-o", "--output", "--out", "--record"}]
        default = {"plan": [] if code else ["plan.json"], "init": words[2:]}.get(words[1], [])
        made |= dict.fromkeys(named or default, len(found) - 1)
    return [
        [(words, code) for _, words, code in chain]
        for chain in found
        if chain and not (len(chain) == 1 and chain[0][1] in RUN_THERE)
    ]
