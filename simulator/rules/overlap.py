"""Overlap: what runs at once on a GPU holds each other up - a batch and a load, or the batches of two processes."""

from dataclasses import dataclass
from math import inf


@dataclass(slots=True)
class Overlap:
    """A batch and a load on one GPU. While both run, each takes k times as long: the larger k of their two models.

    A batch of 10 ms, a load of 4 ms that begins with it, k 1.5: the load takes 6 ms and the batch 12. At k 2 nothing is
    gained over one after the other. Batches that begin after the load would have been done alone no longer hold it up:
    a load of 10 s beside batches of 1 s ends at 13.5 s, where 15 s is right.
    """

    batch_s: float = inf
    """When the batch that runs began; infinity: none runs."""
    batch_k: float = 1.0
    load_s: float = inf
    """When the last load began; infinity: there was none."""
    load_k: float = 1.0
    arrived_s: float = inf
    """When its bytes were through; infinity while they are not."""
    owed_s: float = 0.0
    """What it takes longer, by the batches that ended meanwhile."""

    def begin_batch(self, now_s: float, k: float) -> None:
        """A batch begins."""
        self.batch_s, self.batch_k = now_s, k

    def begin_load(self, now_s: float, k: float) -> None:
        """A load begins."""
        self.load_s, self.load_k = now_s, k
        self.arrived_s, self.owed_s = inf, 0.0

    def end_batch(self, now_s: float) -> float:
        """A batch would be done by now, were it alone. Returns how much longer it takes."""
        longer_s = self._longer_s(now_s)
        self.owed_s += longer_s
        self.batch_s = inf
        return longer_s

    def end_load(self, now_s: float) -> float:
        """A load would be done by now, were it alone. Returns how much longer it takes."""
        self.arrived_s = now_s
        return self.owed_s + self._longer_s(now_s)

    def _longer_s(self, now_s: float) -> float:
        """By what the batch and the load that run have of each other so far, counted as if each were alone."""
        shared_s = min(now_s, self.arrived_s) - max(self.batch_s, self.load_s)
        return (max(self.batch_k, self.load_k) - 1) * max(0.0, shared_s)


def beside_process(busy: float, other_busy: float) -> float:
    """How many times as long batches of a process take while another uses the GPU too: 1 + busy x other_busy.

    Each is the share of its time alone that its kernels keep the GPU busy; the rest is the host's, and leaves the GPU
    to the other. Who comes finds the other there as often as it is there alone, and both go on at half the pace:
    Reiser and Lavenberg, J. ACM 27 (1980), for two customers of a processor that they share. 0.5 and 0.8: 1.4. Two that
    never leave it idle: 2.
    """
    return 1 + busy * other_busy
