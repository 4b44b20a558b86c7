"""Machine code by Numba: functions that Python calls, and parts of them.

Numba makes code of each function with that of all that it calls, again for whoever calls it: of functions nine deep the
innermost nine times. Code of a part is made once, within the function that Python calls, in two thirds of the time.
"""

from itertools import count
from typing import Any

from numba import __version__, extending, njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

NUMBERS = count()


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code of a part as Numba wrote it, for others to take in: nothing runs of it by itself."""

    @property
    def codegen(self) -> "PartLibrary":
        """Where Numba looks for what has been made."""
        return self

    def set_env(self, *_: object) -> None:
        """Nothing runs that would look for it: no part raises with a message that is worked out, or prints."""

    def _optimize_final_module(self) -> None:
        """With whoever calls it."""

    def _finalize_final_module(self) -> None:
        self._finalized = True


class PartCompiler(Compiler):  # type: ignore[misc]
    """As Numba's own, but for where it keeps the code."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, library or PartLibrary(target.codegen(), f"part.{next(NUMBERS)}"), *rest)


UNCOUNTED: dict[str, Any] = {"_nrt": False}
"""No function makes an array, nor calls any that does: Numba then counts no references to those that they are given,
which took ten times as long as serving."""
TRIED = ("0.68.1",)
"""Versions of Numba whose insides are as these classes take them; by any other, parts are made as it makes them."""


def options_of_parts(version: str) -> dict[str, Any]:
    """How a version of Numba compiles parts: what is tried is quicker, the code does the same."""
    alone = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler}
    return {**UNCOUNTED, **alone} if version in TRIED else UNCOUNTED


PART = options_of_parts(__version__)
loop = njit(cache=True, nogil=True, **UNCOUNTED)
"""For functions that Python calls. Other threads run meanwhile."""
inner = njit(**PART)
"""For functions that only machine code calls, with which theirs is kept: Python must not call them."""
inlined = njit(forceinline=True, **PART)
"""The same, where as many arrays are handed on as take longer to hand on than most of what is done with them."""
register = extending.register_jitable(**PART)
"""For functions that Python runs as they stand, compiled where machine code calls them."""
