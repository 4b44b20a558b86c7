"""Scenarios that are shipped, found by name where there is no clone."""

from collections.abc import Iterator
from glob import escape, glob
from pathlib import Path
from typing import overload

from simulator.errors import InputError
from simulator.near import near_names

PACKAGE = Path(__file__).parents[1]
INSTALLED = PACKAGE / "shipped"
CLONED = PACKAGE.parent / "scenarios"


def folder() -> Path:
    """Where they are."""
    return INSTALLED if INSTALLED.is_dir() else CLONED


def named(begun: str) -> list[str]:
    """What a shell may complete: files and folders that begin so, then shipped scenarios by their short names."""
    here = sorted(glob(f"{escape(begun)}*"))
    files = [f"{path}/" if Path(path).is_dir() else path for path in here if is_offered(Path(path))]
    return [*files, *(name for name in short_names() if name.startswith(begun))]


def short_names() -> Iterator[str]:
    """`video` and `training/resnet50`."""
    return (path.relative_to(folder()).with_suffix("").as_posix() for path in sorted(folder().rglob("*.yaml")))


def is_offered(path: Path) -> bool:
    """A scenario, or a folder that may hold some."""
    return path.is_dir() or path.suffix == ".yaml"


def held_as(path: Path) -> Path | None:
    """What is shipped as `video`, `video.yaml` or `scenarios/video.yaml`."""
    inside = Path(*path.parts[1:]) if path.parts[:1] == ("scenarios",) else path
    for name in (inside, inside.with_name(f"{inside.name}.yaml")):
        if not name.is_absolute() and ".." not in name.parts and (folder() / name).is_file():
            return folder() / name
    return None


@overload
def shipped(path: Path) -> Path: ...
@overload
def shipped(path: None) -> None: ...
def shipped(path: Path | None) -> Path | None:
    """The file itself where it exists; else what is shipped as `video`, `video.yaml` or `scenarios/video.yaml`, and
    what one folder of these alone has: `deadline` is `studies/deadline`.

    InputError for a word that is nearly one of these.
    """
    if path is None or path.exists():
        return path
    if (held := held_as(path)) or path.suffix not in ("", ".yaml"):
        return held or path
    return in_one_folder(path) or path


def in_one_folder(path: Path) -> Path | None:
    """What one folder of what is shipped alone has by this name; InputError where several have, or one nearly has."""
    named = path.with_suffix("").as_posix()
    within = [name for name in short_names() if name.endswith(f"/{named}")]
    if len(within) == 1:
        return folder() / f"{within[0]}.yaml"
    near = within or near_names(named, [] if path.suffix else list(short_names()))
    if near:
        raise InputError(f"{path}: no such file, and no shipped scenario of that name. Did you mean `{near[0]}`?")
    return None
