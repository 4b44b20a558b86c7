"""Imports: what `planner profiles import` makes of files, or the line in which it says why it makes nothing."""

import json
from pathlib import Path

from support.commands import planner


def imported(tmp_path: Path, *words: object) -> dict[str, object]:
    """The JSON of the profile that an import makes."""
    code, _, said = planner("profiles", "import", *words, "--out", tmp_path / "made")
    assert (code, said) == (0, "")
    [path] = (tmp_path / "made").rglob("*.json")
    read: dict[str, object] = json.loads(path.read_text())
    return read


def refused(tmp_path: Path, *words: object) -> str:
    """The one line of an import that makes nothing."""
    code, shown, said = planner("profiles", "import", *words, "--out", tmp_path / "none")
    assert (code, shown, said.count("\n"), (tmp_path / "none").exists()) == (2, "", 1, False), said
    return said
