"""Hosts: processor cores of machines that are rented, and their network, as their providers list them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from calibrate.io.tables import table

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
    return {_key(row): int(row["vcpus"]) for row in table(DATA / "vcpus.csv")}


@cache
def _networks() -> dict[tuple[str, str], tuple[float, float]]:
    return {_key(row): _rates(row) for row in table(DATA / "networks.csv")}


def _rates(row: Mapping[str, str]) -> tuple[float, float]:
    sustained = float(row["gbps"])
    return sustained * BYTES_OF_GBIT, float(row["gbps_up_to"] or sustained) * BYTES_OF_GBIT


def _key(row: Mapping[str, str]) -> tuple[str, str]:
    return row["provider"], row["instance"]
