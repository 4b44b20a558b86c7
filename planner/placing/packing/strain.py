"""Strains of many GPUs: the rounds of `planner.placing.rounds` for whole models, one by one or as machine code.

A search for a packing tries a hundred thousand ways to fill a GPU, of which nothing but the score counts.
"""

from collections.abc import Collection, Sequence
from functools import cache, cached_property
from importlib import import_module
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np

from planner.placing.duty import Portion, Rules, asked_of, load_s
from planner.placing.packing import exchanges
from planner.placing.packing.exchanges import WAYS, Fill, Gpus, Names, Room
from planner.placing.rounds import Cycle, Demanded, Models, Needed, Numbers, score_of, turns_for
from planner.placing.sizing import Kind, SizedModels
from simulator.clock.run import Compiled
from simulator.machine_code import KeptCount, is_kept

Filled = Sequence[tuple[int, float]]
"""Models on a GPU by their numbers, in the order of their names, and the share of each."""

WORTH_WAYS = 1_000
"""Ways to fill a GPU that are judged one by one in less than the time that machine code takes to fetch: whoever judges
so many mostly replays as many requests as it is fetched for."""
WORTH_MAKING = 200_000
"""The same for machine code that Numba has yet to make, once for an installation: counted over all runs."""


def machine_code() -> Any:
    """The functions of `planner.placing.packing.exchanges` that are called from here, by Numba."""
    return import_module("planner.placing.packing.compiled")


@cache
def earlier_ways() -> int:
    """Ways to fill a GPU that were to be judged in earlier runs."""
    return KeptCount(Path(__file__).parent / "__pycache__" / "ways.txt").grow_at_exit(lambda: Strains.judged)


class Strains:
    """Judges ways to fill GPUs with whole models."""

    judged = 0
    """Ways to fill a GPU that were to be judged in this process."""
    was_seen = False
    """Machine code of them on disk."""

    def __init__(self, models: Collection[str], sized: SizedModels, rules: Rules) -> None:
        fitting = {cell: one for cell, one in sized.items() if cell[0] in models and one.batches[0]}
        portions = [Portion(one, 1.0) for one in fitting.values()]
        self.numbers: dict[Kind, dict[str, int]] = {}
        """Of each model on each kind that holds it."""
        self.names = [model for model, _ in fitting]
        """By number."""
        for number, (model, kind) in enumerate(fitting):
            self.numbers.setdefault(kind, {})[model] = number
        self.kinds = {kind: place for place, kind in enumerate(self.numbers)}
        self.kind_of = np.array([self.kinds[kind] for _, kind in fitting])
        self.width = max(map(len, self.numbers.values()), default=0) + 1
        """One more than the models that a GPU may hold: room to reckon in."""
        held = _held(portions, [kind for _, kind in fitting], rules)
        self.models = Models(asked_of(portions, rules), held, rules.of_rounds)
        self.exact = not _share_layers(portions)
        """Whether it knows all there is: not where models share layers."""

    @property
    def is_compiled(self) -> bool:
        """Whether machine code is worth its time."""
        if not (Compiled.installed and self.was_made):
            return Compiled.installed and Strains.judged + earlier_ways() > WORTH_MAKING
        return Strains.judged > WORTH_WAYS or Compiled.is_worth_it()

    @cached_property
    def was_made(self) -> bool:
        """Whether machine code lies on disk: this process or another may have made it since the last search."""
        Strains.was_seen = Strains.was_seen or is_kept(*exchanges.SOURCES, function="improve")
        return Strains.was_seen

    def scores(self, fills: Sequence[Filled]) -> list[float]:
        """Of a GPU with each of these on it."""
        Strains.judged += len(fills)
        return self.by_machine_code(fills) if fills and self.is_compiled else list(map(self.one_score, fills))

    def one_score(self, fill: Filled) -> float:
        """The same one by one."""
        model, share = [number for number, _ in fill], [share for _, share in fill]
        return score_of(self.models, self.turns, model, share, len(fill))

    @cached_property
    def turns(self) -> Cycle:
        """Room to reckon in."""
        return turns_for(self.width)

    def by_machine_code(self, fills: Sequence[Filled]) -> list[float]:
        """The same where Numba is installed."""
        every = list(chain.from_iterable(fills))
        columns = np.array([number for number, _ in every], np.int64), np.array([share for _, share in every], float)
        begin, scores = np.array([0, *accumulate(map(len, fills))]), np.zeros(len(fills))
        machine_code().score_each(self.in_arrays, self.room.turns, begin, *columns, scores)
        return scores.tolist()

    @cached_property
    def in_arrays(self) -> Models:
        """The models as machine code takes them."""
        asked, held, rule = self.models
        asked = asked._replace(run_s=_table(asked.run_s))
        held = held._replace(workspace_bytes=_table(held.workspace_bytes))
        return Models(Demanded(*map(np.array, asked)), Needed(*map(np.array, held)), rule)

    @cached_property
    def room(self) -> Room:
        """Room for machine code to reckon in."""
        turns = Cycle(*(np.array(column) for column in turns_for(self.width)))
        fills = (Fill(np.zeros(self.width, np.int64), np.zeros(self.width)) for _ in range(3))
        return Room(turns, *fills)

    @cached_property
    def same(self) -> Names:
        """Which numbers are of the same model."""
        of_kinds = list(self.numbers.values())
        count, order = len(self.models.held.longest), sorted(set().union(*of_kinds))
        rank, twin = np.zeros(count, np.int64), np.zeros((count, len(of_kinds)), np.int64)
        for of_kind in of_kinds:
            for model, number in of_kind.items():
                rank[number] = order.index(model)
                twin[number] = [other.get(model, -1) for other in of_kinds]
        return Names(rank, twin)


