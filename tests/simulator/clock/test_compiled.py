"""The machine code for GPUs that nobody disturbs against the loop in Python, which is the reference: equal to the last
bit, whether all models stay in memory or take turns, alone on a link or not, whole or cut into stages."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, count, repeat

import numpy as np
import pytest
import simpy
from support.random_worlds import in_stages, in_turns, on_links, over_hosts, world

from simulator.clock import run
from simulator.clock.drivers import Clocked
from simulator.clock.link import Link
from simulator.clock.records import SimulationResult
from simulator.clock.serving import ServingGpu
from simulator.rules.queues import Delays
from simulator.world.deployment import Deployment, Eviction
from simulator.world.workload import Workload, draw

pytest.importorskip("numba")

WORLDS = {
    world: range(1_000),
    in_turns: range(1_000),
    on_links: range(500),
    in_stages: [*range(40), 120, 144, 157, 174],
    over_hosts: range(20),
}
"""By kind. In the last four that are cut into stages, who is woken goes on before who would have been next."""
DURATION_S = 0.5
DELAYS, FACTORS = 8, 16
"""That are drawn at once: fewer than usual, so that they are used up again and again."""

Kind = Callable[[int], tuple[Deployment, Workload]]


def columns(result: SimulationResult) -> list[np.ndarray]:
    """What happened to each request and batch, and in memory."""
    requests = [[r.start_s, r.finish_s, r.outcome] for r in result.requests.values()]
    batches = [[b.start_s, b.finish_s, b.count, b.aborted] for b in result.batches]
    memory = [[used.at_s, used.used_bytes] for used in result.memory.values()]
    return [column for group in (*requests, *batches, *memory) for column in group]


def delays(deployment: Deployment, seed: int) -> dict[str, Delays] | None:
    """Of whoever serves, in every other world; of all GPUs by one generator."""
    if seed % 2:
        return None
    rng = np.random.default_rng(seed)

    def drawn() -> Iterator[float]:
        return chain.from_iterable(rng.exponential(0.002, DELAYS).tolist() for _ in repeat(None))

    return {device.id: Delays(drawn(), drawn()) for device in deployment.devices}


def clocked(seen: Counter[str], env: simpy.Environment, gpu: ServingGpu, link: Link) -> Clocked:
    """A GPU on SimPy's clock, which is counted by its rule of eviction."""
    seen[gpu.swap.eviction] += 1
    return Clocked(env, gpu, link)


@pytest.mark.parametrize("kind", WORLDS)
def test_all_that_happens_is_the_same(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    monkeypatch.setattr(run.Compiled, "worth_requests", 0)
    monkeypatch.setattr(run.TURNS, "worth", 0)
    monkeypatch.setattr("simulator.clock.compiled.DELAYS", DELAYS)
    for module in ("simulator.clock.compiled", "simulator.rules.noise"):
        monkeypatch.setattr(f"{module}.FACTORS", FACTORS)
    loading, on_clock = 0, Counter[str]()
    for seed in WORLDS[kind]:
        deployment, workload = kind(seed)
        arrivals, alone = draw(workload, DURATION_S, seed), kind in (world, in_turns)
        monkeypatch.setattr(run.Compiled, "installed", True)
        with monkeypatch.context() as patch:
            patch.setattr(run, "Clocked", partial(clocked, on_clock))
            ours = run.replicate(deployment, arrivals, DURATION_S, seed, delays(deployment, seed) if alone else None)
        monkeypatch.setattr(run.Compiled, "installed", False)
        reference = run.replicate(deployment, arrivals, DURATION_S, seed, delays(deployment, seed) if alone else None)
        assert (ours.loads, ours.stalls) == (reference.loads, reference.stalls), f"world {seed}"
        for column, expected in zip(columns(ours), columns(reference), strict=True):
            if column.tobytes() != expected.tobytes():  # which is seen ten times as soon as where
                np.testing.assert_array_equal(column, expected, err_msg=f"world {seed}")
        loading += bool(reference.loads)
    assert loading > len(WORLDS[kind]) / 2 or kind is world  # else taking turns was not seen
    assert set(on_clock) <= {Eviction.COST} or kind is over_hosts  # all others are machine code's


def test_it_is_fetched_once_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment, workload = world(1)
    served: list[object] = []
    monkeypatch.setattr(run.Compiled, "serve", lambda gpu, *_: served.append(gpu) or True)
    monkeypatch.setattr(run.Compiled, "installed", True)
    monkeypatch.setattr(run.Compiled, "seen_requests", 0)
    run.simulate(deployment, workload, DURATION_S, 1)
    assert not served
    monkeypatch.setattr(run.Compiled, "seen_requests", run.Compiled.worth_requests)
    run.simulate(deployment, workload, DURATION_S, 1)
    assert len(served) == len(deployment.devices)


@pytest.mark.parametrize("made", [False, True])
def test_code_for_turns_is_made_once_it_pays(monkeypatch: pytest.MonkeyPatch, made: bool) -> None:
    deployment, workload = next(in_turns(seed) for seed in range(100) if in_turns(seed)[0].swap.eviction == "lru")
    served: list[object] = []
    monkeypatch.setattr("simulator.clock.swapping.serve", lambda gpu, *_: served.append(gpu))
    monkeypatch.setattr("simulator.machine_code.is_kept", lambda *_, function: made)
    monkeypatch.setattr(run.TURNS, "was_seen", False)
    monkeypatch.setattr(run.Compiled, "installed", True)
    monkeypatch.setattr(run.Compiled, "seen_requests", run.Compiled.worth_requests)
    monkeypatch.setattr(run.TURNS, "done", 0)
    monkeypatch.setattr(run.TURNS, "earlier", 0)
    run.simulate(deployment, workload, DURATION_S, 1)
    assert bool(served) == made
    monkeypatch.setattr(run.TURNS, "earlier", run.TURNS.worth)
    run.simulate(deployment, workload, DURATION_S, 1)
    assert served


@pytest.mark.parametrize("kind", [in_turns, on_links])
def test_what_turns_take_python_is_counted(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """In microseconds; of a world by machine code none."""
    worlds = (kind(seed) for seed in range(100))
    deployment, workload = next(
        one for one in worlds if one[0].swap.eviction == "lru" and run.simulate(*one, 1.0).loads
    )
    monkeypatch.setattr(run, "thread_time", count(3.0, 0.25).__next__)
    monkeypatch.setattr(run.TURNS, "done", 7)
    for by_machine_code in (False, True):
        monkeypatch.setattr(run.Compiled, "installed", by_machine_code)
        monkeypatch.setattr(run.Compiled, "seen_requests", run.Compiled.worth_requests)
        monkeypatch.setattr(run.TURNS, "worth", 0)
        run.simulate(deployment, workload, DURATION_S, 1)
        assert run.TURNS.done == 250_007
