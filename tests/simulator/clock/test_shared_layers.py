"""Shared layers in the simulator: held once, loaded once, evicted only where they must; GEMEL's smallest memory."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import worlds

from calibrate.layers.facts import facts
from simulator.clock.metrics import Summary, summarise
from simulator.clock.run import simulate
from simulator.rules.memory import Residency
from simulator.world.curves import LoadTime
from simulator.world.deployment import BatchingPolicy, Drop, Eviction, Service, SwapPolicy
from simulator.world.model import Layer
from simulator.world.sharing import Sharing, groups, merged_layers, turn_order
from simulator.world.workload import FixedRate, Stream, Workload

GB = 10**9
THREE = {
    "a": (Layer("ab", 4), Layer("ac", 2), Layer("a", 1)),
    "b": (Layer("ab", 4), Layer("bc", 3), Layer("b", 1)),
    "c": (Layer("ac", 2), Layer("bc", 3), Layer("c", 1)),
}
"""Each pair shares another layer: 7, 8 and 6 bytes alone, 12 together; a sum over pairs would say 21 - 9 or less."""


def missing_bytes(memory: Residency, model: str) -> int:
    return sum(layer.weight_bytes for layer in memory.missing(THREE[model]))


def test_residency_is_a_union() -> None:
    memory = Residency(limit_bytes=100, context_bytes=0)
    loaded = []
    for model, layers in THREE.items():
        loaded.append(missing_bytes(memory, model))
        memory.add(memory.missing(layers))
    assert loaded == [7, 4, 1]  # b lacks bc and b; c lacks only its own
    assert memory.weight_bytes == 12 == sum({x.key: x.weight_bytes for m in THREE.values() for x in m}.values())


def test_what_a_coming_model_shares_stays() -> None:
    memory = Residency(limit_bytes=9, context_bytes=0)
    memory.add(THREE["a"])  # 7 of 9
    keep = frozenset(layer.key for layer in THREE["b"])
    gone = memory.victims(missing_bytes(memory, "b"), 0, keep, list(memory.resident))
    assert gone == ["ac"]  # 4 more bytes need 2 freed; ab is b's too
    memory.evict(gone or [])
    memory.add(memory.missing(THREE["b"]))
    assert (memory.weight_bytes, sorted(memory.resident)) == (9, ["a", "ab", "b", "bc"])


def test_loads_on_the_gpu_are_what_is_missing() -> None:
    """One request each of a, b, c, with room for 9 of 12 GB: 7 are loaded, then 4 (2 go), then 3 (2 of them again)."""
    big = {m: tuple(Layer(x.key, x.weight_bytes * GB) for x in layers) for m, layers in THREE.items()}
    profiles = [worlds.profile(m, 1.0, layers=layers, workspace_bytes=0) for m, layers in big.items()]
    made = worlds.deployment(
        *(worlds.service(p) for p in profiles),
        memory_bytes=9 * GB,
        swap=SwapPolicy(eviction=Eviction.LRU, prefetch=False),
    )
    times = {"a": 0.0, "b": 10.0, "c": 20.0}
    demand = Workload(tuple(Stream(m, FixedRate(0.01, t)) for m, t in times.items()))
    result = simulate(made, demand, 30.0)
    assert [(load.model, load.size_bytes // GB) for load in result.loads] == [("a", 7), ("b", 4), ("c", 3)]
    assert list(result.memory["g0"].used_bytes // GB)[-1] == 7  # for c go a and ab, used longest ago: bc, b, ac, c
    assert result.memory["g0"].used_bytes.max() == 9 * GB


LAYERS = st.integers(1, 6)


@st.composite
def worlds_of_sharers(draw: st.DrawFn) -> tuple[dict[str, tuple[Layer, ...]], int]:
    """Three models, with a layer for some of the sets of models that may share one, and memory for the largest."""
    held: dict[str, list[Layer]] = {m: [Layer(m, draw(LAYERS) * 10**8)] for m in "abc"}
    for size in (2, 3):
        for sharers in combinations("abc", size):
            for copy in range(draw(st.integers(0, 2))):
                layer = Layer(f"{''.join(sharers)}{copy}", draw(LAYERS) * 10**8)
                for m in sharers:
                    held[m].append(layer)
    alone = max(sum(x.weight_bytes for x in layers) for layers in held.values())
    together = sum({x.key: x.weight_bytes for layers in held.values() for x in layers}.values())
    return {m: tuple(layers) for m, layers in held.items()}, draw(st.integers(alone, together + 10**8))


@settings(max_examples=60, deadline=None)
@given(worlds_of_sharers(), st.sampled_from(list(Eviction)), st.booleans())
def test_against_a_set_of_layers(
    world: tuple[dict[str, tuple[Layer, ...]], int], eviction: Eviction, prefetch: bool
) -> None:
    """An oracle that knows only sets: after each load, all of its model is there, and never more than fits."""
    held, room = world
    workspace = 10**7
    made = worlds.deployment(
        *(worlds.service(worlds.profile(m, 0.02, layers=x, workspace_bytes=workspace)) for m, x in held.items()),
        memory_bytes=room + workspace,
        swap=SwapPolicy(eviction=eviction, prefetch=prefetch),
    )
    demand = Workload(tuple(Stream(m, FixedRate(3.0 + i, 0.1 * i)) for i, m in enumerate(held)))
    result = simulate(made, demand, 5.0)
    sizes = {x.key: x.weight_bytes for layers in held.values() for x in layers}
    union_bytes = sum(sizes.values())
    used = result.memory["g0"].used_bytes
    assert used.max() <= room + workspace
    assert used.max() <= union_bytes + workspace
    subsets = {
        m: {sum(c) for n in range(len(x) + 1) for c in combinations([y.weight_bytes for y in x], n)}
        for m, x in held.items()
    }
    assert all(load.size_bytes in subsets[load.model] for load in result.loads)
    if union_bytes + workspace <= room + workspace:
        assert not result.loads
    assert all(requests.arrival_s.size for requests in result.requests.values())


def test_turns_bring_sharers_together() -> None:
    layers = {
        "a": (Layer("x", 5), Layer("a", 1)),
        "b": (Layer("y", 5), Layer("b", 1)),
        "c": (Layer("x", 5), Layer("c", 1)),
        "d": (Layer("y", 5), Layer("d", 1)),
    }
    assert turn_order(layers) == ["a", "c", "b", "d"]
    alone = {m: (Layer(m, 1),) for m in "abcd"}
    assert turn_order(alone) == list("abcd")


ZOO_MS = {"resnet50": (2.73, 4.05, 5.87), "resnet101": (5.51, 8.05, 11.83), "resnet152": (8.21, 11.66, 17.03)}
"""Run time of batches of 1, 2 and 4 on a V100 (Clockwork model zoo, OSDI'20)."""


def on_the_smallest_memory(fps: float, sharing: Sharing) -> Summary:
    """3,000 frames of each in 1.06 GB: 0.8 of the framework, weights as torchvision's, 0.01 GB for each image."""

    def service(name: str) -> Service:
        one, two, four = ZOO_MS[name]
        profile = worlds.profile(
            name,
            [one / 1e3, two / 1e3, (two + four) / 2e3, four / 1e3],
            layers=merged_layers(name, facts(name).weight_bytes, sharing),
            workspace_bytes=10**7,
            load=LoadTime(0.0, 12.28e9),
        )
        return worlds.service(profile, batch=BatchingPolicy(1, padded=True), slo_s=0.1, drop=Drop.NEWEST_AND_LATE)

    made = worlds.deployment(
        *map(service, ZOO_MS),
        memory_bytes=1_060_000_000,
        context_bytes=800_000_000,
        root_bytes_per_s=1e12,
        swap=SwapPolicy(eviction=Eviction.MRU),
    )
    demand = Workload(tuple(Stream(name, FixedRate(fps, 0.0)) for name in ZOO_MS))
    return summarise(simulate(made, demand, 3000 / fps))


RESNETS = groups({name: facts(name).layers for name in ZOO_MS})


def test_resnets_swapped_at_gemels_smallest_memory() -> None:
    seen = on_the_smallest_memory(30, ())
    assert [seen.models[m].processed_fraction for m in ZOO_MS] == pytest.approx([0.57] * 3, abs=0.02)
    assert seen.devices["g0"].load_share == pytest.approx(0.72, abs=0.02)


@pytest.mark.parametrize("fps", [30, 60])
def test_resnets_merged_at_gemels_smallest_memory(fps: float) -> None:
    seen = on_the_smallest_memory(fps, RESNETS)
    assert [seen.models[m].processed_fraction for m in ZOO_MS] == pytest.approx([1.0] * 3, abs=0.001)
    assert seen.devices["g0"].load_share < 0.001
