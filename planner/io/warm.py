"""Warm: plans that were worked out before, in the user's cache, each under the digest of all that it depends on."""

import json
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from calibrate.io.files import cache_folder, read_json, replacing
from planner.io.load import Loaded
from planner.io.sound import sound
from planner.io.store import EXACT, plain
from planner.model.plan import Plan

KEPT_MAX = 100
"""Plans in the cache, some 30 MB; the one that was kept longest ago goes first."""
PROGRAM = tuple(Path(__file__).parents[2] / room for room in ("simulator", "calibrate", "planner"))


@cache
def versions() -> dict[str, str]:
    """Of the program and of what its figures depend on; each is looked for among all packages."""
    packages = {"planner": "gpu-capacity-planner", "numpy": "numpy", "scipy": "scipy", "simpy": "simpy"}
    return {"python": platform.python_version()} | {name: version(package) for name, package in packages.items()}


def warm_plan(loaded: Loaded, folders: Sequence[Sequence[Path]], created_at: str, work: Callable[[], Plan]) -> Plan:
    """The plan that was kept of this question, else the one that `work` makes, which is kept.

    `folders`: catalogs and profiles of one's own.
    """
    models = loaded.scenario.with_stages.models
    # Layers of a package, a file or one's own code are looked at, of which no digest knows.
    runs_code = any(":" in name for one in models for name in (one.known_as, one.made_by, one.layers or ""))
    if runs_code or not all(place.is_dir() for places in folders for place in places):
        return work()
    path = cache_folder("plans") / f"{key_of(loaded, folders, created_at[:10])}.json"
    with suppress(ValueError, OSError):  # not there, or damaged
        return replace(sound(read_json(path), Plan), created_at=created_at)
    plan = work()
    with suppress(OSError):  # what cannot be kept is worked out again
        keep(plan, path)
    return plan


def key_of(loaded: Loaded, folders: Sequence[Sequence[Path]], day: str) -> str:
    """SHA-256 of the question, the day, and every file that has a part in the answer, the program's own among them."""
    about = loaded.scenario.sharing
    named = [loaded.path.parent / file for file in (about.table, about.curve) if file]
    recorded = [(i, table.period_s, table.times_s.tobytes()) for i, table in sorted(loaded.traces.items())]
    question = (loaded.path.stem, loaded.sha256, loaded.overrides, loaded.scenario, folders, day, versions())
    digest = sha256(repr(question).encode())
    for number, period_s, times in recorded:
        digest.update(repr((number, period_s, len(times))).encode() + times)
    for path in files_of(chain(PROGRAM, *folders, named)):
        content = path.read_bytes()
        digest.update(repr((str(path), len(content))).encode() + content)
    return digest.hexdigest()


def files_of(places: Iterable[Path]) -> Iterator[Path]:
    """Files and all files in folders, in order; but for what Python and Numba keep."""
    for place in places:
        inside = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (path for path in inside if path.is_file() and "__pycache__" not in path.parts)


def keep(plan: Plan, path: Path) -> None:
    """Write a plan, whole or not at all; a writer beside this one writes the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(json.dumps(plain(asdict(plan), EXACT)).encode())
    kept = sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)
    for old in kept[:-KEPT_MAX]:
        old.unlink(missing_ok=True)
