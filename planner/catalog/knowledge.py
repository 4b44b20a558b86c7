"""Knowledge: what is known of GPUs, prices and models, the shipped files and a person's own."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.errors import InputError

if TYPE_CHECKING:
    from calibrate.library.lookup import Library
    from planner.catalog.catalog import Catalog

Files = Sequence[str | Path] | str | Path | None


def knowledge(catalog: Files, profiles: Files) -> "tuple[Catalog, Library]":
    """One's own folders go before the shipped ones; a kind in the catalog goes before one that was measured."""
    from dataclasses import replace

    from calibrate.library.lookup import find_kinds, find_profiles
    from planner.catalog.catalog import load_catalog

    known, own = load_catalog(paths(catalog)), paths(profiles)
    gpus = {**find_kinds(own), **known.gpus}
    return replace(known, gpus=gpus), find_profiles(own, gpus)


def paths(folders: Files) -> list[Path]:
    """Files by name; InputError where something else is given."""
    named = [folders] if isinstance(folders, str | Path) else folders or ()
    if isinstance(named, Iterable) and all(isinstance(name, str | Path) for name in named):
        return [Path(name) for name in named]
    raise InputError(f"catalog or profiles: must be a list of folders, got {type(folders).__name__}.")
