"""Strains of many GPUs at once: the duty cycles of `planner.placing.duty` as columns, equal to the last bit.

A search for a packing tries thousands of ways to fill a GPU, of which nothing but the strain counts.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import accumulate, chain
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.placing.duty import LOST_WEIGHT, USUAL_ROUNDS, Portion, Rules, load_s, run_times_s, spread_of
from planner.placing.sizing import Kind, SizedModels
from simulator.clock.run import Compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


AT_ONCE_MIN = 64
"""Ways to fill a GPU from which columns take less time than one by one: forty take as long."""
WORTH_WAYS = 5_000
"""Ways that are judged one by one in the time that machine code takes to fetch."""


class Burden(NamedTuple):
    """What a GPU bears, one entry for each way to fill it."""

    work: Floats
    """Share of its time that it works at least."""
    strain: Floats
    """As `planner.placing.duty.strain`; infinite where memory is short."""
    held_bytes: Floats
    """Memory that it needs at batch 1."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """Ways to fill a GPU: a row for each, a column for each model on it, up to as many as the fullest has."""

    model: Ints
    """Number of the model; of none where the row has fewer."""
    there: NDArray[np.bool_]
    share: Floats
    rate_rps: Floats


class Strains:
    """Judges ways to fill GPUs with whole models."""

    def __init__(self, models: Collection[str], sized: SizedModels, rules: Rules) -> None:
        self.rules = rules
        fitting = {cell: one for cell, one in sized.items() if cell[0] in models and one.batches[0]}
        portions = [Portion(one, 1.0) for one in fitting.values()]
        self.numbers: dict[Kind, dict[str, int]] = {}
        """Of each model on each kind that holds it."""
        for number, (model, kind) in enumerate(fitting):
            self.numbers.setdefault(kind, {})[model] = number
        self.nothing = len(fitting)
        self.memory_bytes = _column(kind.memory_bytes for _, kind in fitting)
        self.needed_rps = _column(p.sized.need.needed_rps for p in portions)
        self.least_work = _column(p.sized.least_work for p in portions)
        self.context_bytes = _column(p.sized.context_bytes for p in portions)
        self.weight_bytes = _column(p.weight_bytes for p in portions)
        self.spread = _column(map(spread_of, portions))
        self.misses = _column((1 - p.sized.need.slo.attainment) / 2 for p in portions)
        self.gap_s = _column(p.sized.need.gap_s for p in portions)
        self.delay_s = _column(p.sized.need.max_queue_delay_s for p in portions)
        self.limit_s = _column(map(rules.limit_s, portions), nothing=1.0)
        self.tightness = _column((rules.tightness.get(m, 1.0) for m, _ in fitting), nothing=1.0)
        self.load_s = _column(load_s(p, p.weight_bytes, rules) for p in portions)
        self.longest = np.array([len(p.latency_s) for p in portions] + [1])
        self.run_s = np.zeros((len(portions) + 1, self.longest.max()))
        for row, portion in zip(self.run_s, portions, strict=False):
            row[: len(portion.latency_s)] = run_times_s(portion, rules)
        self.workspace: Floats = np.zeros(self.run_s.shape)
        for number, portion in enumerate(portions):
            self.workspace[number, : len(portion.latency_s)] = _workspaces(portion)
        self.workspace_1 = self.workspace[:, 0]
        each = (row[:longest] for row, longest in zip(self.workspace[:-1], self.longest, strict=False))
        self.least_beyond = [np.minimum.accumulate(row[::-1])[::-1] for row in each]
        """By model: least workspace of a batch of 1, 2, ... or any larger one."""
        layers = {model: {layer.key for layer in sized[model, kind].profile.layers} for model, kind in fitting}
        self.exact = len(set().union(*layers.values())) == sum(map(len, layers.values()))
        """Whether it knows all there is: not where models share layers."""

    judged = 0
    """Ways to fill a GPU that were to be judged in this process."""

    def pays(self, ways: int) -> bool:
        """Whether to judge so many at once; counts them."""
        Strains.judged += ways
        return self.exact and (ways >= AT_ONCE_MIN or (ways > 0 and self.is_compiled))

    @property
    def is_compiled(self) -> bool:
        """Whether machine code is worth its time, or was fetched already."""
        return Compiled.installed and (Strains.judged > WORTH_WAYS or Compiled.is_worth_it())

    @cached_property
    def _known(self) -> Any:
        """What machine code asks."""
        code = import_module("planner.placing.compiled")
        return code.ModelColumns(
            self.memory_bytes,
            self.needed_rps,
            self.least_work,
            self.context_bytes,
            self.weight_bytes,
            self.spread,
            self.misses,
            self.gap_s,
            self.delay_s,
            self.limit_s,
            self.tightness,
            self.load_s,
            self.longest,
            self.run_s,
            self.workspace,
        )

    def of(self, fills: Sequence[Sequence[tuple[int, float]]]) -> Burden:
        """What a GPU bears with each of these on it: models by their `numbers`, one at least, and the share of each."""
        return self.in_machine_code(fills) if self.is_compiled else self.in_columns(fills)

    def in_machine_code(self, fills: Sequence[Sequence[tuple[int, float]]]) -> Burden:
        """The same where Numba is installed."""
        code, rules = import_module("planner.placing.compiled"), self.rules
        model, share = zip(*chain.from_iterable(fills), strict=True)
        begin = np.array([0, *accumulate(map(len, fills))])
        found = code.burdens(
            self._known, rules.headroom, rules.swap, rules.prefetch, begin, np.array(model), np.array(share)
        )
        return Burden(*found)

    def in_columns(self, fills: Sequence[Sequence[tuple[int, float]]]) -> Burden:
        """The same without machine code."""
        filled = self._filled(fills)
        work = _sum(filled.share * self.least_work[filled.model])
        context = self.context_bytes[filled.model].max(axis=1)
        alone = self.weight_bytes[filled.model]
        together = _sum(alone)
        spare = self.memory_bytes[filled.model[:, 0]] - context
        strain = self._strain(filled, spare[:, None] - together[:, None], swapped=False)
        first = self.workspace_1[filled.model]
        held = context + together + first.max(axis=1)
        if self.rules.swap:
            strain = np.minimum(strain, self._strain(filled, spare[:, None] - alone, swapped=True))
            held = context + (alone + first).max(axis=1)
        return Burden(work, strain, held)

    def _filled(self, fills: Sequence[Sequence[tuple[int, float]]]) -> _Filled:
        width = max(map(len, fills))
        nothing = [(self.nothing, 0.0)]
        cells = np.array([[*fill, *nothing * (width - len(fill))] for fill in fills])
        model, share = cells[:, :, 0].astype(np.int64), cells[:, :, 1]
        return _Filled(model, model < self.nothing, share, self.needed_rps[model] * share)

    def _caps(self, filled: _Filled, room_bytes: Floats) -> Ints:
        """The largest batches that memory allows; 0 where it allows none."""
        room = np.broadcast_to(room_bytes, filled.model.shape)
        caps = np.ones(filled.model.shape, dtype=np.int64)
        for number, least in enumerate(self.least_beyond):
            here = filled.model == number
            caps[here] = least.searchsorted(room[here], side="right")
        return caps

    def _strain(self, filled: _Filled, room_bytes: Floats, *, swapped: bool) -> Floats:
        caps = self._caps(filled, room_bytes)
        loads_s = self.load_s[filled.model] if swapped else np.zeros(filled.share.shape)
        longest_s, batch_s = self._longest(filled, loads_s)
        usual_s = self._usual(filled, longest_s, loads_s)
        waits_s = self._waits(filled, batch_s, loads_s, usual_s)
        mean = filled.rate_rps * longest_s[:, None]
        gathered = np.maximum(1, np.ceil(mean + self.spread[filled.model] * np.sqrt(mean) - 1e-9))
        some = np.maximum(caps, 1)
        rounds_left = np.ceil(gathered / some) - 1
        own_s = self.delay_s[filled.model] + rounds_left * usual_s[:, None] + batch_s
        crowding = filled.rate_rps * usual_s[:, None] / some * self.tightness[filled.model]
        crowding = crowding + LOST_WEIGHT * np.maximum(0.0, crowding * (1 - self.rules.headroom) - 1)
        each = np.maximum((waits_s + own_s) / self.limit_s[filled.model], crowding)
        most: Floats = np.where(filled.there, each, -inf).max(axis=1)
        return np.where(caps.all(axis=1), most, inf)

    def _longest(self, filled: _Filled, loads_s: Floats) -> tuple[Floats, Floats]:
        """The shortest round that serves all that arrives, and each batch in it; see `duty_cycle`."""
        sizes, load_s, most = np.ones(filled.model.shape, dtype=np.int64), _sum(loads_s), self.longest[filled.model]
        while True:
            batch_s = self.run_s[filled.model, sizes - 1]
            cycle_s = self._busy(_sum(batch_s), load_s) / (1 - self.rules.headroom)
            wanted = np.ceil(filled.rate_rps * cycle_s[:, None] - 1e-9)
            grown = np.maximum(sizes, np.minimum(most, wanted)).astype(np.int64)
            if np.array_equal(grown, sizes):
                return cycle_s, batch_s
            sizes = grown

    def _busy(self, run_s: Floats, load_s: Floats) -> Floats:
        return np.maximum(run_s, load_s) if self.rules.prefetch else run_s + load_s

    def _usual(self, filled: _Filled, cycle_s: Floats, loads_s: Floats) -> Floats:
        """A round in which a model that is rarely asked rarely takes part."""
        most, falling = self.longest[filled.model], np.ones(len(cycle_s), dtype=bool)
        for _ in range(USUAL_ROUNDS):
            gathered = filled.rate_rps * cycle_s[:, None]
            taken = np.minimum(1.0, gathered)
            size = np.minimum(most, np.maximum(1, np.ceil(gathered - 1e-9))).astype(np.int64)
            run_s, load_s = _sum(taken * self.run_s[filled.model, size - 1]), _sum(taken * loads_s)
            shorter_s = self._busy(run_s, load_s) / (1 - self.rules.headroom)
            falling &= shorter_s < cycle_s
            if not falling.any():
                break
            cycle_s = np.where(falling, shorter_s, cycle_s)
        return cycle_s

    def _waits(self, filled: _Filled, batch_s: Floats, loads_s: Floats, usual_s: Floats) -> Floats:
        """For each model, the longest round that all but half of the misses it may have must wait."""
        often = np.minimum(filled.rate_rps, (1 / usual_s)[:, None])
        rarest = np.argsort(np.where(filled.there, often, inf), axis=1, kind="stable")
        alone = (_sum(batch_s) + _sum(loads_s))[:, None] <= self.gap_s[filled.model]
        misses = self.misses[filled.model]
        if not self.rules.prefetch:
            waits_s = _longest_waits(batch_s + loads_s, often, rarest, alone, misses)
        else:
            both = (_longest_waits(times, often, rarest, alone, misses) for times in (batch_s, loads_s))
            waits_s = np.maximum(*both)
        return waits_s / (1 - self.rules.headroom)


def _longest_waits(times_s: Floats, often: Floats, rarest: Ints, alone: NDArray[np.bool_], misses: Floats) -> Floats:
    """By row and model: the sum of `times_s`, without its own where it comes `alone`, and without what the rarest add
    as long as misses allow."""
    wait_s = _sum(times_s)[:, None] - np.where(alone, times_s, 0.0)
    left, open_ = misses.copy(), np.ones(misses.shape, dtype=bool)
    columns = np.arange(misses.shape[1])
    for j in rarest.T[:, :, None]:
        time_s, rate = np.take_along_axis(times_s, j, axis=1), np.take_along_axis(often, j, axis=1)
        cost = rate * time_s
        counts = open_ & ~(alone & (columns == j)) & (rate > 0)
        ends = counts & (cost > left)
        wait_s = np.where(ends, wait_s - left / np.where(rate > 0, rate, 1.0), wait_s)
        open_ &= ~ends
        goes = counts & open_
        left = np.where(goes, left - cost, left)
        wait_s = np.where(goes, wait_s - time_s, wait_s)
    return np.where(open_, np.maximum(wait_s, 0.0), wait_s)


def _column(values: Iterable[float], nothing: float = 0.0) -> Floats:
    """One value a model, and one for no model."""
    return np.array([*values, nothing], dtype=float)


def _workspaces(portion: Portion) -> Floats:
    return np.array([portion.sized.profile.workspace(size) for size in range(1, len(portion.latency_s) + 1)])


def _sum(cells: Floats) -> Floats:
    """Of each row, from the left: the last bit is that of a sum over a list."""
    total = cells[:, 0].copy()
    for column in cells.T[1:]:
        total += column
    return total
