"""Starts: ways to fill the GPUs of a fleet, from which exchanges of models begin."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from planner.placing.cutting import FleetGpu
from planner.placing.packing.contents import Content, Slot, added, without
from planner.placing.packing.fills import Fills
from planner.placing.rounds import HARD
from planner.placing.sizing import Kind
from simulator.world.sharing import turn_order

COLUMNS_MAX = 2000
"""Ways to fill one GPU up to which the assignment is also solved as an integer program."""
PROGRAM_MODELS_MAX = 62
"""Models up to which these are listed: of 63, alone and in pairs, there are 2,016 already."""
ROUNDING = 1e-9
"""Of the part of its time that a GPU is busy."""
SLIVER = 0.02
"""Share of a model on one kind of GPU that is given to its other kinds: too little to be worth a copy there."""


class Starts:
    """Ways to fill the GPUs of a fleet, each from nothing."""

    def __init__(self, fills: Fills, work: Mapping[tuple[str, Kind], float]) -> None:
        self.fills = fills
        self.work = work
        """GPUs that all requests of a model keep busy on each kind, where that is known; else the least."""

    def by_kinds(self, devices: Sequence[FleetGpu]) -> list[Content] | None:
        """Shares of kinds by linear program, then the largest part first, each onto the GPU it strains least."""
        shares = self._shares_of_kinds(devices, {cell: sized.design_work for cell, sized in self.fills.sized.items()})
        if shares is None:
            return None
        parts = [part for (model, kind), share in shares.items() for part in self._parts(model, kind, share)]
        largest_first = [part[1:] for part in sorted(parts, key=lambda p: (-p[0], p[1], p[3]))]
        slots = list(map(self.fills.slot, devices))
        lay = self.laid_by_code if self.fills.is_for_code(slots) else self.laid
        return lay(slots, largest_first)

    def laid(self, slots: Sequence[Slot], parts: Sequence[tuple[str, Kind, float]]) -> list[Content]:
        """Each part in turn on the GPU of its kind that it strains least."""
        contents: list[Content] = [()] * len(slots)
        for model, kind, share in parts:
            fuller = {j: added(contents[j], model, share) for j, slot in enumerate(slots) if slot.kind == kind}
            scores = self.fills.scores_of([(slots[j], content) for j, content in fuller.items()])
            at = min(zip(scores, fuller, strict=True))[1]
            contents[at] = fuller[at]
        return contents

    def laid_by_code(self, slots: Sequence[Slot], parts: Sequence[tuple[str, Kind, float]]) -> list[Content]:
        """The same by machine code."""
        numbers = self.fills.known.strains.numbers
        in_numbers = [(numbers[kind][model], share) for model, kind, share in parts]
        return self.fills.named(self.fills.exchanges(slots).laid(in_numbers))

    def _parts(self, model: str, kind: Kind, share: float) -> list[tuple[float, str, Kind, float]]:
        work = share * self.fills.sized[model, kind].design_work
        count = max(1, ceil(work / (1 - self.fills.rules.headroom) - 1e-9))
        return [(work / count, model, kind, share / count)] * count

    @cached_property
    def sharers(self) -> list[str]:
        """All models, those that share layers next to each other; empty where none do."""
        held = {m: s.profile.layers for (m, _), s in self.fills.sized.items() if m in self.fills.models}
        keys = Counter(key for layers in held.values() for key in {layer.key for layer in layers})
        return turn_order(held) if max(keys.values(), default=0) > 1 else []

    def wrapped(self, devices: Sequence[FleetGpu], together: Sequence[str] = ()) -> list[Content] | None:
        """GPUs of a kind equally busy: filled one after the other, a model cut where a GPU is full.

        McNaughton's rule (Management Science, 1959). Models come in the order of `together`, else those of like SLO
        next to each other.
        """
        work = {cell: self.work.get(cell, sized.least_work) for cell, sized in self.fills.sized.items()}
        shares = self._shares_of_kinds(devices, work)
        if shares is None:
            return None
        contents: list[Content] = [()] * len(devices)
        for kind, places in places_of(devices).items():
            order = self._wrapping_order([m for m, k in shares if k == kind], kind, together)
            works = [shares[m, kind] * work[m, kind] for m in order]
            for model, place, part in laid_end_to_end(works, len(places)):
                name = order[model]
                contents[places[place]] = added(contents[places[place]], name, part / work[name, kind])
        return contents

    def _wrapping_order(self, models: Sequence[str], kind: Kind, together: Sequence[str]) -> list[str]:
        if together:
            return sorted(models, key=together.index)
        return sorted(models, key=lambda m: (self.fills.sized[m, kind].need.slo.latency_s, m))

    def busy_at_least(self, devices: Sequence[FleetGpu]) -> float:
        """Part of its time that the busiest of these GPUs has such work at least; 0 where models must be cut."""
        solved = self._evenly_busy(devices, self.work)
        return solved[1] if solved else 0.0

    def _shares_of_kinds(
        self, devices: Sequence[FleetGpu], work: Mapping[tuple[str, Kind], float]
    ) -> dict[tuple[str, Kind], float] | None:
        """Share of each model on each kind so that the busiest kind is as little busy as can be."""
        solved = self._evenly_busy(devices, work)
        return solved and _without_slivers(solved[0])

    def _evenly_busy(
        self, devices: Sequence[FleetGpu], work: Mapping[tuple[str, Kind], float]
    ) -> tuple[dict[tuple[str, Kind], float], float] | None:
        """The same by linear program, and how busy that kind is; None where some model fits none."""
        counts = Counter(device.kind for device in devices)
        cells = [(m, k) for m in self.fills.models for k in counts if self.fills.fits(m, k)]
        if {m for m, _ in cells} != set(self.fills.models):
            return None
        works = np.array([work[cell] for cell in cells])
        if len(counts) == 1:
            return dict.fromkeys(cells, 1.0), float(works.sum()) / len(devices)
        *shares, busy = self._even_shares(cells, works, counts)
        return dict(zip(cells, shares, strict=True)), busy

    def _even_shares(
        self, cells: Sequence[tuple[str, Kind]], works: NDArray[np.float64], counts: Mapping[Kind, int]
    ) -> list[float]:
        """The program's solution. Its last column is the work of a GPU of the busiest kind."""
        kinds = {kind: row for row, kind in enumerate(counts)}
        models = {model: row for row, model in enumerate(self.fills.models)}
        columns = range(len(cells))
        on_kind = np.zeros((len(kinds), len(cells) + 1))
        on_kind[[kinds[kind] for _, kind in cells], columns] = works
        on_kind[:, -1] = [-count for count in counts.values()]
        of_model = np.zeros((len(models), len(cells) + 1))
        of_model[[models[model] for model, _ in cells], columns] = 1
        solution = linprog(
            [0.0] * len(cells) + [1.0],
            A_ub=on_kind,
            b_ub=[0.0] * len(kinds),
            A_eq=of_model,
            b_eq=[1.0] * len(models),
        )
        assert solution.x is not None  # always feasible: the work of the busiest kind has no limit here
        return [float(one) for one in solution.x]

    def by_program(self, devices: Sequence[FleetGpu]) -> list[Content] | None:
        """The least sum of scores over all ways to fill the GPUs, by integer program; None where there are too many.

        Columns are the sets of models a GPU may hold, so equal GPUs are interchangeable and the duty-cycle test is
        exact. A model that one GPU cannot carry comes in equal parts, no two on one GPU.
        """
        if len(self.fills.models) > PROGRAM_MODELS_MAX:
            return None
        counts = Counter(map(self.fills.slot, devices))
        parts = {m: self._parts_needed(m, counts) for m in self.fills.models}
        columns = [(slot, content) for slot in counts for content in self._contents(slot, parts)]
        times = self._times_used(columns, counts, parts) if columns else None
        return None if times is None else self._dealt(devices, zip(columns, times, strict=True))

    def cut_for_headroom(self, kinds: Collection[Kind]) -> list[str]:
        """Models that some GPU could carry whole, were no part of it kept free."""
        works = {(m, kind): one.design_work for (m, kind), one in self.fills.sized.items() if kind in kinds}
        return [model for (model, _), work in works.items() if 1 - self.fills.rules.headroom < work <= 1]

    def relieved(self, devices: Sequence[FleetGpu]) -> list[Content] | None:
        """By the program, as if no part of a GPU were kept free; then of what has most work on each GPU that is too
        busy as much as must go, to the GPU that it strains least. Of a model that nearly fits, so a small part is
        elsewhere, and not half of it. None where something can go nowhere."""
        full = Fills(self.fills.models, self.fills.sized, replace(self.fills.rules, headroom=0.0))
        contents = Starts(full, self.work).by_program(devices)
        if contents is None:
            return None
        for place, device in enumerate(devices):
            contents[place], gone = self._within_headroom(contents[place], device.kind)
            for model, share in gone:
                others = [j for j, other in enumerate(devices) if j != place and self.fills.fits(model, other.kind)]
                fuller = {j: added(contents[j], model, share) for j in others}
                at = min(fuller, key=lambda j: self.fills.score(fuller[j], self.fills.slot(devices[j])), default=None)
                if at is None:
                    return None
                contents[at] = fuller[at]
        return contents

    def _within_headroom(self, content: Content, kind: Kind) -> tuple[Content, list[tuple[str, float]]]:
        """What of a GPU's content leaves its headroom, and what must go."""
        work = {model: self.fills.sized[model, kind].least_work for model, _ in content}
        excess = sum(share * work[model] for model, share in content) - (1 - self.fills.rules.headroom)
        gone: list[tuple[str, float]] = []
        for model, share in sorted(content, key=lambda part: -part[1] * work[part[0]]):
            if excess <= ROUNDING:
                break
            gone.append((model, min(share, excess / work[model])))
            excess -= gone[-1][1] * work[model]
            content = without(content, model)
            if share > gone[-1][1]:
                content = added(content, model, share - gone[-1][1])
        return content, gone

    def _dealt(self, devices: Sequence[FleetGpu], columns: Iterable[tuple[tuple[Slot, Content], int]]) -> list[Content]:
        """What each GPU holds, where each content stands so often on GPUs of its slot."""
        filled: dict[Slot, list[Content]] = defaultdict(list)
        for (slot, content), n in columns:
            filled[slot] += [content] * n
        return [filled[slot].pop() if filled[slot] else () for slot in map(self.fills.slot, devices)]

    def _times_used(
        self, columns: Sequence[tuple[Slot, Content]], counts: Mapping[Slot, int], parts: Mapping[str, int]
    ) -> list[int] | None:
        """How often each column of the integer program is used; None where the solver found nothing."""
        served = np.array([[m in dict(content) for _, content in columns] for m in parts], dtype=float)
        used = np.array([[s == slot for s, _ in columns] for slot in counts], dtype=float)
        solution = milp(
            [self.fills.score(content, slot) for slot, content in columns],
            constraints=[
                LinearConstraint(served, list(parts.values()), list(parts.values())),
                LinearConstraint(used, 0, list(counts.values())),
            ],
            integrality=np.ones(len(columns), dtype=np.int8),
            bounds=Bounds(0, inf),
            options={"node_limit": 500, "mip_rel_gap": 0.01},
        )
        return None if solution.x is None else [round(n) for n in solution.x]

    def _parts_needed(self, model: str, counts: Mapping[Slot, int]) -> int:
        kinds = (slot.kind for slot in counts if self.fills.fits(model, slot.kind))
        work = min((self.fills.sized[model, kind].design_work for kind in kinds), default=0.0)
        return max(1, ceil(work / (1 - self.fills.rules.headroom) - 1e-9))

    def _contents(self, slot: Slot, parts: Mapping[str, int]) -> list[Content]:
        """All sets of models that one GPU can hold, none where there are too many.

        Any part of such a set can be held too, so sets are grown.
        """
        key = slot, tuple(parts.values())
        if key not in self.fills.known.contents:
            self.fills.known.contents[key] = self._grown(slot, parts)
        return self.fills.known.contents[key]

    def _grown(self, slot: Slot, parts: Mapping[str, int]) -> list[Content]:
        if self._holds_too_many(slot, parts):
            return []
        contents: list[Content] = []
        grown: list[Content] = [()]
        for model in sorted(self.fills.models):
            if 2 * len(contents) > COLUMNS_MAX:
                return []
            larger = [added(content, model, 1 / parts[model]) for content in grown]
            scores = self.fills.scores_of([(slot, content) for content in larger])
            larger = [content for content, score in zip(larger, scores, strict=True) if score < HARD]
            grown += larger
            contents += larger
        return contents

    def _holds_too_many(self, slot: Slot, parts: Mapping[str, int]) -> bool:
        """Whether one set of models is so large that its parts alone are too many: ten models have 1,023."""
        held: Content = ()
        for model in sorted(self.fills.models)[:-1]:
            larger = added(held, model, 1 / parts[model])
            if self.fills.score(larger, slot) < HARD:
                held = larger
            if 2 * (2 ** len(held) - 1) > COLUMNS_MAX:
                return True
        return False


