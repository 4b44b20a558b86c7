"""Hosts: processor cores of machines that are rented, and their network, as their providers list them."""

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data"
BYTES_OF_GBIT = 1e9 / 8


def host_cores(provider: str, instance: str) -> int | None:
    """Virtual CPUs of an instance; None where nobody says."""
    return _vcpus().get((provider, instance))


def host_network(provider: str, instance: str) -> tuple[float, float] | None:
    """Bytes a second of an instance to others, one direction: sustained, and in bursts; None where nobody says."""
    return _networks().get((provider, instance))


@cache
def _vcpus() -> dict[tuple[str, str], int]:
    return {_key(row): int(row["vcpus"]) for row in _rows("vcpus.csv")}


@cache
def _networks() -> dict[tuple[str, str], tuple[float, float]]:
    return {_key(row): _rates(row) for row in _rows("networks.csv")}


def _rates(row: Mapping[str, str]) -> tuple[float, float]:
    sustained = float(row["gbps"])
    return sustained * BYTES_OF_GBIT, float(row["gbps_up_to"] or sustained) * BYTES_OF_GBIT


def _key(row: Mapping[str, str]) -> tuple[str, str]:
    return row["provider"], row["instance"]


def _rows(name: str) -> Iterator[Mapping[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)
