"""Knowledge: what is known of GPUs, prices and models, the shipped files and a person's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrate.library.lookup import Library
    from planner.catalog.catalog import Catalog

Files = Sequence[str | Path] | None


def knowledge(catalog: Files, profiles: Files) -> "tuple[Catalog, Library]":
    """One's own folders go before the shipped ones; a kind in the catalog goes before one that was measured."""
    from dataclasses import replace

    from calibrate.library.lookup import find_kinds, find_profiles
    from planner.catalog.catalog import load_catalog

    known, own = load_catalog(paths(catalog)), paths(profiles)
    gpus = {**find_kinds(own), **known.gpus}
    return replace(known, gpus=gpus), find_profiles(own, gpus)


def paths(folders: Files) -> list[Path]:
    """Files by name."""
    return [Path(folder) for folder in folders or ()]
