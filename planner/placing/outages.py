"""Outages: the most requests that can be in time where machines fail, however lucky a replay is."""

from collections.abc import Mapping, Sequence

from planner.placing.packing.packed import Placed
from planner.placing.sizing import Need
from simulator.world.deployment import Failures, Routing


def broken_by_outages(
    failures: Failures | None, routing: Routing, needs: Mapping[str, Need], placed: Sequence[Placed]
) -> tuple[Need, float] | None:
    """What has an SLO that outages alone break, and the share that can be in time; None where nothing has."""
    if failures is None:
        return None
    for model, need in needs.items():
        hosts = {device.host for one in placed if one.portion.sized.model == model for device in one.devices}
        dealt_to = 1 if routing is Routing.ROUND_ROBIN else len(hosts)
        most = attainment_max(failures, need.judged.slo.latency_s, dealt_to)
        if most < need.judged.slo.attainment:
            return need.judged, most
    return None


def attainment_max(failures: Failures, slo_s: float, hosts: int) -> float:
    """Share of requests that can be in time in the long run, of which each goes to one of so many hosts that is up.

    A host that is up for 10 h and away for 10 min is away 1.6 % of the time, and what comes more than an SLO before its
    end is late. Dealt in turn a request has one host.
    """
    late_s = max(0.0, failures.recovery_s - slo_s)
    late = late_s / (failures.mean_time_between_s + failures.recovery_s)
    return 1 - late**hosts
