"""Pipelines by machine code against SimPy's clock, which is the reference: equal to the last bit."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat

import numpy as np
import pytest
from support import pipelines, worlds
from support.random_worlds import piped

from simulator.clock import run
from simulator.clock.records import SimulationResult
from simulator.flow.compiled import laying, replaying
from simulator.flow.compiled.columns import Columns
from simulator.rules.queues import DELAYS, Delays
from simulator.world.deployment import Deployment, Failures, Routing, Scheduling
from simulator.world.workload import FixedRate, Poisson, Stream, Workload

WORLDS = 300
DURATION_S = 1.5
WORLD_S = 0.5
"""Of a random world."""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What machine code replayed, which is used from the first item on."""
    found: list[object] = []
    serve = replaying.serve

    def note(flow: object, *rest: object) -> None:
        found.append(flow)
        serve(flow, *rest)  # type: ignore[arg-type]

    pytest.importorskip("numba")
    monkeypatch.setattr(replaying, "serve", note)
    monkeypatch.setattr(run.Compiled, "worth_requests", -1)
    monkeypatch.setattr(run.ITEMS, "worth", -1)
    return found


def columns(result: SimulationResult) -> list[np.ndarray]:
    """All that happened: of each frame, item, batch and station, and in memory."""
    asked = [[r.arrival_s, r.source, r.start_s, r.finish_s, r.outcome] for r in result.requests.values()]
    batches = [[b.start_s, b.finish_s, b.count, b.aborted] for b in result.batches]
    stations = [[use.start_s, use.finish_s] for use in result.stations.values()]
    memory = [[used.at_s, used.used_bytes] for used in result.memory.values()]
    frames = list(result.frames.values())
    return [column for group in (*asked, *batches, *stations, *memory, frames) for column in group]


def delays(deployment: Deployment, seed: int) -> dict[str, Delays] | None:
    """Of whoever serves, in every other world: of devices and some stages, all by one generator."""
    if seed % 2:
        return None
    rng = np.random.default_rng(seed)

    def drawn() -> Iterator[float]:
        return chain.from_iterable(rng.exponential(0.002, DELAYS).tolist() for _ in repeat(None))

    stages = [one.name_of(stage) for one in deployment.pipelines for stage in one.stages]
    names = [*(device.id for device in deployment.devices), *stages]
    return {name: Delays(drawn(), drawn(), *rng.uniform(0.5, 2.0, 2)) for name in names if rng.random() < 0.7}


def compare(
    monkeypatch: pytest.MonkeyPatch, world: tuple[Deployment, Workload], seed: int, duration_s: float = WORLD_S
) -> None:
    """A replay with machine code installed, and one without."""
    deployment, _ = world
    monkeypatch.setattr(run.Compiled, "installed", True)
    ours = columns(run.simulate(*world, duration_s, seed, delays(deployment, seed)))
    monkeypatch.setattr(run.Compiled, "installed", False)
    reference = columns(run.simulate(*world, duration_s, seed, delays(deployment, seed)))
    assert len(ours) == len(reference)
    for column, expected in zip(ours, reference, strict=True):
        if column.tobytes() != expected.tobytes():  # which is seen ten times as soon as where
            np.testing.assert_array_equal(column, expected, err_msg=f"world {seed}")


def test_all_that_happens_is_the_same(monkeypatch: pytest.MonkeyPatch, served: list[object]) -> None:
    for seed in range(WORLDS):
        compare(monkeypatch, piped(seed), seed)
    assert len(served) == WORLDS


