"""A scenario to start from."""

from pathlib import Path


def starter(*, training: bool = False) -> str:
    """A commented scenario that a newcomer can edit; it plans, or trains, as it is."""
    folder = Path(__file__).parent / ("training" if training else "")
    return (folder / "template.yaml").read_text(encoding="utf-8")
