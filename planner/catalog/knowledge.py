"""Knowledge: what is known of GPUs, prices and models, the shipped files and a person's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrate.library.lookup import Library
    from planner.catalog.offers import Catalog


def knowledge(catalog: Sequence[Path] | None, profiles: Sequence[Path] | None) -> "tuple[Catalog, Library]":
    """One's own folders go before the shipped ones; a kind in the catalog goes before one that was measured."""
    from dataclasses import replace

    from calibrate.library.lookup import find_kinds, find_profiles
    from planner.catalog.offers import load_catalog

    known = load_catalog(list(catalog or []))
    gpus = {**find_kinds(list(profiles or [])), **known.gpus}
    return replace(known, gpus=gpus), find_profiles(list(profiles or []), gpus)
