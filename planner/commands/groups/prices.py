"""The commands `planner prices`: what GPUs cost."""

from typing import Annotated

import typer

from planner import api
from planner.console.options import Catalogs
from planner.console.output import PLAIN, emit
from planner.units.writing import stdout_screen

app = typer.Typer(help="What GPUs cost.", **PLAIN)
Gpu = Annotated[str | None, typer.Option(metavar="KIND", help="Only with this kind of GPU.")]
Provider = Annotated[str | None, typer.Option(metavar="NAME", help="Only of this provider.")]


@app.command("show")
def prices_show(
    gpu: Gpu = None,
    provider: Provider = None,
    catalog: Catalogs = None,
) -> None:
    """List what an hour of an instance costs and what a machine costs to buy, cheapest GPU first."""
    from planner.catalog.offers import load_catalog
    from planner.show.text.listings import choose_instances, choose_purchases, price_list, purchase_list

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
    """Dollars for a TFLOP/s by machine and precision: rented, reserved, bought."""
    from planner.compare.speed_prices import speed_price_table

    emit(speed_price_table(api.prices_table(gpu, provider, catalog=catalog), stdout_screen()))


@app.command("status")
def prices_status(catalog: Catalogs = None) -> None:
    """Say how old the prices are."""
    from datetime import UTC, datetime

    from planner.catalog.offers import load_catalog
    from planner.show.text.listings import price_status

    emit(price_status(load_catalog(catalog or []), datetime.now(UTC).date(), stdout_screen()))