def test_what_runs_short_is_supplied(monkeypatch: pytest.MonkeyPatch, served: list[object]) -> None:
    """More batches than factors and delays are drawn at once; and room for nothing but what must be."""
    monkeypatch.setattr(laying, "AGENDA_ROOM", 2)
    monkeypatch.setattr(laying, "EVENTS_ROOM", 1)
    supplied: set[str] = set()
    supply = replaying.supplied

    def note(laid: laying.Laid, columns: Columns) -> Columns:
        clock = columns.clock[0]
        short = {"factors": clock["empty"] >= 0, "agenda": clock["is_full"], "events": clock["events"] > clock["room"]}
        supplied.update(name for name, is_short in short.items() if is_short)
        return supply(laid, columns)

    monkeypatch.setattr(replaying, "supplied", note)
    quick = pipelines.deployment(
        pipelines.pipeline(pipelines.work("look", 0.0001), pipelines.model("answer", "look")),
        worlds.service(worlds.profile("p.answer", 0.001, cv=0.5)),
    )
    for seed in (1, 2):  # without delays, and with them
        compare(monkeypatch, (quick, Workload((Stream("p", Poisson(800.0)),))), seed, DURATION_S)
    for seed in range(WORLDS // 10):
        compare(monkeypatch, piped(seed), seed, DURATION_S)
    assert supplied == {"factors", "agenda", "events"}


def test_what_is_raised_while_delays_are_drawn_ends_the_replay(served: list[object]) -> None:
    """Ctrl-C is most often noticed there, for machine code notices nothing."""

    def interrupted() -> Iterator[float]:
        yield from repeat(0.001, 2 * DELAYS)
        raise KeyboardInterrupt

    quick = pipelines.deployment(
        pipelines.pipeline(pipelines.model("answer")), worlds.service(worlds.profile("p.answer", 0.0001))
    )
    slow = {quick.devices[0].id: Delays(interrupted(), repeat(0.0))}
    with pytest.raises(KeyboardInterrupt):
        run.simulate(quick, Workload((Stream("p", FixedRate(400.0)),)), 10.0, 1, slow)
    assert served


def changed(**changes: object) -> tuple[Deployment, Workload]:
    """A world with a model of two replicas, and what else is to be so in it, of all services or of the deployment."""
    for seed in range(WORLDS):
        deployment, workload = piped(seed)
        if any(len(one.replicas) > 1 for one in deployment.services):
            break
    of_services = {name: value for name, value in changes.items() if name in ("routing",)}
    services = tuple(replace(one, **of_services) for one in deployment.services)
    of_all = {name: value for name, value in changes.items() if name not in of_services}
    return replace(deployment, services=services, **of_all), workload


@pytest.mark.parametrize(
    "changes",
    [
        {"failures": Failures(mean_time_between_s=2.0, recovery_s=1.0)},
        {"scheduling": Scheduling.SWAP_AWARE},
        {"routing": Routing.SHARED},
        {"routing": Routing.LEAST_OUTSTANDING},
    ],
)
def test_the_clock_replays_what_is_not_compiled(
    monkeypatch: pytest.MonkeyPatch, served: list[object], changes: dict[str, object]
) -> None:
    compare(monkeypatch, changed(), 1)
    assert len(served) == 1
    compare(monkeypatch, changed(**changes), 1)
    assert len(served) == 1


@pytest.mark.parametrize("made", [False, True])
def test_it_is_made_once_it_pays(monkeypatch: pytest.MonkeyPatch, served: list[object], made: bool) -> None:
    monkeypatch.setattr(run.Compiled, "installed", True)
    monkeypatch.setattr("simulator.machine_code.is_kept", lambda *_, function: made)
    monkeypatch.setattr(run.ITEMS, "was_seen", False)
    monkeypatch.setattr(run.ITEMS, "earlier", 0)
    monkeypatch.setattr(run.ITEMS, "done", 0)
    monkeypatch.setattr(run.ITEMS, "worth", 10**6)
    result = run.simulate(*piped(1), DURATION_S, 1)
    assert len(served) == made
    assert run.ITEMS.done >= sum(len(frames) for frames in result.frames.values())
    monkeypatch.setattr(run.ITEMS, "earlier", 10**6)
    run.simulate(*piped(1), DURATION_S, 1)
    assert len(served) == made + 1
