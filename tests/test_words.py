"""One word for one thing: words that the glossary of docs/concepts.md replaces appear nowhere."""

import re

import pytest
from support.paths import ROOT

REPLACED = {
    "foretold": "predicted",
    "foretell": "predict",
    "foretells": "predicts",
    "promise": "SLO",
    "promises": "SLOs",
    "promised": "SLO",
    "card": "GPU",
    "cards": "GPUs",
    "caution": "warning",
    "cautions": "warnings",
    "taken for granted": "assumed",
    "way out": "remedy",
    "luck": "seed",
}
WORDS = re.compile(rf"\b({'|'.join(REPLACED)})\b", re.IGNORECASE)
PLACES = ("planner", "calibrate", "simulator", "docs", "scenarios", "README.md", "CONTRIBUTING.md")
KINDS = (".py", ".md", ".yaml", ".j2", ".js", ".css", ".toml")


def texts():
    """Every file that somebody reads; what others wrote, such as sources of prices, is theirs."""
    for place in PLACES:
        root = ROOT / place
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.suffix in KINDS and "data" not in path.parts and "profiles" not in path.parts:
                yield path


@pytest.mark.parametrize("place", PLACES)
def test_replaced_words_appear_nowhere(place):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word[0]} -> {REPLACED[word[0].lower()]}"
        for path in texts()
        if path.is_relative_to(ROOT / place)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for word in WORDS.finditer(line)
    ]
    assert not found, "\n".join(found)
