"""Calls about kinds of GPU, and prices."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.api.asking import File, choice, maybe, path_of
from planner.catalog.knowledge import Files, paths

if TYPE_CHECKING:
    from planner.catalog.sold import Instance
    from planner.compare.speed_prices import SpeedPrice
    from planner.imports.price_lists.lists import PriceImport
    from simulator.world.hardware import GPU


def prices_import(
    *files: File,
    out: File = "catalog",
    form: str | None = None,
    provider: str | None = None,
    region: str | None = None,
    as_of: str | None = None,
    catalog: Files = (),
) -> "PriceImport":
    """Price lists of others put into `out`/prices.csv, and what that changes."""
    from planner.catalog.catalog import load_catalog
    from planner.imports.price_lists.lists import files_of, import_prices, read_source
    from planner.model.choices import PriceListFormat

    named = choice(PriceListFormat, "form", form) if form else None
    found = files_of([path_of("files", file) for file in files])
    sources = [read_source(file, named, provider, region, as_of) for file in found]
    return import_prices(sources, path_of("out", out), load_catalog(paths(catalog)))


def prices_refresh(*names: str, out: File = "catalog", url: str | None = None, catalog: Files = ()) -> "PriceImport":
    """The same of public lists, **fetched from the internet**, from their own addresses or from `url`."""
    from planner.catalog.catalog import load_catalog
    from planner.imports.price_lists.lists import import_prices
    from planner.imports.price_lists.refresh import fetched
    from planner.model.choices import PublicList

    sources = [fetched(choice(PublicList, "names", name), url) for name in names]
    return import_prices(sources, path_of("out", out), load_catalog(paths(catalog)))


def prices_show(gpu: str | None = None, provider: str | None = None, *, catalog: Files = ()) -> "list[Instance]":
    """Instances and their prices."""
    from planner.catalog.catalog import load_catalog
    from planner.catalog.choosing import choose_instances

    return list(choose_instances(load_catalog(paths(catalog)), maybe("gpu", gpu), maybe("provider", provider)))


def prices_table(gpu: str | None = None, provider: str | None = None, *, catalog: Files = ()) -> "list[SpeedPrice]":
    """Machines at every kind of price, least dollars for a TFLOP/s first."""
    from planner.catalog.catalog import load_catalog
    from planner.catalog.choosing import choose_instances, choose_purchases
    from planner.compare.speed_prices import speed_prices

    known, named = load_catalog(paths(catalog)), (maybe("gpu", gpu), maybe("provider", provider))
    return speed_prices(known, choose_instances(known, *named), choose_purchases(known, *named))


def gpus_show(kind: str | None = None, *, catalog: Files = ()) -> "dict[str, GPU]":
    """Kinds of GPU by name: all, or one."""
    from planner.catalog.catalog import load_catalog
    from planner.imports.gpu_kinds import chosen

    return chosen(load_catalog(paths(catalog)).gpus, maybe("kind", kind))


def gpus_add(kind: str, out: File = "catalog", *, catalog: Files = (), **figures: Any) -> Path:
    """A kind of GPU put into `out`/gpus.yaml; `figures` are its keys there, such as `memory_gb=11`."""
    from planner.catalog.catalog import load_catalog
    from planner.imports.gpu_kinds import add_kind

    return add_kind(kind, figures, path_of("out", out), load_catalog(paths(catalog)).gpus)
