"""Losing machines: which sets of hosts do the same, and what a plan has left without some of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, islice
from math import comb, prod

import numpy as np
from scipy.optimize import linear_sum_assignment

from planner.placing.duty import Portion
from planner.placing.fleets import Fleet
from planner.placing.packing.packed import Placed, portions_of
from planner.search.simulation import AsPlanned
from simulator.grouping import grouped
from simulator.world.profile import WeightSource

SETS_MAX = 20_000
"""Sets of groups of hosts that are looked at."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Hosts that are away, one set of those that do the same."""

    hosts: tuple[str, ...]
    ways: int
    """Sets that do the same."""
    taken_over: tuple[str, ...]
    """Hosts whose work a spare does."""

    @property
    def missing(self) -> frozenset[str]:
        """Hosts whose work nobody does."""
        return frozenset(self.hosts) - frozenset(self.taken_over)


def losses(planned: AsPlanned, lose: int) -> list[Loss]:
    """Every way to lose so many machines, those that do the same once; the worst first.

    Worst is what leaves most models without a replica, then what leaves some model the least share of its replicas.
    """
    groups = alike(planned)
    found = [
        loss(planned, [groups[i][: chosen.count(i)] for i in dict.fromkeys(chosen)], ways_of(groups, chosen))
        for chosen in islice(choices(groups, lose), SETS_MAX)
    ]
    return sorted(found, key=lambda one: severity(planned, one))


def choices(groups: Sequence[Sequence[str]], lose: int) -> Iterator[tuple[int, ...]]:
    """Numbers of groups, one for each machine that is away."""
    for chosen in combinations_with_replacement(range(len(groups)), lose):
        if all(n <= len(groups[i]) for i, n in Counter(chosen).items()):
            yield chosen


def ways_of(groups: Sequence[Sequence[str]], chosen: Sequence[int]) -> int:
    """2 of 3 hosts and 1 of 4: 3 x 4 = 12 ways."""
    return prod(comb(len(groups[i]), n) for i, n in Counter(chosen).items())


def loss(planned: AsPlanned, chosen: Sequence[Sequence[str]], ways: int) -> Loss:
    """The hosts of a choice; spares take over those of their type, as many as there are."""
    hosts = [host for group in chosen for host in group]
    left = Counter(dict(enumerate(planned.spares)))
    taken_over = []
    for host in hosts:
        place = planned.place_of(host)
        if left[place]:
            left[place] -= 1
            taken_over.append(host)
    return Loss(tuple(hosts), ways, tuple(taken_over))


def alike(planned: AsPlanned) -> list[list[str]]:
    """Hosts of one type that hold the same replicas, together."""
    work: dict[str, list[tuple[object, ...]]] = {device.host: [] for device in planned.devices}
    for placed in planned.placed:
        sized = placed.portion.sized
        slots = [device.slot for device in placed.devices]
        share = round(placed.portion.share, 6)
        work[placed.devices[0].host].append((sized.model, share, placed.batch_size_max, *slots))
    groups = grouped(
        ((planned.place_of(host), tuple(sorted(replicas, key=str))), host) for host, replicas in work.items()
    )
    return list(groups.values())


def severity(planned: AsPlanned, loss: Loss) -> tuple[int, float]:
    """Sorts the worst first: models that are served no more, and the least share of its replicas that a model keeps."""
    left = shares_left(planned.placed, loss.missing)
    served = [share for share in left.values() if share > 0]
    return len(served), min(served, default=0.0)


def shares_left(placed: Sequence[Placed], missing: frozenset[str]) -> Mapping[str, float]:
    """Share of each model's requests that its replicas on other hosts have had; 0 where none is left."""
    shares = dict.fromkeys((one.portion.sized.model for one in placed), 0.0)
    for one in placed:
        if one.devices[0].host not in missing:
            shares[one.portion.sized.model] += one.portion.share
    return shares


def without(planned: AsPlanned, missing: frozenset[str]) -> AsPlanned:
    """What is left of a plan: its other hosts, whose replicas share all requests as they shared theirs."""
    left = shares_left(planned.placed, missing)
    placed = [
        replace(one, portion=replace(one.portion, share=one.portion.share / left[one.portion.sized.model]))
        for one in planned.placed
        if one.devices[0].host not in missing
    ]
    lost = Counter(planned.place_of(host) for host in missing)
    return replace(
        planned,
        fleet=tuple(n - lost[place] for place, n in enumerate(planned.fleet)),
        devices=tuple(device for device in planned.devices if device.host not in missing),
        placed=tuple(placed),
    )


# What is left, and how long it loads

Host = Mapping[int, Sequence[Portion]]
"""What each GPU of a machine holds, by its place there."""


def left_of(planned: AsPlanned, hosts: Sequence[str]) -> Fleet:
    """Machines of each offer without some hosts, spares included."""
    lost = Counter(map(planned.place_of, hosts))
    return tuple(n + more - lost[i] for i, (n, more) in enumerate(zip(planned.fleet, planned.spares, strict=True)))


def takeover_s(planned: AsPlanned, hosts: Sequence[str]) -> float:
    """Time until spares hold what these hosts held."""
    held = by_host(planned.placed)
    return max((loading_s(held.get(host, {}), {}) for host in hosts), default=0.0)


def anew_s(planned: AsPlanned, hosts: Sequence[str], anew: Sequence[Placed], places: Mapping[str, int]) -> float:
    """Time until the machines that are left hold what is placed on them anew; `places`: the type of each of these.

    Each takes the part of a placement for which it misses least; spares hold nothing.
    """
    held, wanted = by_host(planned.placed), by_host(anew)
    slowest_s = 0.0
    for place in set(places.values()):
        parts = [wanted.get(host, {}) for host, at in places.items() if at == place]
        stay = [held.get(host, {}) for host in planned.hosts if planned.place_of(host) == place and host not in hosts]
        there = [*stay, *[{}] * (len(parts) - len(stay))]
        cost_s = np.array([[loading_s(part, host) for host in there] for part in parts])
        slowest_s = max(slowest_s, *cost_s[linear_sum_assignment(cost_s)])
    return slowest_s


def by_host(placed: Sequence[Placed]) -> Mapping[str, Host]:
    """What each machine holds."""
    hosts: dict[str, dict[int, list[Portion]]] = {}
    for one in placed:
        for device, portion in zip(one.devices, portions_of(one), strict=True):
            hosts.setdefault(device.host, {}).setdefault(device.slot, []).append(portion)
    return hosts


def loading_s(wanted: Host, held: Host) -> float:
    """Time in which a machine reads from disk what its GPUs miss, one after the other: 90 MB at 2 GB/s are 45 ms.

    A layer that several models share is read once for each GPU.
    """
    total_s = 0.0
    for slot, portions in wanted.items():
        there = {layer.key for portion in held.get(slot, ()) for layer in portion.layers}
        for portion in portions:
            missing = {layer.key: layer.weight_bytes for layer in portion.layers if layer.key not in there}
            there |= missing.keys()
            if missing:
                total_s += portion.sized.profile.swap_from(WeightSource.DISK)(sum(missing.values()))
    return total_s
