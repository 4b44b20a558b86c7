"""Which model runs next on a GPU. Rules only; no clock in here.

An agenda holds the queues of one GPU: `put` tells when a queue's next batch may run, `take` gives the one to run now.
Each is a heap of queues that are not ready yet and a set of those that are, so a decision costs O(log models) at most.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import islice
from math import inf


class Agenda(ABC):
    """The queues of one GPU, those that are not ready yet in a heap; what becomes of the ready ones is each rule's."""

    def __init__(self) -> None:
        self._coming: list[tuple[float, int, float]] = []

    def put(self, number: int, ready_s: float, priority: float) -> None:
        """Queue `number` may run from `ready_s` on. A low `priority` (an arrival, a deadline) may put it first."""
        heappush(self._coming, (ready_s, number, priority))

    def next_ready_s(self) -> float:
        """When a queue that is not ready yet will be; infinity where there is none."""
        return self._coming[0][0] if self._coming else inf

    def take(self, now_s: float) -> int:
        """The next ready queue's number, which leaves the agenda; -1 where none is ready."""
        self._admit_until(now_s)
        number = self._first(now_s)
        if number >= 0:
            self._remove(number)
        return number

    def peek(self, now_s: float, until_s: float) -> int:
        """The queue that would run next if the GPU were free now, else the first to be ready by `until_s`; -1: none."""
        self._admit_until(now_s)
        number = self._first(now_s)
        return self._coming[0][1] if number < 0 and self.next_ready_s() <= until_s else number

    def _admit_until(self, now_s: float) -> None:
        coming = self._coming
        while coming and coming[0][0] <= now_s:
            _, number, priority = heappop(coming)
            self._admit(number, priority)

    @abstractmethod
    def _admit(self, number: int, priority: float) -> None:
        """Queue `number` is ready."""

    @abstractmethod
    def _first(self, now_s: float) -> int:
        """The ready queue that comes first; -1 where none is ready."""

    @abstractmethod
    def _remove(self, number: int) -> None:
        """Queue `number`, which came first, is not ready any more: it runs."""


class RoundRobin(Agenda):
    """Ready queues in turn, in the order of their numbers."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._ready = 0
        """Bit i is set: queue i is ready."""
        self._last = count - 1

    def take(self, now_s: float) -> int:
        """As of any agenda, in one piece: half of the time of a replay without swapping was spent in its parts."""
        coming, ready = self._coming, self._ready
        while coming and coming[0][0] <= now_s:
            ready |= 1 << heappop(coming)[1]
        if not ready:
            return -1
        later = ready >> (self._last + 1)
        number = self._last + (later & -later).bit_length() if later else (ready & -ready).bit_length() - 1
        self._ready, self._last = ready ^ (1 << number), number
        return number

    def _admit(self, number: int, priority: float) -> None:
        self._ready |= 1 << number

    def _first(self, now_s: float) -> int:
        later = self._ready >> (self._last + 1)
        if later:
            return self._last + (later & -later).bit_length()
        return (self._ready & -self._ready).bit_length() - 1

    def _remove(self, number: int) -> None:
        self._ready ^= 1 << number
        self._last = number


class EarliestFirst(Agenda):
    """The ready queue with the lowest priority value: its oldest arrival (FCFS) or that one's deadline (EDF)."""

    def __init__(self) -> None:
        super().__init__()
        self._ready: list[tuple[float, int]] = []

    def _admit(self, number: int, priority: float) -> None:
        heappush(self._ready, (priority, number))

    def _first(self, now_s: float) -> int:
        return self._ready[0][1] if self._ready else -1

    def _remove(self, number: int) -> None:
        heappop(self._ready)


def _unknown_s(_number: int) -> float:
    return inf


class SwapAware(Agenda):
    """What is resident first, unless a queue that must be loaded would then miss its deadline; ties by deadline.

    `missing_s(number)`: seconds to load what queue `number` lacks. `service_s(number)`: seconds its batch would take;
    `longest_s(number)`: what that never exceeds, where it is known, to tell at a glance who has time. `most_s`: what
    loading and running never exceed together for any queue. `lacks(number)`: whether it must load at all.
    """

    def __init__(
        self,
        missing_s: Callable[[int], float],
        service_s: Callable[[int], float],
        longest_s: Callable[[int], float] = _unknown_s,
        most_s: float = inf,
        lacks: Callable[[int], float] | None = None,
    ) -> None:
        super().__init__()
        self._ready: list[tuple[float, int]] = []
        """Deadline and number of each ready queue, in order."""
        self._deadline_s: dict[int, float] = {}
        """The same by number."""
        self._missing_s = missing_s
        self._service_s = service_s
        self._longest_s = longest_s
        self._most_s = most_s
        self._lacks = lacks or missing_s

    def _admit(self, number: int, priority: float) -> None:
        if number in self._deadline_s:
            self._remove(number)
        self._deadline_s[number] = priority
        insort(self._ready, (priority, number))

    def _first(self, now_s: float) -> int:
        if not self._ready:
            return -1
        ready, lacks = self._ready, self._lacks
        for _, here in ready:
            if not lacks(here):
                break
        else:
            return ready[0][1]
        # Whose deadline is over has nothing to lose by waiting, and whose is far off has time.
        soon = bisect_right(ready, (now_s, inf))
        if soon == len(ready) or ready[soon][0] >= now_s + self._longest_s(here) + self._most_s:
            return here
        after_s = now_s + self._service_s(here)
        for deadline_s, other in islice(ready, soon, None):
            if deadline_s >= after_s + self._most_s:
                break
            needs_s = self._missing_s(other)
            if not needs_s or now_s + needs_s > deadline_s:
                continue
            if after_s + (needs_s + self._longest_s(other)) <= deadline_s:
                continue
            takes_s = needs_s + self._service_s(other)
            if now_s + takes_s <= deadline_s < after_s + takes_s:
                return other
        return here

    def _remove(self, number: int) -> None:
        self._ready.remove((self._deadline_s.pop(number), number))
