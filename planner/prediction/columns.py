"""Columns of a table of queries: which of them a header means, whatever people call them."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from calibrate.io.tables import other_separator
from simulator.errors import InputError
from simulator.near import SURE, in_letters

SPELLINGS = {
    "gpu": ("gpu", "gpu kind", "gpu type", "gpu name", "gpu model"),
    "model": ("model", "model name", "network", "architecture"),
    "input": ("input", "input size", "input shape", "image size", "img size", "resolution"),
    "precision": ("precision", "dtype", "torch dtype", "data type"),
    "runtime": ("runtime", "framework", "backend"),
    "batch": ("batch", "batch size", "bs"),
}
"""Names that people give to each column; upper and lower case and marks between words are alike."""
COLUMNS = tuple(SPELLINGS)
NEEDED = ("gpu", "model")
MEANT = {in_letters(name): column for column, named in SPELLINGS.items() for name in named}


def header(path: Path, cells: Sequence[str]) -> list[str]:
    """Columns that the first line of a table means; others as they are written. InputError where one of them nearly is
    one of those, where two are the same, or where one is missing."""
    written = [cell.strip() for cell in cells]
    if between := other_separator(written):
        raise InputError(f"{path}:1: {between}")
    columns = [MEANT.get(in_letters(name), "") for name in written]
    for name, column in zip(written, columns, strict=True):
        if not column and (near := _nearly(name, [one for one in COLUMNS if one not in columns])):
            raise InputError(f"{path}:1: column `{name}` is not known. Did you mean `{near}`? Mend or remove it.")
    for column in COLUMNS:
        said = [f"`{name}`" for name, one in zip(written, columns, strict=True) if one == column]
        if len(said) > 1:
            raise InputError(
                f"{path}:1: has column `{column}` {len(said)} times: {' and '.join(said)}. Keep one of them."
            )
    if missing := [column for column in NEEDED if column not in columns]:
        raise InputError(
            f"{path}:1: has no column {' and '.join(missing)}. Write a first line such as {','.join(COLUMNS)}"
        )
    return [column or name for name, column in zip(written, columns, strict=True)]


def _nearly(written: str, lacking: Sequence[str]) -> str:
    """The lacking column that a name misspells, or is but for one more word, as `max batch`; empty: none."""
    spelled = [letters for letters, column in MEANT.items() if column in lacking]
    near = get_close_matches(in_letters(written), spelled, n=1, cutoff=SURE)
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", written).lower())
    parts = {MEANT.get("".join(words[:at] + words[at + 1 :]), "") for at in range(len(words))}
    return MEANT[near[0]] if near else next((column for column in lacking if column in parts), "")
