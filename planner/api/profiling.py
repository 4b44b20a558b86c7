"""Calls about profiles: measured, joined, imported, listed, drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.asking import File, choice, maybe, path_of, wholes, word
from planner.catalog.knowledge import Files, knowledge, paths

if TYPE_CHECKING:
    from calibrate.devices.doctor import Finding
    from calibrate.sessions.join import JoinedProfile
    from planner.questions.profiling.model_costs import ModelCosts
    from simulator.world.profile import Profile


def calibrate(*options: str) -> int:
    """Measure what models cost, by the options of the command: `calibrate("--device", "cpu", ...)`; its exit code."""
    from calibrate.cli import main

    return main(options, "planner calibrate")


def doctor(device: str = "cuda:0", out: File = "profiles") -> "list[Finding]":
    """Findings about a device: obstacles to measuring it, each with a remedy."""
    from calibrate.devices.doctor import diagnose

    return diagnose(device, path_of("out", out))


def profiles_list(profiles: Files = (), catalog: Files = ()) -> "list[Profile]":
    """Profiles of all models on all GPUs, then what was published of all architectures."""
    from calibrate.published.names import architectures

    library = knowledge(catalog, profiles)[1]
    named = [profile for model in library.models() for profile in library.for_model(model)]
    return [*named, *(profile for name in architectures() for profile in library.published_of(name))]


def profiles_show(model: str, gpu: str | None = None, *, profiles: Files = (), catalog: Files = ()) -> "list[Profile]":
    """All figures of a model; InputError where nothing is known."""
    from planner.catalog.choosing import choose

    return list(choose(knowledge(catalog, profiles)[1], word("model", model), maybe("gpu", gpu)))


def profiles_table(
    *models: str,
    batches: Sequence[int] = (1, 2, 4),
    gpu: str | None = None,
    precision: str | None = None,
    profiles: Files = (),
    catalog: Files = (),
) -> "ModelCosts":
    """Memory and time to load models and to run them, side by side; on one `gpu` what nobody measured is predicted."""
    from calibrate.zoo.sources import LECTURE
    from planner.questions.profiling.model_costs import model_costs
    from planner.questions.profiling.wish import BATCH_MAX

    known, library = knowledge(catalog, profiles)
    groups = {"all": (), "lecture": LECTURE}
    named = [model for name in models for model in groups.get(name, (name,))]
    sizes = wholes("batches", batches, 1, BATCH_MAX)
    return model_costs(library, known, sizes, named, gpu, precision, everything="all" in models)


def profiles_device(
    kind: str | None = None, *, profiles: Files = (), plot: File | None = None
) -> list[Mapping[str, Any]]:
    """The files of measured devices, or of one: `gpu`, `probes` with samples, `provenance`; `plot` draws it."""
    from calibrate.library.lookup import device_files

    found = device_files(paths(profiles), kind)
    if plot:
        from planner.show.pictures import draw_device

        draw_device(found, path_of("plot", plot))
    return found


def profiles_join(*folders: File, out: File) -> "list[JoinedProfile]":
    """Calibrations joined into profiles under `out`, which say how far sessions, GPUs and hosts differ."""
    from calibrate.sessions.join import join

    return join([path_of("folders", folder) for folder in folders], path_of("out", out))


def profiles_import(
    *files: File, out: File = "profiles", form: str | None = None, catalog: Files = (), **added: Any
) -> "tuple[Profile, Path]":
    """The profile that another tool's files make, and where in the folder `out` it is.

    `added` says what they do not: `model`, `gpu`, `precision`, `runtime`, `input`, `batch`, `batches` of each file,
    `column`, `gpu_count`, `weight_bytes`, `memory_bytes`.
    """
    from planner.catalog.catalog import load_catalog
    from planner.imports.measurements.files import Added
    from planner.imports.measurements.profiles import import_profile
    from planner.model.choices import MeasurementFormat

    known = load_catalog(paths(catalog)).gpus
    named = choice(MeasurementFormat, "form", form) if form else None
    return import_profile([path_of("files", file) for file in files], path_of("out", out), Added(**added), known, named)


def profiles_export(
    model: str, gpu: str | None = None, precision: str | None = None, *, profiles: Files = (), catalog: Files = ()
) -> str:
    """A profile as plain CSV, which `profiles_import` reads back."""
    from planner.imports.measurements.profiles import export_profile
    from planner.show.pictures import choose_one

    library = knowledge(catalog, profiles)[1]
    return export_profile(
        choose_one(library, word("model", model), maybe("gpu", gpu), maybe("precision", precision)), library
    )


def profiles_plot(
    model: str,
    out: File,
    what: str = "latency",
    gpu: str | Sequence[str] | None = None,
    precision: str | None = None,
    *,
    profiles: Files = (),
    catalog: Files = (),
) -> "tuple[Profile, ...]":
    """A picture of what a model costs: `latency`, also on several GPUs, `memory` or `layers`; the profiles drawn."""
    from planner.model.choices import Picture
    from planner.show.pictures import draw

    library = knowledge(catalog, profiles)[1]
    kinds = [gpu] if isinstance(gpu, str) else gpu or ()
    return draw(
        library,
        word("model", model),
        kinds,
        maybe("precision", precision),
        choice(Picture, "what", what),
        path_of("out", out),
    )
