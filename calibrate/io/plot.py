"""Plots: what was measured of a model, as PNG. Needs matplotlib, and no torch."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrate.io.files import MADE, FileError, demand_ours, replacing_named
from calibrate.io.picture import Picture
from calibrate.io.points import OPTIMIZERS
from simulator.errors import InputError
from simulator.world.profile import Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE, GREY = "#2563a8", "#d9722e", "#3d8f57", "#8a5ba6", "#8c8c8c"
KINDS = {"weights": BLUE, "gradients": ORANGE, "optimizer": PURPLE, "activations": GREEN}
NAMES_MAX = 40
"""Layers up to which each is named on its axis; more would overlap."""
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


class PlotError(InputError):
    """A picture that cannot be drawn; the text says why and what to do, in one line."""


def check_picture(
    path: Path, suffixes: Sequence[str] = (".png",), option: str = "--plot", made: Path | None = None
) -> None:
    """PlotError where no picture can be written there, before anything is worked out; the folder `made` will be."""
    if find_spec("matplotlib") is None:
        raise PlotError("matplotlib is not installed: nothing can be drawn. pip install matplotlib.")
    if path.suffix.lower() not in suffixes:
        raise PlotError(f"{option} {path}: must end in {' or '.join(suffixes)}. Name such a file.")
    try:
        demand_ours(path, "picture")
    except FileError as error:
        raise PlotError(f"{option} {path}: {error}. Name another file, or remove this one.") from None
    if not path.parent.is_dir() and (made is None or path.parent.resolve() != made.resolve()):
        raise PlotError(f"{option} {path}: {path.parent} is no directory. Name a file in one that exists.")


def plot(profile: Profile, measured: Mapping[str, Any], what: Picture, path: Path) -> None:
    """Draw one of the pictures of `profile` to `path`, a PNG. `measured` is its file's mapping of that name."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotError("matplotlib is not installed: nothing can be drawn. pip install matplotlib.") from None
    draw: dict[Picture, Callable[[Figure, Profile, Mapping[str, Any]], None]] = {
        Picture.LATENCY: _latency,
        Picture.MEMORY: _memory,
        Picture.LAYERS: _layers,
    }
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        draw[what](figure, profile, measured)
        figure.suptitle(f"{profile.model} on {profile.gpu}, {profile.precision}", x=0.01, ha="left", weight="bold")
        save(figure, path, "-o")


def save(figure: "Figure", path: Path, option: str = "--plot") -> None:
    """Write a picture, as PNG or SVG by its name; PlotError where it cannot be written."""
    form = path.suffix.lower().removeprefix(".")
    try:
        with replacing_named(path) as file:
            figure.savefig(file, format=form, dpi=DOTS_PER_INCH, metadata={SAYS_WHO[form]: MADE})
    except OSError as error:
        raise PlotError(f"{path}: cannot be written ({error.strerror}). Name another file with {option}.") from error


# Latency


def _latency(figure: "Figure", profile: Profile, measured: Mapping[str, Any]) -> None:
    time, rate = figure.subplots(1, 2)
    curve = profile.latency
    x, y = np.array(curve.x), np.array(curve.y)
    across = np.geomspace(x[0], x[-1], 200) if x[-1] > x[0] else x
    fitted = np.array([curve(batch) for batch in across])
    for batch, point in measured.get("points", {}).get("latency", {}).items():
        taken_ms = 1e3 * np.array(point["samples"].get("wall_s", []))
        time.plot(np.full(taken_ms.size, int(batch)), taken_ms, "_", color=GREY, alpha=0.25, markersize=7, zorder=1)
    _band(time, profile, across, 1e3 * fitted)
    time.plot(across, 1e3 * fitted, color=BLUE, label=_form(profile))
    here = bool(measured.get("points", {}).get("latency"))
    label = "mean, measured" if here else str(profile.latency_evidence)
    time.plot(x, 1e3 * y, "o", color=ORANGE, label=label, zorder=3)
    rate.plot(across, across / fitted, color=BLUE)
    rate.plot(x, x / y, "o", color=ORANGE)
    knee = measured.get("knee")
    if knee and x[0] < knee < x[-1]:
        for axes in (time, rate):
            axes.axvline(knee, color=GREY, linestyle=":", label=f"knee at {knee:.3g}")
    for axes, title in ((time, "Time of a batch, ms"), (rate, "Samples a second")):
        axes.set(title=title, xlabel="batch size", xscale="log", yscale="log")
        _ticks(axes, curve.x)
    time.legend(fontsize="small")


