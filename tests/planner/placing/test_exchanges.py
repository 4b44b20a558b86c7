"""Exchanges between GPUs: machine code takes the same steps as the search on names."""

from dataclasses import replace
from random import Random

import pytest
from support.planning import T4, V100, model, offer, profile, question, scenario, shelf

from planner.placing.packing.contents import Change, Content, neighbours
from planner.placing.packing.exchanges import WORTH
from planner.placing.packing.fills import Fills
from planner.placing.packing.improving import Improving
from planner.placing.packing.starts import Starts
from planner.placing.sizing import Kind
from planner.replay.deploying import devices_of
from planner.search.question import Question
from simulator.clock.run import Compiled

QUESTIONS, STARTS = 60, 10
"""Random questions, and fleets to begin with of each."""


def asked(random: Random) -> Question:
    """Models that ask much and little, some of which do not fit the smaller GPU."""
    names = [f"m{i}" for i in range(random.randint(3, 6))]
    specs = [model(name, random.choice([0.05, 0.2, 1.0]), random.choice([0.9, 0.99])) for name in names]
    demand = {name: (random.choice([1, 10]), random.uniform(1, 30)) for name in names}
    made = scenario(specs, demand, headroom=random.choice([0.0, 0.2]))
    profiles = []
    for name in names:
        floor_s, slope_s = random.uniform(0.001, 0.03), random.uniform(0.0002, 0.005)
        weights = random.choice([50_000_000, 2_000_000_000, 6_000_000_000, 18_000_000_000])
        profiles += [
            profile(name, T4, floor_s, slope_s, weights),
            profile(name, V100, floor_s / 2, slope_s / 2, weights),
        ]
    return question(made, [offer(T4, 0.5), offer(V100, 0.8)], shelf(*profiles))


def start(q: Question, kind: Kind, random: Random) -> Content:
    """Some of the models that fit, in shares that may be too small to be cut."""
    fitting = [name for name in sorted(q.needs) if (name, kind) in q.sized and q.sized[name, kind].batches[0]]
    return tuple((name, random.choice([0.04, 0.15, 0.5, 1.0])) for name in fitting if random.random() < 0.5)


@pytest.mark.skipif(not Compiled.installed, reason="needs Numba")
def test_machine_code_takes_the_steps_that_names_take() -> None:
    random = Random(1)
    moved = 0
    for _ in range(QUESTIONS):
        q = asked(random)
        rules = replace(q.rules(random.random() < 0.5, {}), prefetch=random.random() < 0.5)
        devices = devices_of(q.offers, (random.randint(1, 3), random.randint(1, 3)))
        fills = Fills(list(q.needs), q.sized, rules)
        slots = [fills.slot(device) for device in devices]
        for _ in range(STARTS):
            contents = [start(q, device.kind, random) for device in devices]
            if not all(map(fills.is_in_numbers, slots, contents)):
                continue
            by_code, by_name = Improving(fills, seed=0), Improving(fills, seed=0)
            found, by_names = by_code.improved(slots, contents), list(contents)
            while by_name.step(devices, by_names):
                pass
            assert found == by_names
            assert by_name.looked_at == by_code.looked_at  # so that both have as many kicks
            moved += found != contents
    assert moved > 180  # else the starts were too good to tell


def test_the_best_exchange_is_the_best_of_all() -> None:
    """Those that are not scored to the end would have been no better."""
    random, worth_it = Random(3), 0
    for _ in range(QUESTIONS // 4):
        q = asked(random)
        fills = Fills(list(q.needs), q.sized, q.rules(random.random() < 0.5, {}))
        mine, slot = map(fills.slot, devices_of(q.offers, (1, 1)))
        for _ in range(STARTS):
            here, there = start(q, mine.kind, random), start(q, slot.kind, random)
            now, then = fills.score(here, mine), fills.score(there, slot)
            ways = list(neighbours(here, there))
            gains = [fills.score(left, mine) + fills.score(right, slot) - now - then for left, right in ways]
            least = min(gains, default=0.0)
            best = Change(least, *ways[gains.index(least)]) if least < -WORTH * now else None
            assert Improving(fills, seed=0).best_change(mine, here, slot, there) == best
            worth_it += best is not None
    assert worth_it > 30  # else nothing was left out


@pytest.mark.skipif(not Compiled.installed, reason="needs Numba")
def test_machine_code_lays_parts_where_names_lay_them() -> None:
    random = Random(2)
    for _ in range(QUESTIONS):
        q = asked(random)
        devices = devices_of(q.offers, (random.randint(1, 3), random.randint(1, 3)))
        fills = Fills(list(q.needs), q.sized, q.rules(random.random() < 0.5, {}))
        cells = [(m, kind) for (m, kind), sized in q.sized.items() if sized.batches[0]]
        parts = [(*random.choice(cells), random.choice([0.1, 0.5, 1.0])) for _ in range(12) if cells]
        slots = [fills.slot(device) for device in devices]
        if all(map(fills.is_in_numbers, slots, [()] * len(slots))):
            starts = Starts(fills, {})
            assert starts.laid_by_code(slots, parts) == starts.laid(slots, parts)
