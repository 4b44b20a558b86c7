"""Stations on the clock: servers that take items first come, first served."""

from array import array
from collections.abc import Sequence
from heapq import heapreplace
from operator import attrgetter

from simulator.rules.queues import Delays, Outage
from simulator.rules.routing import split
from simulator.world.pipelines import Station

LOAD = attrgetter("load")


class OpenStation:
    """One station: when each server is free, and what it did."""

    def __init__(self, station: Station, outages: Sequence[Outage]) -> None:
        self.station = station
        self.outages = outages
        """Of its host."""
        self.free_s = [0.0] * station.servers
        """When each server will be, as a heap."""
        self.speed, self.capacity = station.speed, station.capacity
        self.outstanding = 0
        """Items that wait or are worked on."""
        self.load = 0.0
        """These for what it can do."""
        self.start_s = array("d")
        self.finish_s = array("d")

    def take(self, now_s: float, work_s: float, delays: Delays | None = None) -> tuple[float, float]:
        """Take an item that came now; when it begins and ends is known at once, for nobody overtakes.

        One that an outage cuts short is done again, whole: it begins when the host is back.
        """
        start_s = max(now_s, self.free_s[0])
        if delays:
            start_s += next(delays.follow if self.start_s and self.free_s[0] >= now_s else delays.wake)
        finish_s = start_s + work_s / self.speed
        for outage in self.outages:
            if finish_s > outage.start_s and start_s < outage.finish_s:
                start_s, finish_s = outage.finish_s, outage.finish_s + work_s / self.speed
        heapreplace(self.free_s, finish_s)
        self._count(1)
        self.start_s.append(start_s)
        self.finish_s.append(finish_s)
        return start_s, finish_s

    def give_back(self) -> None:
        """An item is done."""
        self._count(-1)

    def _count(self, more: int) -> None:
        self.outstanding += more
        self.load = self.outstanding / self.capacity

    def is_away(self, now_s: float) -> bool:
        """Whether its host is."""
        return any(outage.start_s <= now_s < outage.finish_s for outage in self.outages)


def least_busy(stations: Sequence[OpenStation], now_s: float) -> OpenStation:
    """Where the fewest items are outstanding for what it can do, among those that are up (among all, if none is)."""
    if len(stations) == 1:
        return stations[0]
    if any(one.outages for one in stations):
        stations = [one for one in stations if not one.is_away(now_s)] or stations
    return min(stations, key=LOAD)


def homes(stations: Sequence[Station], sources: Sequence[int]) -> dict[int, int]:
    """By source: the place of the station where it stays. They are dealt in turn, by what stations can do.

    Sources 4, 5, 6 at stations of two servers and of one: 4 and 6 go to the first.
    """
    shares = split(len(sources), [station.capacity for station in stations])
    return {sources[turn]: place for place, turns in enumerate(shares) for turn in turns.tolist()}
