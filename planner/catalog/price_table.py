"""Prices as a table: a CSV file with a row for each instance and kind of price, read quickly and strictly."""

import csv
import io
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from pathlib import Path

from calibrate.io.files import FileError, read_text
from planner.catalog.files import SHIPPED, SaleStatus
from planner.catalog.sold import OWN, OWN_IS_NO_PROVIDER, Instance, Price, is_to_come, not_yet
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
    """Instances of a file of prices by name, each kind of price the newest of its rows, and memory what the newest that
    says it does; `errors` takes a line for each row that is wrong.

    `gpus`: the kinds that there are; None: any will do. Dates of what is shipped are believed, whatever the clock says.
    """
    found: dict[Key, dict[PriceKind, Row]] = {}
    lines: dict[Key, tuple[int, Row]] = {}
    memory: dict[Key, Row] = {}
    for number, read in _rows(path, errors):
        if wrong := _wrong(read, gpus, is_shipped=path.parent == SHIPPED):
            errors.append(f"{path}:{number}: {wrong}")
            continue
        row = {**read, "as_of": date.fromisoformat(read["as_of"]).isoformat()}
        key, kind = (row["provider"], row["region"], row["instance"]), PriceKind(row["price_kind"])
        first = lines.setdefault(key, (number, row))
        prices = found.setdefault(key, {})
        if wrong := _contradiction(row, *first, prices.get(kind)):
            errors.append(f"{path}:{number}: {wrong}")
        elif kind not in prices or row["as_of"] > prices[kind]["as_of"]:
            prices[kind] = row
        if row["host_memory_gb"] and (key not in memory or row["as_of"] > memory[key]["as_of"]):
            memory[key] = row
    return {key: _instance(prices, memory.get(key)) for key, prices in found.items()}


def _contradiction(row: Row, line: int, first: Row, same_kind: Row | None) -> str:
    """What a row says of its machine and the first of its rows does not, or that it is a second one of one day."""
    machine = f"{row['instance']} of {row['provider']} {row['region']}"
    for column in ("gpu", "gpu_count"):
        if row[column] != first[column]:
            return f"{column}: {machine} has `{row[column]}`, in line {line} `{first[column]}`. Keep one."
    if same_kind and row["as_of"] == same_kind["as_of"]:
        return f"{machine} is listed twice, {row['price_kind']} on {row['as_of']}. Keep one."
    return ""


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


def _wrong(row: Row, gpus: Collection[str] | None, *, is_shipped: bool) -> str:
    """What is wrong with a row; empty where nothing is."""
    if None in row or None in row.values():
        return f"must have {len(COLUMNS)} values. Write an empty one where nothing is known."
    if row["provider"] == OWN:
        return f"provider: {OWN_IS_NO_PROVIDER}"
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
    if not is_shipped and is_to_come(row["as_of"]):
        return f"as_of: {not_yet(row['as_of'])}"
    return ""


def _instance(prices: Mapping[PriceKind, Row], memory: Row | None) -> Instance:
    """`memory`: the newest row that says how much the machine has."""
    first = next(iter(prices.values()))
    return Instance(
        provider=first["provider"],
        region=first["region"],
        name=first["instance"],
        gpu=first["gpu"],
        gpu_count=int(first["gpu_count"]),
        host_memory_bytes=round(float(memory["host_memory_gb"]) * 1e9) if memory else None,
        prices={kind: _price(row) for kind, row in prices.items()},
    )


def _price(row: Row) -> Price:
    low, high = float(row["usd_per_hour_low"]), float(row["usd_per_hour_high"])
    return Price(
        usd_per_hour=high,
        usd_per_hour_range=(low, high) if low < high else None,
        as_of=row["as_of"],
        source=row["source"],
        note=row["note"],
        status=SaleStatus(row["status"]),
    )
