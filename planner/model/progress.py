"""Progress of a command, told while it runs."""

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Gets what is being done, and the share of all work that is done (0 to 1); 0 where nobody knows how much there is."""
Tell = Callable[[int, int], None]
"""Gets how many replications of a deployment are done, and how many there may be."""


def silent(*_: object) -> None:
    """Show no progress."""


def counting(progress: Progress, doing: str) -> Tell:
    """Tells of replications: `confirming 2 x T4: 640 of at most 5,120 replications`. How many fleets follow nobody
    knows."""

    def tell(done: int, most: int) -> None:
        progress(f"{doing}: {done:,} of at most {most:,} replications", 0.0)

    return tell
