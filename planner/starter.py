"""A scenario to start from."""

from pathlib import Path


def starter() -> str:
    """A commented scenario that a newcomer can edit; it plans as it is."""
    return Path(__file__).with_name("template.yaml").read_text(encoding="utf-8")