class Exchanges:
    """GPUs between which machine code exchanges models; what it knows of them stays while they hold the same."""

    def __init__(self, strains: Strains, kinds: Sequence[Kind]) -> None:
        self.strains = strains
        count, width = len(kinds), strains.width
        self.gpus = Gpus(
            kind=np.array([strains.kinds[kind] for kind in kinds]),
            size=np.zeros(count, np.int64),
            model=np.zeros((count, width), np.int64),
            share=np.zeros((count, width)),
            score=np.zeros(count),
            less=np.zeros((count, width, WAYS)),
            known=np.zeros(count, np.int64),
            gain=np.full((count, count), -np.inf),
            way=np.full((count, count), -1),
        )

    def improve(self, fills: Sequence[Filled]) -> tuple[list[list[tuple[int, float]]], int]:
        """What the GPUs hold in the end, who hold these now; and how many partners of strained ones were looked at."""
        code, strains, gpus = machine_code(), self.strains, self.gpus
        changed = [g for g, fill in enumerate(fills) if self.filled(g) != list(fill)]
        for g in changed:
            gpus.size[g] = len(fills[g])
            gpus.model[g, : len(fills[g])] = [model for model, _ in fills[g]]
            gpus.share[g, : len(fills[g])] = [share for _, share in fills[g]]
        changed_gpus = np.array(changed, np.int64)
        looked_at = code.improve(strains.in_arrays, strains.same, gpus, strains.room, changed_gpus)
        return [self.filled(g) for g in range(len(fills))], looked_at

    def laid(self, parts: Filled) -> list[list[tuple[int, float]]]:
        """What the GPUs hold once each part in turn stands on the GPU of its kind that it leaves least strained."""
        code, strains, gpus = machine_code(), self.strains, self.gpus
        model, share = np.array([number for number, _ in parts]), np.array([share for _, share in parts])
        gpus.size[:] = 0
        code.lay(strains.in_arrays, strains.same, gpus, strains.room, strains.kind_of[model], model, share)
        return [self.filled(g) for g in range(len(gpus.size))]

    def filled(self, g: int) -> list[tuple[int, float]]:
        """What a GPU holds."""
        size = self.gpus.size[g]
        return list(zip(self.gpus.model[g, :size].tolist(), self.gpus.share[g, :size].tolist(), strict=True))


def _held(portions: Sequence[Portion], kinds: Sequence[Kind], rules: Rules) -> Needed:
    return Needed(
        memory_bytes=[float(kind.memory_bytes) for kind in kinds],
        needed_rps=[p.sized.need.needed_rps for p in portions],
        least_work=[p.sized.least_work for p in portions],
        context_bytes=[float(p.sized.context_bytes) for p in portions],
        weight_bytes=[float(p.weight_bytes) for p in portions],
        workspace_bytes=list(map(_workspaces, portions)),
        load_s=[load_s(p, p.weight_bytes, rules) for p in portions],
        longest=[len(p.latency_s) for p in portions],
    )


def _share_layers(portions: Sequence[Portion]) -> bool:
    layers = {p.sized.model: {layer.key for layer in p.sized.profile.layers} for p in portions}
    return len(set().union(*layers.values())) < sum(map(len, layers.values()))


def _table(rows: Numbers) -> exchanges.Floats:
    """Rows of unlike lengths as an array."""
    table = np.zeros((len(rows), max(map(len, rows), default=0)))
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table


def _workspaces(portion: Portion) -> list[float]:
    return [float(portion.sized.profile.workspace(size)) for size in range(1, len(portion.latency_s) + 1)]
