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

    `confirming 2 x T4: 2,560 of at most 5,120, at most 3 min left`. What is left is told from half of them on: earlier
    ones wait for machine code, and most fleets are decided by few.
    """
    first: list[tuple[int, float]] = []

    def tell(done: int, most: int) -> None:
        if not first:
            first.append((done, monotonic()))
        seen, begun_s = first[0]
        text = f"{doing}: {done:,} of at most {most:,}"
        if done > seen and most / 2 <= done < most:
            left_s = (monotonic() - begun_s) / (done - seen) * (most - done)
            text += f", at most {left_s / 60:.0f} min left" if left_s >= 90 else f", at most {left_s:.0f} s left"
        progress(text, 0.0)

    return tell