def places_of(devices: Sequence[FleetGpu]) -> dict[Kind, list[int]]:
    """Which of the GPUs are of each kind."""
    places: dict[Kind, list[int]] = {}
    for place, device in enumerate(devices):
        places.setdefault(device.kind, []).append(place)
    return places


def laid_end_to_end(works: Sequence[float], count: int) -> Iterator[tuple[int, int, float]]:
    """Works laid end to end and cut into equal parts: which work, which part, how much of it.

    Works of 1 and 2 on two GPUs: (0, 0, 1.0), (1, 0, 0.5), (1, 1, 1.5).
    """
    level = sum(works) / count
    begun, first = 0.0, 0
    for number, work in enumerate(works):
        ended = begun + work
        for place in range(first, count):
            here = min(ended, (place + 1) * level) - max(begun, place * level)
            if here > 1e-9 * work:  # of its own, for there is work of next to nothing
                yield number, place, here
            if (place + 1) * level <= ended:
                first = place + 1
            else:
                break
        begun = ended


def _without_slivers(shares: Mapping[tuple[str, Kind], float]) -> dict[tuple[str, Kind], float]:
    """Shares of models on kinds, each model's to 1 again once those too small are left out."""
    large = {cell: share for cell, share in shares.items() if share > SLIVER}
    total: dict[str, float] = defaultdict(float)
    for (model, _), share in large.items():
        total[model] += share
    return {(model, kind): share / total[model] for (model, kind), share in large.items()}
