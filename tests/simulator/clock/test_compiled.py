"""The machine code for plain GPUs against the loop in Python, which is the reference: equal to the last bit."""

import numpy as np
import pytest
from support.random_worlds import world

from simulator.clock import run
from simulator.clock.records import SimulationResult

pytest.importorskip("numba")

WORLDS = 1_000
DURATION_S = 5.0


def replayed(monkeypatch: pytest.MonkeyPatch, seed: int, *, compiled: bool) -> SimulationResult:
    """One replay of a world, by machine code or not."""
    monkeypatch.setattr(run.Compiled, "installed", compiled)
    monkeypatch.setattr(run.Compiled, "worth_requests", 0)
    return run.simulate(*world(seed), DURATION_S, seed)


def columns(result: SimulationResult) -> list[np.ndarray]:
    """All that happened: of each request, and of each batch."""
    requests = [[r.start_s, r.finish_s, r.outcome] for r in result.requests.values()]
    batches = [[b.start_s, b.finish_s, b.count, b.aborted] for b in result.batches]
    return [column for group in (*requests, *batches) for column in group]


def test_every_request_and_batch_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(WORLDS):
        ours = columns(replayed(monkeypatch, seed, compiled=True))
        reference = columns(replayed(monkeypatch, seed, compiled=False))
        assert len(ours) == len(reference)
        for column, expected in zip(ours, reference, strict=True):
            np.testing.assert_array_equal(column, expected, err_msg=f"world {seed}")


def test_it_is_fetched_once_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment, workload = world(1)
    served: list[object] = []
    monkeypatch.setattr(run.Compiled, "serve", served.append)
    monkeypatch.setattr(run.Compiled, "installed", True)
    monkeypatch.setattr(run.Compiled, "seen_requests", 0)
    run.simulate(deployment, workload, DURATION_S, 1)
    assert not served
    monkeypatch.setattr(run.Compiled, "seen_requests", run.Compiled.worth_requests)
    run.simulate(deployment, workload, DURATION_S, 1)
    assert len(served) == len(deployment.devices)
