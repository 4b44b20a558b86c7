"""The bare loop runs the batches that are simulated: so it is a yardstick for these."""

from shutil import which

import numpy as np
import pytest

from benchmarks import c_loop
from benchmarks.load import Load
from simulator.clock.metrics import summarise
from simulator.clock.run import simulate
from simulator.world.workload import draw


@pytest.mark.parametrize("load", [Load(1, 1, 8), Load(2, 5, 8), Load(2, 5, 1)])
@pytest.mark.parametrize("compiler", ["cc", None])
def test_it_runs_as_many_batches(monkeypatch: pytest.MonkeyPatch, load: Load, compiler: str | None) -> None:
    if compiler and not which(compiler):
        pytest.skip("no C compiler")
    loop = c_loop.bare_loop.__wrapped__()[1] if compiler else c_loop.by_numba
    monkeypatch.setattr(c_loop, "bare_loop", lambda: ("", loop))
    duration_s = 2_000 / load.rate_rps
    drawn = draw(load.workload(), duration_s, 1)
    queues = c_loop._queues(load, [one.arrival_s for one in drawn.values()])
    batches = [c_loop._served(begin, time_s, load, load.model_count, duration_s) for begin, time_s in queues]
    result = simulate(load.deployment(), load.workload(), duration_s, seed=1)
    names = [device.id for device in load.deployment().devices]
    simulated = [sum(len(b.count) for b in result.batches if b.device == name) for name in names]
    assert batches == simulated
    assert np.sum(simulated) > 100


def test_it_notes_what_an_answer_needs() -> None:
    if not which("cc"):
        pytest.skip("no C compiler")
    load = Load(1, 3, 8)
    duration_s = 3_000 / load.rate_rps
    times = [one.arrival_s for one in draw(load.workload(), duration_s, 1).values()]
    [(begin, time_s)] = c_loop._queues(load, times)
    notes = c_loop.Notes.of(begin, time_s)
    c_loop._served(begin, time_s, load, load.model_count, duration_s, notes)
    result = simulate(load.deployment(), load.workload(), duration_s, seed=1)
    seen = summarise(result, duration_s * c_loop.WARM_UP).models.values()
    for model, figures in zip(seen, notes.figures.tolist(), strict=True):
        in_time = round(model.goodput_rps * duration_s * (1 - c_loop.WARM_UP))
        assert [model.arrived, model.finished, in_time] == figures[:3]
        means = [model.mean_s, model.mean_queueing_s, model.backlog_growth]
        assert means == pytest.approx(figures[3:6], rel=1e-9)
        assert figures[6] <= model.p50_s <= figures[7] <= model.p90_s <= model.p95_s <= model.p99_s
        assert figures[9] <= model.p99_s
