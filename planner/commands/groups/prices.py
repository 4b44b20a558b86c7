"""The commands `planner prices`: what GPUs cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.api import pricing
from planner.console.options import Catalogs
from planner.console.output import PLAIN, emit, note
from planner.model.choices import PriceListFormat, PublicList
from planner.units.writing import stdout_screen

if TYPE_CHECKING:
    from planner.imports.price_lists.lists import PriceImport

app = typer.Typer(help="What GPUs cost.", **PLAIN)
Gpu = Annotated[str | None, typer.Option(metavar="KIND", help="Only with this kind of GPU.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for --catalog; its prices.csv takes them.")]
Provider = Annotated[str | None, typer.Option(metavar="NAME", help="Only of this provider.")]


@app.command("show")
def prices_show(
    gpu: Gpu = None,
    provider: Provider = None,
    catalog: Catalogs = None,
) -> None:
    """List prices of instances and of machines, cheapest GPU first."""
    from planner.catalog.catalog import load_catalog
    from planner.catalog.choosing import choose_instances, choose_purchases
    from planner.show.text.listings.prices import price_list, purchase_list

    known, screen = load_catalog(catalog or []), stdout_screen()
    rented, bought = choose_instances(known, gpu, provider), choose_purchases(known, gpu, provider)
    parts = [price_list(known, rented, screen) if rented else "", purchase_list(bought, screen)]
    emit("\n".join(filter(None, parts)))


@app.command("table")
def prices_table(
    gpu: Gpu = None,
    provider: Provider = None,
    catalog: Catalogs = None,
) -> None:
    """Show dollars for a TFLOP/s: rented, reserved, bought."""
    from planner.compare.speed_prices import speed_price_table

    emit(speed_price_table(pricing.prices_table(gpu, provider, catalog=catalog), stdout_screen()))


@app.command("status")
def prices_status(catalog: Catalogs = None) -> None:
    """Say how old the prices are."""
    from datetime import UTC, datetime

    from planner.catalog.catalog import load_catalog
    from planner.show.text.listings.prices import price_status

    emit(price_status(load_catalog(catalog or []), datetime.now(UTC).date(), stdout_screen()))


@app.command("import")
def prices_import(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Price lists, or folders of them.")],
    out: Out = Path("catalog"),
    form: Annotated[
        PriceListFormat | None, typer.Option("--format", help="Which list, where content does not tell.")
    ] = None,
    provider: Annotated[str | None, typer.Option(metavar="NAME", help="Where a file's name does not say.")] = None,
    region: Annotated[str | None, typer.Option(metavar="NAME", help="Where a list has none.")] = None,
    as_of: Annotated[str | None, typer.Option(metavar="DATE", help="Its day; else that of the list or file.")] = None,
    catalog: Catalogs = None,
) -> None:
    """Put price lists of others into a catalog; say what changed."""
    made = pricing.prices_import(
        *files, out=out, form=form, provider=provider, region=region, as_of=as_of, catalog=catalog or ()
    )
    say(made)


@app.command("refresh")
def prices_refresh(
    names: Annotated[list[PublicList], typer.Argument(metavar="PROVIDER...", help="Whose prices are fetched.")],
    out: Out = Path("catalog"),
    url: Annotated[str | None, typer.Option(metavar="URL", help="Another address of the list.")] = None,
    catalog: Catalogs = None,
) -> None:
    """Fetch public price lists from the internet; say what changed."""
    made = pricing.prices_refresh(*names, out=out, url=url, catalog=catalog or ())
    say(made)


def say(made: "PriceImport") -> None:
    """What changed, and on standard error what is hard to believe."""
    from planner.imports.price_lists.shown import changes_text, doubt_line

    emit(changes_text(made, stdout_screen()))
    if doubt := doubt_line(made):
        note(doubt)
