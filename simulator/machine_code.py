"""Machine code that Numba keeps on disk: made by one process, forgotten where its source has changed."""

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property, wraps
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None
"""Locks; not on Windows, where each process makes its own code."""

HERE = Path(__file__).parent
CONSTANTS = (
    HERE / "numba_parts.py",
    HERE / "rules" / "latencies.py",
    HERE / "rules" / "batching.py",
    HERE / "rules" / "queues.py",
    HERE / "clock" / "metrics.py",
    HERE / "clock" / "records.py",
    HERE / "world" / "deployment.py",
)
"""Modules of which Numba writes constants into the code, of which its own index knows nothing."""


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def forget_stale(source: Path, *used: Path) -> None:
    """Delete what Numba keeps of a module, unless it was made from the module, and those that it uses, as they are now.

    Numba itself looks whether a source has changed only after it has read the types in its index: where one of them
    was renamed meanwhile, that ends in an AttributeError.
    """
    stamp, digest = _stamp(source), _digest(source, *used)
    with suppress(OSError):  # a folder that cannot be written holds no code of ours
        if stamp.is_file() and stamp.read_text(encoding="ascii") == digest:
            return
        for old in (*_kept(source, "nbi"), *_kept(source, "nbc")):
            old.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(digest, encoding="ascii")


def is_kept(source: Path, *used: Path, function: str = "*") -> bool:
    """Whether Numba keeps code, of this function of it, that was made from these modules as they are now."""
    if not any(_kept(source, "nbi", function)):
        return False
    stamp = _stamp(source)
    return stamp.is_file() and stamp.read_text(encoding="ascii") == _digest(source, *used)


def by_one(function: Any) -> Callable[..., Any]:
    """A function of Numba's that takes long to make: of processes that need it at once, one makes it, while the others
    wait for what is kept then. For Python to call; other machine code takes the function itself."""
    if not hasattr(function, "signatures"):  # NUMBA_DISABLE_JIT leaves it as it is
        return function  # type: ignore[no-any-return]
    source = Path(function.py_func.__code__.co_filename)

    @wraps(function)
    def call(*given: Any) -> Any:
        if not function.overloads:
            with alone(_stamp(source).with_suffix(f".{function.__name__}.lock")):
                function.compile(tuple(map(function.typeof_pyval, given)))
        return function(*given)

    return call


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """No other process is here with the same path; nothing is locked where it cannot be written, or has no locks."""
    with ExitStack() as opened:
        lock = None
        with suppress(OSError):
            lock = opened.enter_context(path.open("ab")) if fcntl else None
            if lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if lock:  # a copy of this process that began meanwhile would hold it on
                with suppress(OSError):
                    fcntl.flock(lock, fcntl.LOCK_UN)


class KeptCount:
    """A number that is kept on disk from run to run, where its folder can be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.earlier = 0
        with suppress(OSError, ValueError):
            self.earlier = int(path.read_text(encoding="ascii"))

    def grow_at_exit(self, by: Callable[[], int]) -> int:
        """The number so far; what this run adds to it is asked for and written when the process ends."""
        atexit.register(lambda: self.keep(self.earlier + by()))
        return self.earlier

    def keep(self, number: int) -> None:
        """Write it."""
        with suppress(OSError):
            self.path.parent.mkdir(exist_ok=True)
            self.path.write_text(str(number), encoding="ascii")


class MadeOnce:
    """Machine code that Numba takes long to make, once for an installation. So it is made when all runs together have
    done so much without it that it would have been worth it: no run waits for code that may never be needed."""

    def __init__(self, worth: int, name: str, function: str, source: Path, *used: Path) -> None:
        self.worth = worth
        self.function = function
        """Of the first source: the one that takes longest to make."""
        self.sources = source, *used
        self.path = source.parent / "__pycache__" / f"{name}.txt"
        """Where what was done is counted."""
        self.done = 0
        """In this run."""
        self.was_seen = False
        """On disk."""

    @property
    def was_made(self) -> bool:
        """Whether it lies on disk: this process or another may have made it since it was last asked for."""
        self.was_seen = self.was_seen or is_kept(*self.sources, function=self.function)
        return self.was_seen

    @cached_property
    def earlier(self) -> int:
        """What earlier runs did; what this one does is added when it ends."""
        return KeptCount(self.path).grow_at_exit(lambda: self.done)

    @property
    def pays(self) -> bool:
        """Whether it is there, or should be made now."""
        return self.was_made or self.done + self.earlier > self.worth

    def pays_after(self, more: int) -> bool:
        """The same once so much more is counted."""
        self.done += more
        return self.pays


def _stamp(source: Path) -> Path:
    return source.parent / "__pycache__" / f"{source.stem}.sha256"


def _digest(*sources: Path) -> str:
    return sha256(b"".join(path.read_bytes() for path in (*sources, *CONSTANTS))).hexdigest()


def _kept(source: Path, suffix: str, function: str = "*") -> Iterator[Path]:
    return _stamp(source).parent.glob(f"{source.stem}.{function}-*.{suffix}")
