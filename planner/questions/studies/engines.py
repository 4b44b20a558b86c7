"""Engines by name."""

from enum import StrEnum
from typing import TYPE_CHECKING

from simulator.errors import InputError

if TYPE_CHECKING:
    from planner.questions.studies.engine import Context, Engine

WORKERS_MAX = 1024


class EngineName(StrEnum):
    """Where points are worked out."""

    LOCAL = "local"
    RAY = "ray"


def opened(engine: EngineName, context: "Context", workers: int | None, address: str | None) -> "Engine":
    """The engine that was named; InputError where an option does not go with it."""
    if workers is not None and not 1 <= workers <= WORKERS_MAX:
        raise InputError(f"workers: must be from 1 to {WORKERS_MAX:,}, got {workers}.")
    match engine:
        case EngineName.LOCAL:
            if address:
                raise InputError(f"--address {address} goes with --engine ray alone.")
            from planner.questions.studies.local_engine import LocalEngine
            from simulator.machine_code import cores

            return LocalEngine(context, workers or cores())
        case EngineName.RAY:
            if workers:
                raise InputError(f"--workers {workers}: with --engine ray the cluster says how many.")
            from planner.questions.studies.ray_engine import RayEngine

            return RayEngine(context, address or "auto")
