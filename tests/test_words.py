"""One word for one thing: words that the glossary of docs/concepts.md replaces appear nowhere."""

import re

import pytest
from support.own_text import taken_apart
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


PACKAGES = ("simulator", "calibrate", "planner")


def test_no_code_takes_our_own_text_apart():
    """Who needs a part of a sentence, a message or a label needs a field that holds it."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    assert len(files) > 200
    found = [f"{place.file}:{place.line} {place.function}: {place.code}" for place in taken_apart(files, ROOT)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("rejection_line(no).partition(':')", 1),
        ("return no.startswith(MADE)", 1),
        ("return no.startswith(END)", 0),
        ("said = rejection_line(no); return said.strip().startswith('No')", 1),
        ("for said in map(str.strip, [rejection_line(no)]): pass", 0),
        ("for said in [rejection_line(no)]: return 'GPU' in said", 1),
        ("return re.search('[0-9]+', f'{rejection_line(no)}.')", 1),
        ("return NUMBER.fullmatch(no.headline)", 1),
        ("return [note.split(': ') for note in no.notes]", 1),
        ("return str(error).removeprefix('--set ')", 1),
        ("return ' '.join(str(error).split())", 0),
        ("return no.model.partition('/')", 0),
        ("return CHIP.sub('', no.gpu)", 1),
        ("return (lambda runtime: runtime.startswith('triton'))(no.runtime)", 1),
        ("return [name for name in no.figures if name.endswith('_flops')]", 1),
        ("return no.model.removesuffix(no.settings.suffix if no.settings else '')", 1),
        ("return no.path.suffix.removeprefix('.')", 0),
        ("return [kind for kind in no.kinds if '-MIG-' not in kind]", 1),
        ("return [kind for kind in no.kinds if SLICE in kind]", 1),
        ("return [kind for kind in no.kinds if kind in MADE]", 0),
        ("return no.text.split('`')", 1),
    ],
)
def test_text_that_is_taken_apart_is_found(tmp_path, line, count):
    (tmp_path / "made.py").write_text(
        f"""
from planner.words.statements import rejection_line

MADE = "# Kinds of GPU of your own."
END = ".json"

class MadeError(ValueError): ...

def reads(no):
    try:
        pass
    except MadeError as error:
        {line}
"""
    )
    assert len(list(taken_apart([tmp_path / "made.py"], tmp_path))) == count
