"""Collecting: a table of prices as they were found becomes the `prices.csv` that is shipped.

`python -m benchmarks.making.prices FILE` writes it anew; a test does the same and compares.
"""

import re
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from pathlib import Path

from calibrate.io.tables import csv_text, table
from calibrate.published import names
from planner.catalog.files import SHIPPED, SaleStatus
from planner.catalog.price_table import COLUMNS
from planner.catalog.sold import ANY_REGION
from planner.model.choices import PriceKind

Row = Mapping[str, str]

WITHOUT_FACTS = (
    "M60",
    "T4G",
    "Inferentia2",
    "Radeon-V710",
    "RTX-PRO-4500",
)
"""Kinds of GPU that gpus.yaml does not have."""
INDICATIVE = re.compile(
    r"average|starting at|serverless|low confidence|not checked|unclear|lowest|median|rose since|exactly \d+ % of",
    re.IGNORECASE,
)
"""Notes of a price that nobody may be able to have: shown, and not offered."""
COPIED = re.compile(
    r"\(?\bread_public copy\)?|\(?,? ?(?:quoted in )?public copy\b[^)]*\)?|via research/.*|\(?ecosystem-anchors[^)]*\)?"
    r"|not re-read by me|GPU share:.*"
)
"""By which way a figure was found, which says nothing of where it stands."""
CONFLICT = "CONFLICT"
KINDS = {kind.value for kind in PriceKind}


def collect(found: Iterable[Row]) -> list[tuple[str, ...]]:
    """Rows by `COLUMNS`, sorted: of each instance and kind of price the newest, where two conflict the dearer."""
    usable = list(filter(_usable, found))
    kinds: dict[tuple[str, str], set[str]] = {}
    for row in usable:
        kinds.setdefault((row["provider"], row["instance"]), set()).add(row["gpu"])
    groups: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for row in usable:
        # Offers such as `pod (secure)` are told apart by their GPU.
        several = len(kinds[row["provider"], row["instance"]]) > 1
        made = _row(row, f"{row['instance']} {row['gpu']}" if several else row["instance"])
        groups.setdefault((*made[:3], made[COLUMNS.index("price_kind")]), []).append(made)
    return sorted(_chosen(rows) for rows in groups.values())


def day(written: str) -> str:
    """The earliest day that a date may mean: `2025-07-01` for `2025-07..2026-05`, `2024-10-01` for `2024-Q4`."""
    if whole := re.search(r"\d{4}-\d{2}-\d{2}", written):
        return whole[0]
    if quarter := re.search(r"(\d{4})-Q(\d)", written):
        return f"{quarter[1]}-{3 * int(quarter[2]) - 2:02}-01"
    if month := re.search(r"\d{4}-(?:0[1-9]|1[0-2])\b", written):
        return f"{month[0]}-01"
    year = re.search(r"\d{4}", written)
    return f"{year[0]}-01-01" if year else ""


def _usable(row: Row) -> bool:
    """Whole GPUs of known kinds, paid for by the hour."""
    return (
        row["price_kind"] in KINDS
        and row["gpu_count"].isdigit()
        and row["gpu"] not in WITHOUT_FACTS
        and bool(day(row["as_of"]))
    )


def _row(row: Row, instance: str) -> tuple[str, ...]:
    low, high = row["usd_per_hour_low"], row["usd_per_hour_high"]
    ranged = row["price_kind"] == PriceKind.SPOT
    return (
        row["provider"],
        row["region"] or ANY_REGION,
        re.sub(r"[^A-Za-z0-9_.\-]+", "-", instance).strip("-"),
        names.gpu(row["gpu"]),
        row["gpu_count"],
        row["host_memory_gb"],
        _status(row),
        row["price_kind"],
        low if ranged else high,
        high,
        day(row["as_of"]),
        COPIED.sub("", row["source"]).strip(" ,") or row["source"],
        COPIED.sub("", row["note"]).strip(" ;,"),
    )


def _status(row: Row) -> str:
    if row["status"].startswith("retired"):
        return SaleStatus.RETIRED
    indicative = INDICATIVE.search(f"{row['status']} {row['note']} {row['instance']}")
    return SaleStatus.UNCLEAR if indicative else SaleStatus.ACTIVE


def _chosen(rows: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Of readings of one price: the newest, of the same day the dearer; where they conflict, the dearest."""
    usd, as_of, note = COLUMNS.index("usd_per_hour_high"), COLUMNS.index("as_of"), COLUMNS.index("note")
    if any(CONFLICT in row[note] for row in rows):
        return max(rows, key=lambda row: float(row[usd]))
    return max(rows, key=lambda row: (row[as_of], float(row[usd])))


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="the table of prices as they were found")
    found = table(parser.parse_args().file)
    (SHIPPED / "prices.csv").write_text(csv_text(COLUMNS, collect(found)), encoding="utf-8")
