"""Progress of a command, told while it runs."""

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Gets what is being done, and how much of it is done (0 to 1)."""


def silent(*_: object) -> None:
    """Show no progress."""
