"""Pictures as files: where one may be written, how it looks, and writing it. Needs matplotlib."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrate.io.files import MADE, demand_ours, named, replacing_named, unwritable
from simulator.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 90
STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "xtick.minor.bottom": False,
}


SAYS_WHO = {"png": "Software", "svg": "Creator"}
"""Where a picture says what made it."""


def check_picture(
    path: Path, suffixes: Sequence[str] = (".png",), option: str = "--plot", made: Path | None = None
) -> None:
    """InputError where no picture can be written there, before anything is worked out; the folder `made` will be."""
    if find_spec("matplotlib") is None:
        raise InputError(
            "matplotlib is not installed: nothing can be drawn. pip install matplotlib, or ask for no picture."
        )
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{option} {path}: must end in {' or '.join(suffixes)}. Name such a file.")
    with named(f"{option} {path}", "Name another file, or remove this one"):
        demand_ours(path, "picture")
    if made and path.parent.resolve() == made.resolve():
        return
    if why := unwritable(path):
        raise InputError(f"{option} {path}: cannot be written: {why}. Name another file.")


def save(figure: "Figure", path: Path, option: str = "--plot") -> None:
    """Write a picture, as PNG or SVG by its name; InputError where it cannot be written."""
    form = path.suffix.lower().removeprefix(".")
    with replacing_named(path, f"Name another file with {option}") as file:
        figure.savefig(file, format=form, dpi=DOTS_PER_INCH, metadata={SAYS_WHO[form]: MADE})
