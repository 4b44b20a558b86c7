"""Hosts: processor cores of machines that are rented, and their network, as their providers list them."""

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
    return {(row["provider"], row["instance"]): int(row["vcpus"]) for row in table(DATA / "vcpus.csv")}


@cache
def _networks() -> dict[tuple[str, str], tuple[float, float]]:
    found = {}
    for row in table(DATA / "networks.csv"):
        rates = row["gbps"], row["gbps_up_to"] or row["gbps"]
        sustained, in_bursts = (float(rate) * BYTES_OF_GBIT for rate in rates)
        found[row["provider"], row["instance"]] = (sustained, in_bursts)
    return found
