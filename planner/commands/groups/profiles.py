"""The commands `planner profiles`: what models cost on GPUs."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import profiling
from planner.catalog.knowledge import knowledge
from planner.console.options import Catalogs, Form, Profiles, Quiet, Verbose
from planner.console.output import PLAIN, emit, note, quantity, say
from planner.model.choices import MeasurementFormat, Picture
from planner.units.writing import Format, stdout_screen

WHOLE_MAX = 4
"""Profiles that are shown whole: some three screens."""
app = typer.Typer(help="What models cost on GPUs.", **PLAIN)


@app.command("list")
def profiles_list(profiles: Profiles = None, catalog: Catalogs = None, verbose: Verbose = False) -> None:
    """List what is known about models on GPUs.

    A line each, with -v one for each profile.
    """
    from planner.show.text.listings.profiles import model_list, profile_list

    text = profile_list if verbose else model_list
    emit(text(profiling.profiles_list(profiles, catalog), stdout_screen()))
    if not verbose:
        emit("\nOf one: planner profiles show MODEL. A line for each profile: -v.\n")


@app.command("show")
def profiles_show(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="Only on this kind of GPU.")] = None,
    profiles: Profiles = None,
    catalog: Catalogs = None,
    verbose: Verbose = False,
) -> None:
    """Show all figures of a model, and where they come from.

    Of many profiles a line each.
    """
    from calibrate.layers.facts import taken_for
    from planner.catalog.choosing import choose, folders_near
    from planner.show.text.listings.profiles import profile_show, speed_list

    _, library = knowledge(catalog, profiles)
    screen = stdout_screen()
    found = choose(library, model, gpu)
    if not profiles and (more := folders_near(library, model, gpu)):
        note(more.strip())
    if meant := taken_for(model):
        note(f"{model} is taken for {meant}, as published tables mean it.")
    if len(found) > WHOLE_MAX and not verbose:
        emit(speed_list(found, screen))
        one_kind = "" if gpu else ", or --gpu KIND for those of one kind"
        emit(f"\nAll of each: -v{one_kind}.\n")
        return
    emit("\n".join(profile_show(library.roomy(profile), screen, library.measured(profile)) for profile in found))


@app.command("table")
def profiles_table(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL...]", help="Models, or groups such as lecture; else all.")
    ] = None,
    batches: Annotated[str, typer.Option(metavar="N,...", help="Batch sizes.")] = "1,2,4",
    gpu: Annotated[
        str | None, typer.Option(metavar="KIND", help="On this kind of GPU; what nobody measured is predicted.")
    ] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="At this precision, e.g. amp.")] = None,
    form: Form = Format.TABLE,
    profiles: Profiles = None,
    catalog: Catalogs = None,
) -> None:
    """Show memory and time to load and to run models.

    What was measured, published and predicted stands apart.
    """
    from calibrate.sweep.request import batch_sizes
    from planner.show.documents.costs import costs_text

    wanted = batch_sizes(batches)
    costs = profiling.profiles_table(
        *(models or ()), batches=wanted, gpu=gpu, precision=precision, profiles=profiles or (), catalog=catalog or ()
    )
    emit(costs_text(costs, form, stdout_screen()))


@app.command("device")
def profiles_device(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw working sets, copies and data loading, as .png or .svg."),
    ] = None,
    profiles: Profiles = None,
) -> None:
    """Show what was probed of measured devices.

    Copies, products, launches, working sets, data loading, power.
    """
    from planner.show.text.listings.devices import device_show

    found = profiling.profiles_device(kind, profiles=profiles or (), plot=plot)
    emit("\n".join(device_show(raw, stdout_screen()) for raw in found))


@app.command("join")
def profiles_join(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="What calibrations wrote.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the joined profiles go.")],
) -> None:
    """Join calibrations into profiles that say how far they differ.

    They may be made minutes, hosts or GPUs apart.
    """
    joined = profiling.profiles_join(*folders, out=out)
    emit("".join(f"{one.text}\nWrote {one.path}\n" for one in joined))


@app.command("plot")
def profiles_plot(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The PNG to write.")],
    what: Annotated[
        Picture, typer.Option(help="Time by batch size, memory by kind, or operations and working set by layer.")
    ] = Picture.LATENCY,
    gpu: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="On this kind of GPU. Repeatable: times side by side.")
    ] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="At this precision, e.g. amp.")] = None,
    profiles: Profiles = None,
    catalog: Catalogs = None,
    quiet: Quiet = False,
) -> None:
    """Draw what a model costs: times with fit and band, or memory."""
    drawn = profiling.profiles_plot(model, out, what, gpu, precision, profiles=profiles, catalog=catalog)
    places = " and ".join(f"on {profile.gpu} at {profile.precision}" for profile in drawn)
    if not quiet:
        say(f"Wrote {out}: {what} of {drawn[0].model} {places}.")


@app.command("import")
def profiles_import(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What a tool wrote; of one model.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for --profiles.")] = Path("profiles"),
    form: Annotated[
        MeasurementFormat | None, typer.Option("--format", help="Tool, where content does not tell.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="As scenarios name it.")] = None,
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="Kind of GPU it ran on.")] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="e.g. fp16.")] = None,
    runtime: Annotated[str | None, typer.Option(metavar="NAME", help="e.g. tensorrt.")] = None,
    input_size: Annotated[
        str | None, typer.Option("--input", metavar="SIZE", help="One sample: 224, 3x640x640, seq128.")
    ] = None,
    batch: Annotated[
        str | None, typer.Option(metavar="N,...", help="Where files do not say: one for each, in their order.")
    ] = None,
    column: Annotated[str | None, typer.Option(metavar="NAME", help="Where a table has several.")] = None,
    gpu_count: Annotated[int | None, typer.Option(metavar="N", min=1, help="GPUs that MLPerf ran on.")] = None,
    weights: Annotated[str | None, typer.Option(metavar="SIZE", help="e.g. '97 MB'.")] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of the largest batch, besides the weights.")
    ] = None,
    catalog: Catalogs = None,
    quiet: Quiet = False,
) -> None:
    """Make a profile of what another tool measured."""
    from calibrate.sweep.request import batches_in_order
    from planner.units.reading import memory as size

    sizes = batches_in_order("--batch", batch) if batch else []
    profile, path = profiling.profiles_import(
        *files,
        out=out,
        form=form,
        model=model,
        gpu=gpu,
        precision=precision,
        runtime=runtime,
        input=input_size,
        batch=sizes[0] if len(sizes) == 1 else None,
        batches=sizes if len(sizes) > 1 else None,
        column=column,
        gpu_count=gpu_count,
        weight_bytes=quantity("--weights", size, weights) if weights else None,
        memory_bytes=quantity("--memory", size, memory) if memory else None,
        catalog=catalog or (),
    )
    doubts = [f"Doubt: {doubt}." for doubt in profile.doubts]
    if quiet:
        if doubts:
            say("\n".join(doubts))
        return
    batches = ", ".join(f"{batch:g}" for batch in profile.latency.x)
    what = f"{profile.model} on {profile.gpu} at {profile.precision} in {profile.runtime}, batch {batches}"
    say("\n".join([f"Wrote {path}: {what}. Plan with it: --profiles {out}", *doubts]))


@app.command("export")
def profiles_export(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Else standard output.")] = None,
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="On this kind of GPU.")] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="At this precision, e.g. amp.")] = None,
    profiles: Profiles = None,
    catalog: Catalogs = None,
    quiet: Quiet = False,
) -> None:
    """Write a profile as plain CSV, which `import` reads back."""
    from planner.io.store import StoreError, write_text

    text = profiling.profiles_export(model, gpu, precision, profiles=profiles or (), catalog=catalog or ())
    if out is None:
        emit(text)
        return
    if out.exists():
        raise StoreError(f"{out}: exists already. Name another file with -o.")
    write_text(text, out)
    if not quiet:
        emit(f"Wrote {out}.\n")
