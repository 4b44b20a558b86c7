"""Machine code by Numba: functions that Python calls, and parts of them.

Numba makes code of each function with that of all that it calls, again for whoever calls it: of functions nine deep the
innermost nine times. Code of a part is made once, within the function that Python calls, in two thirds of the time. And
it hands every array of a named tuple on by itself, seven numbers each, at every call: so parts get the tuple's address.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

from numba import __version__, config, extending, njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.datamodel.models import PrimitiveModel
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate

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


class LoopLibrary(JITCodeLibrary):  # type: ignore[misc]
    """As Numba's own, but optimized once: what is done before is for references that nobody counts here."""

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class Options(Flags):  # type: ignore[misc]
    """As Numba's own, compared by what is set alone: Numba looks them up as often as it looks for a function, which
    takes a twentieth of its time."""

    __slots__ = ()

    def __hash__(self) -> int:
        return ANY_OPTIONS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flags) and bool(self._values == other._values)


ANY_OPTIONS = hash(Flags())
"""Numba's own hash: that of the names of all options, whatever their values."""


class LoopCompiler(Compiler):  # type: ignore[misc]
    """As Numba's own, but for how it compares options and how often it optimizes."""

    def __init__(self, typing: Any, target: Any, library: Any, given: Any, returned: Any, flags: Any, own: Any) -> None:
        if library is None:
            library = LoopLibrary(target.codegen(), f"loop.{next(NUMBERS)}")
            library.enable_object_caching()
        super().__init__(typing, target, library, given, returned, Options(flags), own)


class PartCompiler(LoopCompiler):
    """The same, but for where it keeps the code."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, library or PartLibrary(target.codegen(), f"part.{next(NUMBERS)}"), *rest)


UNCOUNTED: dict[str, Any] = {"_nrt": False}
"""No function makes an array, nor calls any that does: Numba then counts no references to those that they are given,
which took ten times as long as serving."""
TRIED = ("0.68.1",)
"""Versions of Numba whose insides are as these classes take them; by any other, parts are made as it makes them."""


def options_of(compiler: type[LoopCompiler], version: str) -> dict[str, Any]:
    """How a version of Numba compiles parts, or what calls them: what is tried is quicker, the code does the same."""
    known = {**UNCOUNTED, "no_cfunc_wrapper": True, "no_cpython_wrapper": compiler is PartCompiler}
    return {**known, "pipeline_class": compiler} if version in TRIED else UNCOUNTED


class KeptCode(FunctionCache):  # type: ignore[misc]
    """As Numba's own, which first imports all that it would make code with, for a fifth of a second."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Code on disk; None where there is none."""
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


PART = options_of(PartCompiler, __version__)


def loop(function: Callable[..., Any]) -> Any:
    """For functions that Python calls. Other threads run meanwhile."""
    made = njit(cache=True, nogil=True, **options_of(LoopCompiler, __version__))(function)
    if __version__ in TRIED and not config.DISABLE_JIT:
        made._cache = KeptCode(function)
    return made


inner = njit(**PART)
"""For functions that only machine code calls, with which theirs is kept: Python must not call them."""
inlined = njit(forceinline=True, **PART)
"""The same, where as many arrays are handed on as take longer to hand on than most of what is done with them."""
register = extending.register_jitable(**PART)
"""For functions that Python runs as they stand, compiled where machine code calls them."""


class Address(types.Type):  # type: ignore[misc]
    """Where a named tuple lies: its fields read as those of the tuple do."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        super().__init__(f"at({whole})")

    @property
    def key(self) -> Any:
        """By which Numba compares types: a tuple's name says too little."""
        return self.whole


@extending.register_model(Address)
class AddressModel(PrimitiveModel):  # type: ignore[misc]
    """A pointer to the tuple as machine code holds it."""

    def __init__(self, models: Any, of: Address) -> None:
        super().__init__(models, of, models.lookup(of.whole).get_value_type().as_pointer())


@extending.intrinsic
def address(_typing: Any, whole: Any) -> Any:
    """The address of a named tuple: until the function ends that asks for it, or asks again at the same place."""

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return cgutils.alloca_once_value(builder, given[0])

    return Address(whole)(whole), generate


def itself(whole: Any) -> Any:
    """What stands for its address where nothing is compiled."""
    return whole


at: Any = itself if config.DISABLE_JIT else address


@extending.infer_getattr
class AddressAttributes(AttributeTemplate):  # type: ignore[misc]
    """Its fields; those that are named tuples of several types by their addresses."""

    key = Address

    def generic_resolve(self, of: Address, name: str) -> Any:
        """The type of a field; None where there is no such field."""
        if name not in of.whole.fields:
            return None
        found = of.whole[of.whole.fields.index(name)]
        return Address(found) if isinstance(found, types.NamedTuple) else found


@lower_getattr_generic(Address)
def field(_context: Any, builder: Any, of: Address, address: Any, name: str) -> Any:
    """A field."""
    number = of.whole.fields.index(name)
    place = cgutils.gep_inbounds(builder, address, 0, number)
    return place if isinstance(of.whole[number], types.NamedTuple) else builder.load(place)
