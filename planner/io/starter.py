"""A scenario to start from."""

from pathlib import Path


def starter(*, training: bool = False) -> str:
    """A commented scenario that a newcomer can edit; it plans, or trains, as it is."""
    name = "training_template.yaml" if training else "plan_template.yaml"
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
