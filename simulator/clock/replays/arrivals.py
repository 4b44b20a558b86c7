"""Arrivals that were drawn, kept for all deployments that meet them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from simulator.clock.replays.places import begins
from simulator.rules.latencies import Counts
from simulator.world.workload import (
    Cameras,
    Demand,
    Floats,
    SteadyCameras,
    Workload,
    arrivals_of,
    draw,
    frames_each,
)

KEPT_BYTES = 2**28
"""Arrivals that are kept for the next deployment: 22 million requests."""
KEPT_PHASES_BYTES = 2**26
"""Phases of cameras that are kept beside: 1,600 draws of 5,000 of them."""


class Arrivals:
    """Arrivals that were drawn: every deployment of a search meets the same, world after world.

    The first worlds are kept: were the oldest to go, each would be gone when the next deployment asks for it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._workload: Workload | None = None
        self._kept: dict[tuple[str, float, int], Any] = {}
        self._steady_cameras: SteadyCameras | None = None
        self._cameras: dict[int, dict[str, Cameras]] = {}
        self._cameras_bytes = 0

    def of(self, workload: Workload, duration_s: float, seed: int) -> dict[str, Demand]:
        """As `draw`."""

        def come() -> tuple[dict[str, Demand], int]:
            demand = draw(workload, duration_s, seed, self._steady(workload, [seed])[0])
            return demand, sum(one.arrival_s.nbytes + one.source.nbytes for one in demand.values())

        self._begin(workload)
        return cast("dict[str, Demand]", self._once(("each", duration_s, seed), come))

    def coming(self, workload: Workload, duration_s: float, seeds: Sequence[int]) -> list["Coming"]:
        """The same for machine code, without who sent which, by seed."""
        self._begin(workload)
        missing = [seed for seed in seeds if ("together", duration_s, seed) not in self._kept]
        cameras = dict(zip(missing, self._steady(workload, missing), strict=True))

        def come(seed: int) -> tuple[Coming, int]:
            by_model = arrivals_of(workload, duration_s, seed, cameras[seed])
            return together(list(by_model.values()), duration_s)

        return [cast("Coming", self._once(("together", duration_s, seed), partial(come, seed))) for seed in seeds]

    def _begin(self, workload: Workload) -> None:
        """Forget what was drawn for another workload."""
        if workload is not self._workload:
            self._workload, self._kept, self.held_bytes = workload, {}, 0
            self._steady_cameras, self._cameras, self._cameras_bytes = None, {}, 0

    def _once(self, key: tuple[str, float, int], come: Callable[[], tuple[Any, int]]) -> Any:
        """What was drawn, with its bytes, if it was not kept."""
        if key in self._kept:
            return self._kept[key]
        found, size_bytes = come()
        if self.held_bytes + size_bytes <= self.limit_bytes:
            self._kept[key] = found
            self.held_bytes += size_bytes
        return found

    def _steady(self, workload: Workload, seeds: Sequence[int]) -> list[dict[str, Cameras]]:
        """The steady cameras with their phases, by seed: the same for replications of any length."""
        missing = [seed for seed in seeds if seed not in self._cameras]
        if not missing:
            return [self._cameras[seed] for seed in seeds]
        self._steady_cameras = self._steady_cameras or SteadyCameras.of(workload)
        drawn = dict(zip(missing, self._steady_cameras.phased(missing), strict=True))
        found = [drawn[seed] if seed in drawn else self._cameras[seed] for seed in seeds]
        for seed, cameras in drawn.items():
            size_bytes = sum(one.phase_s.nbytes for one in cameras.values())
            if self._cameras_bytes + size_bytes <= KEPT_PHASES_BYTES:
                self._cameras[seed] = cameras
                self._cameras_bytes += size_bytes
        return found


class Coming(NamedTuple):
    """As `simulator.clock.compiled.Coming`, with how many requests these may be at most."""

    rate_rps: Floats
    given_s: Floats
    begin: Counts
    most: Counts
    """By model."""


def together(come: Sequence[Cameras | Floats], duration_s: float) -> tuple[Coming, int]:
    """Arrivals of all models in one piece, and its bytes."""
    given = [np.sort(one.phase_s) if isinstance(one, Cameras) else one for one in come]
    rates = [one.rate_rps if isinstance(one, Cameras) else 0.0 for one in come]
    each = [frames_each(rate_rps, duration_s) if rate_rps else 1 for rate_rps in rates]
    most = np.array([count * len(one) for count, one in zip(each, given, strict=True)], dtype=np.int64)
    given_s = np.concatenate([np.empty(0), *given])
    return Coming(np.array(rates), given_s, begins(list(map(len, given))), most), given_s.nbytes


ARRIVALS = Arrivals(KEPT_BYTES)
