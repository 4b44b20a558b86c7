"""Events in machine code: by time, and of one time in the order in which they were scheduled, as SimPy brings them."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from simulator.flow.compiled.columns import Columns
from simulator.numba_parts import inner
from simulator.rules.queues import DELAYS

ARRIVES, ENDS, RAN, WAKES, AWAKE, RINGS = np.arange(6)
"""A frame arrives, items are done at stations, a batch has run; a GPU is rung for, and goes on; whoever serves has
noticed that it should be."""
WAKE, FOLLOW = np.arange(2)
"""Kinds of delays."""
NONE: Any = np.int64(0)
"""Numbers of NumPy's are variables to Numba: of plain ones it would make functions for each by itself."""


@inner
def schedule(w: Columns, what: int, who: int, which: int, delay_s: float) -> None:
    clock = w.clock[0]
    at_s, place = clock.now_s + delay_s, clock.events
    while place and at_s < w.events[(place - 1) // 2].at_s:
        w.events[place] = w.events[(place - 1) // 2]
        place = (place - 1) // 2
    one = w.events[place]
    one.at_s, one.order, one.what, one.who, one.which = at_s, clock.order, what, who, which
    clock.order += 1
    clock.events += 1


@inner
def remove_first(w: Columns) -> None:
    clock, events = w.clock[0], w.events
    clock.events -= 1
    end, place = clock.events, 0
    last = events[end]
    while 2 * place + 1 < end:
        child = 2 * place + 1
        if child + 1 < end and _is_before(w, child + 1, child):
            child += 1
        if _is_before(w, end, child):
            break
        events[place] = events[child]
        place = child
    events[place] = last


@inner
def _is_before(w: Columns, one: int, other: int) -> bool:
    a, b = w.events[one], w.events[other]
    return a.at_s < b.at_s or (a.at_s == b.at_s and a.order < b.order)


# Delays


@intrinsic
def _call_back(_typing: Any, _address: Any, _number: Any) -> Any:
    """Call a function of Python's by its address, with a number."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        of_one = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        builder.call(builder.inttoptr(arguments[0], of_one.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@inner
def next_delay_s(w: Columns, delays: int, kind: int) -> float:
    """The next of its kind. Those of several may be drawn by one generator: so none is drawn before it is needed."""
    used = w.used[delays, kind]
    if used == DELAYS:
        _call_back(w.clock[0].draw, w.used.shape[1] * delays + kind)
        used = 0
    w.used[delays, kind] = used + 1
    return w.wake_s[delays, used] if kind == WAKE else w.follow_s[delays, used]
