"""Transfers that share a link: the copy engines of a host's GPUs behind one PCIe root."""

from collections.abc import Sequence
from dataclasses import dataclass

import simpy


def fair_rates(most: Sequence[float], capacity: float) -> list[float]:
    """Max-min fair rates: nobody gets more than it can take, and what is left is shared equally.

    Takers of at most 2, 10 and 10 on a link of 16: 2, 7, 7. Bertsekas and Gallager, Data Networks (1992), sec. 6.5.
    """
    rates = [0.0] * len(most)
    left = capacity
    by_need = sorted(range(len(most)), key=lambda i: most[i])
    for place, i in enumerate(by_need):
        rates[i] = min(most[i], left / (len(most) - place))
        left -= rates[i]
    return rates


@dataclass(slots=True, eq=False)
class _Transfer:
    left_bytes: float
    most_bytes_per_s: float
    done: simpy.Event
    rate: float = 0.0


class Link:
    """A shared link: transfers in flight share its bandwidth fairly; each ends when its bytes are through."""

    def __init__(self, env: simpy.Environment, bytes_per_s: float) -> None:
        self._env = env
        self._capacity = bytes_per_s
        self._flights: list[_Transfer] = []
        self._seen_s = 0.0
        self._changes = 0

    def transfer(self, size_bytes: float, most_bytes_per_s: float) -> simpy.Event:
        """Start moving `size_bytes`; the event fires when they have arrived."""
        self._advance()
        flight = _Transfer(size_bytes, most_bytes_per_s, self._env.event())
        self._flights.append(flight)
        self._share()
        return flight.done

    def alone_s(self, size_bytes: float, most_bytes_per_s: float) -> float:
        """How long a transfer takes that shares the link with no other."""
        return size_bytes / min(most_bytes_per_s, self._capacity)

    def stop(self, done: simpy.Event) -> None:
        """Break off the transfer that would fire `done`; the others share what it leaves."""
        self._advance()
        self._flights = [flight for flight in self._flights if flight.done is not done]
        self._share()

    def _advance(self) -> None:
        passed_s = self._env.now - self._seen_s
        self._seen_s = self._env.now
        for flight in self._flights:
            flight.left_bytes -= flight.rate * passed_s

    def _share(self) -> None:
        self._changes += 1
        if not self._flights:
            return
        rates = fair_rates([f.most_bytes_per_s for f in self._flights], self._capacity)
        for flight, rate in zip(self._flights, rates, strict=True):
            flight.rate = rate
        first = min(self._flights, key=lambda f: f.left_bytes / f.rate)
        self._env.process(self._finish(first, self._changes))

    def _finish(self, flight: _Transfer, change: int) -> simpy.events.ProcessGenerator:
        yield self._env.timeout(max(0.0, flight.left_bytes / flight.rate))
        if change != self._changes:
            return
        self._advance()
        self._flights.remove(flight)
        flight.done.succeed()
        self._share()
