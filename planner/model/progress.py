"""Progress of a command, told while it runs."""

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Gets what is being done, and the share of all work that is done (0 to 1); 0 where nobody knows how much there is."""
Tell = Callable[[int, int], None]
"""Gets how many replications of a deployment are done, and how many there may be."""


def silent(*_: object) -> None:
    """Show no progress."""


def counting(progress: Progress, doing: str) -> Tell:
    """Tells of the replications of one fleet: `confirming 2 x T4: 2,560 of at most 5,120`.

    How many fleets follow nobody knows, so no time is said to be left.
    """
    return lambda done, most: progress(f"{doing}: {done:,} of at most {most:,}", 0.0)