def _band(axes: "Axes", profile: Profile, across: Any, fitted: Any) -> None:
    band = profile.latency_fit.band if profile.latency_fit else None
    if band:
        label = f"90 % of unmeasured batches: within {band:.1%}"
        axes.fill_between(across, fitted / (1 + band), fitted * (1 + band), color=BLUE, alpha=0.15, lw=0, label=label)


def _form(profile: Profile) -> str:
    quality = profile.latency_fit
    if quality is None:
        return "straight lines between"
    if quality.error_mean is None or quality.error_max is None:
        return f"fit: {quality.form}, too few points to judge it"
    worst = f"worst {quality.error_max:.1%} at {quality.error_max_at:g}"
    return f"fit: {quality.form}, held-out error {quality.error_mean:.1%}, {worst}"


def _ticks(axes: "Axes", batches: Sequence[float]) -> None:
    """The measured batches as plain numbers; a log axis alone would write powers of ten."""
    from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

    axes.set_xticks(list(batches), [f"{batch:g}" for batch in batches])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    for formatted in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatted(ScalarFormatter())


# Memory


def _memory(figure: "Figure", profile: Profile, measured: Mapping[str, Any]) -> None:
    points = measured.get("points", {})
    training = {name: points[f"memory.{name}"] for name in OPTIMIZERS if f"memory.{name}" in points}
    inference, *others = figure.subplots(1, 1 + len(training), squeeze=False)[0]
    batches = [f"{batch:g}" for batch in profile.workspace.x]
    weights_bytes = [profile.weight_bytes] * len(batches)
    parts = {"weights": _millions(weights_bytes), "activations": _millions(profile.workspace.y)}
    _stack(inference, batches, parts, KINDS)
    inference.set_title(f"Inference, MB{_limit(measured, 'inference')}")
    for axes, (optimizer, by_batch) in zip(others, training.items(), strict=True):
        good = {batch: point["values"] for batch, point in by_batch.items() if point["status"] == "ok"}
        held = {name: _millions([values.get(f"{name}_bytes", 0.0) for values in good.values()]) for name in KINDS}
        _stack(axes, list(good), held, KINDS)
        axes.set_title(f"Training with {optimizer}, MB{_limit(measured, f'training.{optimizer}')}")
    shown = [inference, *others]
    for axes in shown:
        axes.set_xlabel("batch size")
    # The legend of training, where there is any: it has all kinds.
    handles, labels = shown[-1].get_legend_handles_labels()
    shown[-1].legend(handles[::-1], labels[::-1], fontsize="small", loc="upper left")


def _limit(measured: Mapping[str, Any], phase: str) -> str:
    fails = measured.get("limits", {}).get(phase, {}).get("fails")
    return f" (batch {fails} does not fit)" if fails else ""


# Layers


def _layers(figure: "Figure", profile: Profile, measured: Mapping[str, Any]) -> None:
    layers = measured.get("layers") or []
    if not layers:
        remedy = f"Measure it: planner calibrate --models {profile.model}"
        raise PlotError(f"{profile.model} on {profile.gpu}: its layers are not known. {remedy}.")
    figure.set_size_inches(9, 6)
    operations, held = figure.subplots(2, 1, sharex=True)
    names = [str(layer["name"]) for layer in layers]
    _stack(operations, names, {"operations": _column(layers, "flops")}, {"operations": BLUE})
    operations.set_title("Operations of a sample, million (a multiply-add is two)")
    parts = {"input": "input_bytes", "output": "output_bytes", "weights": "weight_bytes"}
    _stack(
        held,
        names,
        {name: _column(layers, key) for name, key in parts.items()},
        {"input": GREEN, "output": ORANGE, "weights": BLUE},
    )
    held.set_title("Working set of a sample, MB")
    held.legend(fontsize="small", ncols=3)
    if len(names) > NAMES_MAX:
        held.set_xticks([])
        held.set_xlabel(f"{len(names)} layers, in the order they run")
    else:
        held.tick_params(axis="x", labelrotation=90, labelsize="small")


def _column(layers: Sequence[Mapping[str, Any]], key: str) -> Any:
    return _millions([layer.get(key, 0) for layer in layers])


def _millions(values: Sequence[float]) -> Any:
    return np.array(values) / 1e6


def _stack(axes: "Axes", names: Sequence[str], parts: Mapping[str, Any], colors: Mapping[str, str]) -> None:
    """Bars on top of one another. A layer that runs twice has two bars, so places are numbers."""
    places = np.arange(len(names))
    below = np.zeros(len(names))
    for name, height in parts.items():
        if height.any():
            axes.bar(places, height, 0.8, bottom=below, label=name, color=colors[name])
            below = below + height
    axes.set_xticks(places, names)
    axes.grid(visible=False, axis="x")
