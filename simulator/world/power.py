"""Power: what a GPU draws while a batch runs, where nobody measured it."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simulator.world.curves import Curve, by_size
from simulator.world.hardware import GPU
from simulator.world.profile import Profile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AT_REST = 0.10
AT_FULL_PACE = 0.75
"""Share of the way from idle power to the power limit that a busy GPU goes: at no pace, and at that of its best batch.

A straight line through 69 points of ResNet-50, ShuffleNetV2 and DeepSpeech2 in batches of 2 to 8,192 on V100 and A40
(Zeus, NSDI 2023, no limit lowered, idle taken as 20 % of it). It errs by 0.13; the limit for all of them by 0.51."""
SHORTEST_S = 1e-9
"""No batch takes less."""


def busy_w(gpu: GPU, profile: Profile, batch_size: int) -> float:
    """Watts while a batch runs: as the profile has it, else by the pace at which such batches are worked off.

    A V100 of 300 W, 60 W idle: 240 W at its best batch; 115 W at batch 1 if that works off a fifth as much.
    """
    return busy_by_size_w(gpu, profile, batch_size)[-1]


def busy_by_size_w(gpu: GPU, profile: Profile, most: int) -> tuple[float, ...]:
    """The same of batches of 1, 2, ... up to `most`."""
    if profile.busy_w is not None:
        return (profile.busy_w,) * most
    return _by_pace_w(gpu.idle_w, gpu.tdp_w, profile.latency, most)


@lru_cache(maxsize=4096)
def _by_pace_w(idle_w: float, limit_w: float, latency: Curve, most: int) -> tuple[float, ...]:
    best = max(size / max(time_s, SHORTEST_S) for size, time_s in zip(latency.x, latency.y, strict=True))
    watts = watts_at(idle_w, limit_w, best, np.arange(1, most + 1), np.array(by_size(latency, most)))
    return tuple(watts.tolist())


def watts_at(
    idle_w: Floats | float, limit_w: Floats | float, best: Floats | float, size: Ints, time_s: Floats
) -> Floats:
    """While batches run that take so long, by how their pace compares with the best, requests a second."""
    pace = size / np.maximum(time_s, SHORTEST_S) / best
    share = AT_REST + (AT_FULL_PACE - AT_REST) * np.minimum(1.0, pace)
    watts: Floats = idle_w + share * (limit_w - idle_w)
    return watts
