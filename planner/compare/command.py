"""The commands `planner diff` and `planner reprice`: two answers side by side, and one at other prices."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from planner.layout import Format

Compared = Annotated[Format, typer.Option("--format", help="table, json or md.")]


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A plan.json, or what --format json wrote.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another of the same kind.")],
    form: Compared = Format.TABLE,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Exit 4 where it holds, e.g. 'cost>+5%', 'p99>+10 ms', 'attainment<-0.1%', infeasible. Repeatable.",
        ),
    ] = None,
) -> None:
    """Say what differs between two answers, and which figures by more than chance."""
    from planner.cli import Status, emit, note
    from planner.compare.answers import read_answer
    from planner.compare.diff import compare, crossed
    from planner.compare.report import render
    from planner.gate import parse_change
    from planner.layout import stdout_screen

    if form is Format.CSV:
        raise typer.BadParameter("--format: must be table, json or md, got csv.")
    conditions = [parse_change(text) for text in fail_on or []]
    found = compare(read_answer(old), read_answer(new))
    emit(render(found, form, stdout_screen()))
    over = crossed(found, conditions)
    for line in over:
        note(line)
    raise typer.Exit(Status.THRESHOLD if over else Status.FEASIBLE)


class PriceChoice(StrEnum):
    """Kinds of price, as in `planner.scenario`, which help must not import."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED_1Y = "reserved-1y"
    RESERVED_3Y = "reserved-3y"


def reprice(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan.json.")],
    prices: Annotated[
        Path, typer.Option(metavar="FILE", help="Prices like the shipped prices.yaml, or a --catalog directory.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Keep the plan at its new prices here.")
    ] = None,
    kind: Annotated[
        PriceChoice | None, typer.Option("--price", help="Another kind of price than the plan was made with.")
    ] = None,
    form: Compared = Format.TABLE,
) -> None:
    """Say what a plan costs at other prices, without simulating again."""
    from datetime import UTC, datetime

    from planner.cli import emit, note
    from planner.compare.report import render_reprice
    from planner.compare.reprice import read_prices
    from planner.compare.reprice import reprice as at_prices
    from planner.layout import stdout_screen
    from planner.scenario import PriceKind
    from planner.store import StoreError, is_plan, read_plan, write_plan

    if form is Format.CSV:
        raise typer.BadParameter("--format: must be table, json or md, got csv.")
    if out and out.is_file() and not is_plan(out):
        raise StoreError(f"{out}: exists and is no plan. Name another file with -o.")
    known = read_prices(prices, PriceKind(kind) if kind else None)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    new, found = at_prices(read_plan(plan), str(plan), known, now)
    emit(render_reprice(found, form, stdout_screen()))
    if out:
        write_plan(new, out)
        note(f"Plan kept in {out}. What differs: planner diff {plan} {out}")
