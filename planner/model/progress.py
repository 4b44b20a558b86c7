"""Progress of a command, told while it runs."""

from collections.abc import Callable
from time import monotonic

Progress = Callable[[str, float], None]
"""Gets what is being done, and the share of all work that is done (0 to 1); 0 where nobody knows how much there is."""
Tell = Callable[[int, int], None]
"""Gets how many replications of a deployment are done, and how many there may be."""


def silent(*_: object) -> None:
    """Show no progress."""


def counting(progress: Progress, doing: str) -> Tell:
    """Tells of the replications of one fleet; how many fleets follow nobody knows.

    `confirming 2 x T4: 640 of at most 5,120, 3 min left`.
    """
    begun_s = monotonic()

    def tell(done: int, most: int) -> None:
        left_s = (monotonic() - begun_s) / done * (most - done)
        left = f"{left_s / 60:.0f} min" if left_s >= 90 else f"{left_s:.0f} s"  # nobody waits by the second for minutes
        progress(f"{doing}: {done:,} of at most {most:,}, {left} left", 0.0)

    return tell
