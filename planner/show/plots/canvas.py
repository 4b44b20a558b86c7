"""A sheet that matplotlib draws on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from calibrate.io.plot import STYLE, PlotError, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def canvas(path: Path, width_in: float, height_in: float) -> Iterator["Figure"]:
    """A figure of so many inches, written when all is drawn, PNG or SVG by its name; PlotError where it cannot be."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotError("matplotlib is not installed: nothing can be drawn. pip install matplotlib.") from None
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        yield figure
        save(figure, path)
