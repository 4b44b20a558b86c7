"""Prices as a table: a CSV file with a row for each instance and kind of price, read quickly and strictly."""

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from calibrate.io.files import FileError, read_text
from planner.catalog.files import SHIPPED, SaleStatus
from planner.catalog.sold import Instance, Price, is_to_come, not_yet
from planner.model.choices import PriceKind

COLUMNS = (
    "provider",
    "region",
    "instance",
    "gpu",
    "gpu_count",
    "host_memory_gb",
    "status",
    "price_kind",
    "usd_per_hour_low",
    "usd_per_hour_high",
    "as_of",
    "source",
    "note",
)
Row = Mapping[str, str]
Key = tuple[str, str, str]
"""Provider, region and name of an instance."""


def read_table(path: Path, gpus: Collection[str] | None, errors: list[str]) -> dict[Key, Instance]:
    """Instances of a file of prices by name; `errors` takes a line for each row that is wrong.

    `gpus`: the kinds that there are; None: any will do. Dates of what is shipped are believed, whatever the clock says.
    """
    found: dict[Key, list[Row]] = {}
    is_shipped = path.parent == SHIPPED
    for number, row in _rows(path, errors):
        if wrong := _wrong(row, gpus) or (not is_shipped and _day_wrong(row)):
            errors.append(f"{path}:{number}: {wrong}")
        else:
            found.setdefault((row["provider"], row["region"], row["instance"]), []).append(row)
    return {key: _instance(rows) for key, rows in found.items()}


def _rows(path: Path, errors: list[str]) -> Iterator[tuple[int, Row]]:
    try:
        reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
        if tuple(reader.fieldnames or ()) != COLUMNS:
            errors.append(f"{path}:1: the columns must be {','.join(COLUMNS)}. Write them in this order.")
            return
        for row in reader:
            yield reader.line_num, row
    except FileError as error:
        errors.append(f"{path}: {error}. Name a prices.csv, or leave it out.")
    except csv.Error as error:
        errors.append(f"{path}:{reader.line_num}: is no CSV: {error}. Mend the line.")


def _wrong(row: Row, gpus: Collection[str] | None) -> str:
    """What is wrong with a row; empty where nothing is."""
    if None in row or None in row.values():
        return f"must have {len(COLUMNS)} values. Write an empty one where nothing is known."
    if gpus is not None and row["gpu"] not in gpus:
        return f"gpu: `{row['gpu']}` is not in gpus.yaml. Add it there."
    try:
        PriceKind(row["price_kind"]), SaleStatus(row["status"]), date.fromisoformat(row["as_of"])
        count, memory = int(row["gpu_count"]), float(row["host_memory_gb"] or 1)
        low, high = float(row["usd_per_hour_low"]), float(row["usd_per_hour_high"])
    except ValueError as error:
        return f"{error}. See docs/data.md for what each column holds."
    if not (count >= 1 and memory > 0 and 0 < low <= high < float("inf")):
        return "needs 1 GPU or more and prices above 0, the low one first. Write what the provider lists."
    return ""


def _day_wrong(row: Row) -> str:
    return f"as_of: {not_yet(row['as_of'])}" if is_to_come(row["as_of"]) else ""


def _instance(rows: Sequence[Row]) -> Instance:
    first = rows[0]
    memory = next((row["host_memory_gb"] for row in rows if row["host_memory_gb"]), "")
    return Instance(
        provider=first["provider"],
        region=first["region"],
        name=first["instance"],
        gpu=first["gpu"],
        gpu_count=int(first["gpu_count"]),
        host_memory_bytes=round(float(memory) * 1e9) if memory else None,
        status=_worst({SaleStatus(row["status"]) for row in rows}),
        prices={PriceKind(row["price_kind"]): _price(row) for row in rows},
    )


def _worst(statuses: Collection[SaleStatus]) -> SaleStatus:
    """What is retired at one price is retired."""
    return next(status for status in (SaleStatus.RETIRED, SaleStatus.ACTIVE, SaleStatus.UNCLEAR) if status in statuses)


def _price(row: Row) -> Price:
    low, high = float(row["usd_per_hour_low"]), float(row["usd_per_hour_high"])
    return Price(
        usd_per_hour=high,
        usd_per_hour_range=(low, high) if low < high else None,
        as_of=row["as_of"],
        source=row["source"],
        note=row["note"],
    )
