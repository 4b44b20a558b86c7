"""Hosts: what a batch takes beside another processor than the one that it was measured with. Needs no torch."""

from dataclasses import replace

from simulator.world.curves import Curve, Interpolated
from simulator.world.profile import Evidence, Profile, weakest


def beside_host(profile: Profile, speed: float) -> Profile:
    """The profile beside a host `speed` times as fast as the one that it was measured with; as it is at 1.

    Where nobody knows what of a batch is the host's, times stay and a doubt says so.
    """
    if speed == 1:
        return profile
    if profile.host_s is None or profile.busy_s is None:
        same = f"it is taken as if a host of {speed:g} times the speed changed nothing"
        remedy = "measure it there, or on a GPU with `planner calibrate`"
        unknown = f"What of a batch is the host's is not known: {same}; {remedy}"
        return replace(profile, doubts=(*profile.doubts, unknown))
    batches = profile.latency.x
    times_s = tuple(_batch_s(batch, profile, profile.host_s, profile.busy_s, speed) for batch in batches)
    carried = f"Times are carried over to a host of {speed:g} times the speed, of which nothing was measured"
    return replace(
        profile,
        latency=Interpolated(batches, times_s),
        latency_fit=None,
        latency_evidence=weakest(profile.latency_evidence, Evidence.TRANSFERRED),
        doubts=(*profile.doubts, f"{carried}; measure it there"),
    )


def _batch_s(batch: float, profile: Profile, host_s: Curve, busy_s: Curve, speed: float) -> float:
    """The longer of queueing and kernels, and what a batch took beyond: the host launches the first, awaits the last.

    Queued in 4 ms, kernels 3 ms, measured 4.5 ms: at half the speed 8 + 2 x 0.5 = 9 ms, at twice 3 + 0.5 / 2 = 3.25 ms.
    """
    whole_s = profile.latency(batch)
    queued_s, kernels_s = min(host_s(batch), whole_s), min(busy_s(batch), whole_s)  # measured apart: either may be off
    beyond_s = whole_s - max(queued_s, kernels_s)
    return max(queued_s / speed, kernels_s) + beyond_s / speed
