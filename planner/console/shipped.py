"""Scenarios that are shipped, found by name where there is no clone."""

from pathlib import Path
from typing import overload

import planner

INSTALLED = Path(planner.__file__).parent / "shipped"
CLONED = Path(planner.__file__).parents[1] / "scenarios"


@overload
def shipped(path: Path) -> Path: ...
@overload
def shipped(path: None) -> None: ...
def shipped(path: Path | None) -> Path | None:
    """The file itself where it exists; else what is shipped as `video`, `video.yaml` or `scenarios/video.yaml`."""
    if path is None or path.exists():
        return path
    folder = INSTALLED if INSTALLED.is_dir() else CLONED
    inside = Path(*path.parts[1:]) if path.parts[:1] == ("scenarios",) else path
    for name in (inside, inside.with_name(f"{inside.name}.yaml")):
        if not name.is_absolute() and ".." not in name.parts and (folder / name).is_file():
            return folder / name
    return path
