"""Outages: the most requests that can be in time where machines fail, however lucky a replay is."""

from collections.abc import Iterable, Mapping, Sequence

from scipy.special import bdtrc

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
        if most < need.judged.slo.attainment or asks_all(need):
            return need.judged, most
    return None


def in_time_on_any(failures: Failures | None, routing: Routing, needs: Mapping[str, Need]) -> dict[str, float]:
    """By model the share that can be in time on however many machines, where outages leave not all: each machine's
    requests wait for it."""
    if failures is None or routing is not Routing.ROUND_ROBIN:
        return {}
    return {model: attainment_max(failures, need.judged.slo.latency_s, hosts=1) for model, need in needs.items()}


def asks_all(need: Need) -> bool:
    """Whether an SLO of 100 % is asked: some requests are late on however many machines that fail."""
    return need.judged.slo.attainment >= 1


MORE_MAX = 64
"""Machines more that are tried so that enough of them are up: each makes it several times as sure."""


def machines_asked(
    failures: Failures | None, routing: Routing, needs: Iterable[Need], machines: int, carrying: int
) -> int | None:
    """The least number of machines, `machines` at least, of which `carrying` are up for as much of the time as each SLO
    asks; None where no number does.

    Up for 24 h and away for 20 min: 1 of 1 is up 98.6 % of the time, 1 of 2 99.98 %.
    """
    needs = list(needs)
    if failures is None or not needs:
        return machines
    if any(map(asks_all, needs)):
        return None
    if routing is Routing.ROUND_ROBIN:  # nobody takes over what is away
        kept = all(attainment_max(failures, need.slo.latency_s, 1) >= need.slo.attainment for need in needs)
        return machines if kept else None
    asked = [(1 - attainment_max(failures, need.slo.latency_s, 1), 1 - need.slo.attainment) for need in needs]
    for count in range(machines, machines + MORE_MAX):
        away_max = count - min(carrying, machines)
        if all(bdtrc(away_max, count, late) <= may_be_late for late, may_be_late in asked):
            return count
    return None


def attainment_max(failures: Failures, slo_s: float, hosts: int) -> float:
    """Share of requests that can be in time in the long run, of which each goes to one of so many hosts that is up.

    A host that is up for 10 h and away for 10 min is away 1.6 % of the time, and what comes more than an SLO before its
    end is late. Dealt in turn a request has one host.
    """
    late_s = max(0.0, failures.recovery_s - slo_s)
    late = late_s / (failures.mean_time_between_s + failures.recovery_s)
    return 1 - late**hosts
