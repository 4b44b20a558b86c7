"""Power: what a GPU draws while a batch runs, where nobody measured it."""

from functools import lru_cache

from simulator.world.hardware import GPU
from simulator.world.profile import Profile

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
    if profile.busy_w is not None:
        return profile.busy_w
    pace = batch_size / max(profile.latency(batch_size), SHORTEST_S) / best_pace(profile)
    share = AT_REST + (AT_FULL_PACE - AT_REST) * min(1.0, pace)
    return gpu.idle_w + share * (gpu.tdp_w - gpu.idle_w)


@lru_cache(maxsize=1024)
def best_pace(profile: Profile) -> float:
    """Samples a second of its best measured batch."""
    points = zip(profile.latency.x, profile.latency.y, strict=True)
    return max(size / max(time_s, SHORTEST_S) for size, time_s in points)
