"""The bare loop runs the batches that are simulated: so it is a yardstick for these."""

from shutil import which

import numpy as np
import pytest

from benchmarks import c_loop
from benchmarks.load import Load
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
