"""Pictures: which of the profiles known is to be drawn, and drawing it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrate.io.plot import check_picture
from calibrate.library.lookup import Library
from planner.catalog.choosing import choose, chosen_of
from planner.model.choices import Picture
from planner.show.charts.kit import png
from planner.show.charts.kit.blocks import Chart
from planner.show.charts.profiles import compared, device_charts, profile_charts
from simulator.errors import InputError
from simulator.world.profile import Profile


def draw(
    library: Library, model: str, gpus: Sequence[str], precision: str | None, what: Picture, path: Path
) -> tuple[Profile, ...]:
    """The profiles that were drawn to `path`; InputError where none is meant, or where they cannot be drawn."""
    check_picture(path, option="-o")
    profiles = tuple(choose_one(library, model, gpu, precision) for gpu in dict.fromkeys(gpus) or (None,))
    if len(profiles) > 1 and what is not Picture.LATENCY:
        raise InputError(f"--gpu: {what} is drawn of one kind of GPU, got {len(profiles)}. Name one, or draw latency.")
    charts = compared(profiles) if len(profiles) > 1 else _charts(profiles[0], library, what)
    kinds = " and ".join(profile.gpu for profile in profiles)
    title = f"{profiles[0].model} on {kinds}, {' and '.join(dict.fromkeys(p.precision for p in profiles))}"
    png.draw(path, charts, title, wide_in=9 if what is Picture.LAYERS else png.WIDTH_IN, option="-o")
    return profiles


def _charts(profile: Profile, library: Library, what: Picture) -> list[list[Chart]]:
    try:
        return profile_charts(profile, library.measured(profile), what)
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        file = library.paths.get((profile.model, profile.gpu, profile.precision), profile.source)
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        raise InputError(f"{file}: measured: is not as `planner calibrate` writes it ({why}). Measure again.") from None


def draw_device(found: Sequence[Mapping[str, Any]], path: Path) -> None:
    """What was probed of a device, as a picture; InputError where there are several, InputError as above."""
    check_picture(path, png.FORMS)
    names = [str(raw.get("gpu", {}).get("name")) for raw in found]
    if len(names) > 1:
        raise InputError(f"--plot: {', '.join(names)} were measured. Name one.")
    png.draw(path, device_charts(found[0]), names[0])


def choose_one(library: Library, model: str, gpu: str | None, precision: str | None) -> Profile:
    """The one profile that is meant, on a GPU that which plans use; InputError where that is none or, on several GPUs,
    not said."""
    if gpu is None:
        on_gpu = chosen_of(library.for_model(model) or library.published_of(model), library, model, gpu)
    else:
        on_gpu = choose(library, model, gpu)
        planned = library.get(model, on_gpu[0].gpu, precision)
        on_gpu = (planned, *on_gpu) if planned else on_gpu
    chosen = [p for p in on_gpu if precision in (None, p.precision)]
    if not chosen:
        known = sorted({p.precision for p in on_gpu})
        raise InputError(f"no profile of `{model}` at `{precision}`. Known: {', '.join(known)}.")
    if len(kinds := {p.gpu for p in chosen}) > 1:
        raise InputError(f"`{model}` has profiles on {', '.join(sorted(kinds))}. Name one with --gpu.")
    return chosen[0]
