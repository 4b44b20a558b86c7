"""The commands `planner profiles`: what models cost on GPUs."""

from pathlib import Path
from typing import Annotated

import typer

from planner import api
from planner.catalog.knowledge import knowledge
from planner.console.options import Catalogs, Form, Profiles
from planner.console.output import PLAIN, emit
from planner.model.choices import Picture
from planner.units.writing import Format, stdout_screen

app = typer.Typer(help="What models cost on GPUs.", **PLAIN)


@app.command("list")
def profiles_list(profiles: Profiles = None, catalog: Catalogs = None) -> None:
    """List what is known about models on GPUs."""
    from planner.show.text.listings import profile_list

    emit(profile_list(api.profiles_list(profiles, catalog), stdout_screen()))


@app.command("show")
def profiles_show(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="Only on this kind of GPU.")] = None,
    profiles: Profiles = None,
    catalog: Catalogs = None,
) -> None:
    """Show all figures of a model, and where they come from."""
    from planner.show.text.listings import choose, profile_show

    _, library = knowledge(catalog, profiles)
    screen = stdout_screen()
    parts = [profile_show(profile, screen, library.measured(profile)) for profile in choose(library, model, gpu)]
    emit("\n".join(parts))


@app.command("table")
def profiles_table(
    models: Annotated[list[str] | None, typer.Argument(metavar="[MODEL...]", help="Some models; else all.")] = None,
    batches: Annotated[str, typer.Option(metavar="N,...", help="Batch sizes.")] = "1,2,4",
    gpu: Annotated[
        str | None, typer.Option(metavar="KIND", help="On this kind of GPU; what nobody measured is predicted.")
    ] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="At this precision, e.g. amp.")] = None,
    form: Form = Format.TABLE,
    profiles: Profiles = None,
    catalog: Catalogs = None,
) -> None:
    """Memory and time to load models and to run them, side by side: measured, published and predicted apart."""
    from calibrate.sweep.request import batch_sizes
    from planner.show.documents.costs import costs_text

    wanted = batch_sizes(batches)
    costs = api.profiles_table(
        *(models or ()), batches=wanted, gpu=gpu, precision=precision, profiles=profiles or (), catalog=catalog or ()
    )
    emit(costs_text(costs, form, stdout_screen()))


@app.command("device")
def profiles_device(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]")] = None,
    profiles: Profiles = None,
) -> None:
    """Show what was probed of measured devices: copies, products, launches, working sets, data loading, power."""
    from planner.show.text.listings import device_show

    shown = [device_show(raw, stdout_screen()) for raw in api.profiles_device(kind, profiles=profiles or ())]
    emit("\n".join(shown))


@app.command("join")
def profiles_join(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="What calibrations wrote.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the joined profiles go.")],
) -> None:
    """Join calibrations made minutes, hosts or GPUs apart into profiles that say how far they differ."""
    joined = api.profiles_join(*folders, out=out)
    emit("".join(f"{one.text}\nWrote {one.path}\n" for one in joined))


@app.command("plot")
def profiles_plot(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The PNG to write.")],
    what: Annotated[
        Picture, typer.Option(help="Time by batch size, memory by kind, or operations and working set by layer.")
    ] = Picture.LATENCY,
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="On this kind of GPU.")] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="At this precision, e.g. amp.")] = None,
    profiles: Profiles = None,
    catalog: Catalogs = None,
) -> None:
    """Draw what a model costs: measured points, fit and band; memory; layers."""
    profile = api.profiles_plot(model, out, what, gpu, precision, profiles=profiles, catalog=catalog)
    emit(f"Wrote {out}: {what} of {profile.model} on {profile.gpu} at {profile.precision}.\n")
