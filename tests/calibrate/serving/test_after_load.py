"""What swapping costs: models take turns for real, and the profile that holds what came out is read again."""

import json
import sys
from pathlib import Path

import pytest
import torch
from support.paths import ROOT

from calibrate.cli import main
from calibrate.devices.device import find_device
from calibrate.io.points import Settings
from calibrate.library.lookup import find_kinds, find_profiles
from calibrate.serving.after_load import RESIDENT_RUNS, SwapTimes, file_name, swap_times
from planner.catalog.catalog import load_catalog
from simulator.world.profile import AfterLoad, WeightSource

pytestmark = pytest.mark.usefixtures("forked")
sys.path.append(str(Path(__file__).parent))  # its model is imported by name
OWN = "test_after_load:stack"


def stack():
    return torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_models_take_turns_and_every_action_is_timed():
    device = find_device("cpu")
    device.open()
    found = swap_times(["lenet", OWN], device, Settings(), (1, 2), input_shape=(8,), rounds=3)
    assert set(found) == {"lenet", OWN}
    for times in found.values():
        assert len(times.load_s) == 3 * 2
        assert len(times.usual_load_s) == 3 * RESIDENT_RUNS
        assert {batch: len(taken) for batch, taken in times.after_s.items()} == {1: 3, 2: 3}
        assert {len(taken) for taken in times.resident_s.values()} == {3 * RESIDENT_RUNS}
        assert min(*times.load_s, *times.usual_load_s, *times.after_s[1], *times.resident_s[1]) > 0
        assert times.load_ratio >= 1
        assert times.batch_ratio >= 1


def test_ratios_are_of_medians_and_never_below_one():
    times = SwapTimes(
        load_s=[0.003, 0.003, 0.1],
        usual_load_s=[0.002, 0.002, 0.002],
        after_s={1: [0.012], 4: [0.03]},
        resident_s={1: [0.01], 4: [0.04]},
    )
    assert times.load_ratio == pytest.approx(1.5)
    assert times.batch_ratio == 1.0, "the root of 1.2 x 0.75 is below 1"
    times.after_s[4] = [0.048]
    assert times.batch_ratio == pytest.approx(1.2)


def test_files_are_those_of_the_sweep():
    assert file_name("lenet", Settings(), (3, 8, 8)) == "lenet.json"
    assert file_name("lenet", Settings(precision="bf16"), None) == "lenet.bf16.json"
    assert file_name("mine:small", Settings(), (3, 8, 8)) == "mine.small.3x8x8.json"


def words(out: Path, mode: str) -> list[str]:
    return [
        "--device",
        "cpu",
        "--models",
        "lenet",
        "--batches",
        "1,2",
        "--seconds",
        "0.02",
        "--mode",
        mode,
        "--out",
        str(out),
    ]


def test_profiles_hold_what_swapping_costs_and_keep_it(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(words(tmp_path, "inference,swapping")) == 0
    (path,) = tmp_path.rglob("lenet.json")
    raw = json.loads(path.read_text())
    ratios = AfterLoad(**raw["after_load"])
    assert ratios.batch_ratio >= 1
    assert len(raw["measured"]["after_load"]["load_s"]) > 0
    found = find_profiles([tmp_path], load_catalog([]).gpus | find_kinds([tmp_path])).get("lenet", raw["gpu"])
    assert found is not None
    assert found.after_load == ratios
    alone, away = found.load_from(WeightSource.PINNED), found.swap_from(WeightSource.PINNED)
    assert away(10**6) == pytest.approx(ratios.load_ratio * alone(10**6))
    assert main([*words(tmp_path, "inference"), "--resume"]) == 0
    assert json.loads(path.read_text())["after_load"] == raw["after_load"], "later points do not drop it"


def test_a_model_without_a_profile_is_said_in_a_line(tmp_path, capfd):
    assert main(words(tmp_path, "swapping")) == 2
    said = capfd.readouterr().err
    assert "lenet: has no profile in" in said
    assert "Traceback" not in said
