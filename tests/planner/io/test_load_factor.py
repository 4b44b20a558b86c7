"""Load times a factor: what the simulator is asked grows by it, whatever kind of stream asks."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.io.demand import with_load
from planner.io.load import Loaded, load_text, workload

TEXT = """
models:
  - {name: fixed, profile: resnet50, slo: {latency: 100 ms}}
  - {name: random, profile: resnet50, slo: {latency: 100 ms}}
  - {name: bursts, profile: resnet50, slo: {latency: 100 ms}}
  - {name: seen, profile: resnet50, slo: {latency: 100 ms}}
  - {name: known, profile: resnet50, slo: {latency: 100 ms}}
streams:
  - {model: fixed, count: 3, rate: 15 fps}
  - {model: random, count: 2, poisson: 7 rps}
  - {model: bursts, gamma: {rate: 5 rps, cv: 3}}
  - {model: seen, trace: {file: seen.csv}}
  - {model: known, trace: {file: seen.csv, rate: 30 rps}}
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder: Path = tmp_path_factory.mktemp("load")
    times = "".join(f"{time_s:.3f}\n" for time_s in np.linspace(0, 59, 240))
    (folder / "seen.csv").write_text(f"# from 0 s, lasts 60 s\narrival_s\n{times}", encoding="utf-8")
    return load_text(TEXT, folder / "scenario.yaml", ())


@given(factor=st.floats(0.01, 100))
def test_every_rate_grows_by_the_factor(loaded: Loaded, factor: float) -> None:
    before, after = workload(loaded).rates_rps(), workload(with_load(loaded, factor)).rates_rps()
    assert before["seen"] == pytest.approx(4.0)
    assert after == pytest.approx({model: factor * rate_rps for model, rate_rps in before.items()})


@given(one=st.floats(0.1, 10), two=st.floats(0.1, 10))
def test_factors_multiply(loaded: Loaded, one: float, two: float) -> None:
    after = workload(with_load(with_load(loaded, one), two)).rates_rps()
    assert after == pytest.approx(workload(with_load(loaded, one * two)).rates_rps())


def test_once_the_load_is_the_scenario_itself(loaded: Loaded) -> None:
    assert with_load(loaded, 1) is loaded
    assert with_load(loaded, 2).scenario.models == loaded.scenario.models
