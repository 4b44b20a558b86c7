"""What `planner.placing.packing.strain` calls of `planner.placing.packing.exchanges`, as machine code."""

from inspect import isfunction
from types import ModuleType

from planner.placing import rounds
from planner.placing.packing import exchanges
from planner.placing.packing.exchanges import Floats, Gpus, Ints, Names, Room
from planner.placing.rounds import Cycle, Models
from simulator.machine_code import by_one, forget_stale
from simulator.numba_parts import at, loop, register


def functions_of(module: ModuleType) -> list[object]:
    """Those that are defined there."""
    return [one for one in vars(module).values() if isfunction(one) and one.__module__ == module.__name__]


forget_stale(*exchanges.SOURCES)
for function in (*functions_of(rounds), *functions_of(exchanges)):
    register(function)


@by_one
@loop
def improve(models: Models, names: Names, gpus: Gpus, room: Room, changed: Ints) -> int:
    """Of GPUs of which some hold something else than they did."""
    given, fills, places = at(models), at(gpus), at(room)
    exchanges.set_scores(given, fills, places, changed)
    return exchanges.improve(given, at(names), fills, places)


@by_one
@loop
def lay(models: Models, names: Names, gpus: Gpus, room: Room, kind: Ints, model: Ints, share: Floats) -> None:
    """And score what all hold then."""
    given, fills, places = at(models), at(gpus), at(room)
    exchanges.lay(given, at(names), fills, places, kind, model, share)
    exchanges.set_scores(given, fills, places, range(len(gpus.size)))


@by_one
@loop
def score_each(models: Models, turns: Cycle, begin: Ints, model: Ints, share: Floats, scores: Floats) -> None:
    """Of GPUs by themselves."""
    exchanges.score_each(at(models), at(turns), begin, model, share, scores)
