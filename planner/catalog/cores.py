"""Cores: processor cores of machines that are rented, where pipelines work on them."""

import csv
from functools import cache
from pathlib import Path

VCPUS = Path(__file__).parent / "data" / "vcpus.csv"


def host_cores(provider: str, instance: str) -> int | None:
    """Virtual CPUs of an instance, as its provider lists them; None where nobody says."""
    return _vcpus().get((provider, instance))


@cache
def _vcpus() -> dict[tuple[str, str], int]:
    with VCPUS.open(encoding="utf-8", newline="") as lines:
        return {(line["provider"], line["instance"]): int(line["vcpus"]) for line in csv.DictReader(lines)}
