"""From a recorded sweep to a plan: it enters by the door that a real sweep uses, and the rest follows from it."""

import json
import sys

import pytest
import yaml
from support.paths import DATA

from calibrate.io.points import What
from calibrate.library.lookup import find_kinds, find_profiles
from calibrate.sweep import assemble
from calibrate.sweep.journal import read_journal
from planner import cli
from planner.catalog.knowledge import knowledge
from planner.catalog.offers import load_catalog
from simulator.world.profile import Evidence

RECORDED = DATA / "lenet-cpu.jsonl"
"""LeNet on a CPU that others kept busy: `planner calibrate --device cpu`, 15 samples of each point kept."""
KIND = "cpu-intel-xeon-2.50ghz"
PNG = b"\x89PNG\r\n\x1a\n"
SCENARIO = {
    "name": "Digits",
    "models": [{"name": "digits", "profile": "lenet", "slo": {"latency": "500 ms", "attainment": "90 %"}}],
    "streams": [{"model": "digits", "count": 3, "rate": "5 fps"}],
    "buy": {"own": [{"name": "desk", "gpu": KIND, "price": "$0.05/h", "count": 4}]},
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the recorded profiles in `mine`, and a scenario that plans with them."""
    header, outcomes = read_journal(RECORDED)
    assemble.write(outcomes, header, tmp_path / "mine")
    (tmp_path / "digits.yaml").write_text(yaml.safe_dump(SCENARIO), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.fixture
def planner(here, monkeypatch, capsys):
    """`planner(...)` in this process: exit code, standard output, standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["planner", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return run


def test_everything_measured_is_in_the_files(here):
    _, outcomes = read_journal(RECORDED)
    raw = json.loads((here / "mine" / KIND / "lenet.json").read_text(encoding="utf-8"))
    device = json.loads((here / "mine" / KIND / "device.json").read_text(encoding="utf-8"))
    points = sum(len(by_batch) for by_batch in raw["measured"]["points"].values()) + len(device["probes"])
    assert points == len(outcomes)
    taken = next(o for o in outcomes if o.point.what is What.LATENCY and o.point.batch == 4)
    kept = raw["measured"]["points"]["latency"]["4"]["samples"]["wall_s"]
    assert kept == pytest.approx(taken.samples["wall_s"], rel=1e-4)


def test_the_device_is_a_kind_that_holds_what_ran_on_it(here):
    kind = find_kinds([here / "mine"])[KIND]
    (found,) = find_profiles([here / "mine"], load_catalog().gpus | {KIND: kind}).for_model("lenet")
    assert found.latency_evidence.rank <= Evidence.FITTED.rank
    assert found.flops_per_sample
    assert all(found.flops_per_sample * n / found.latency(n) <= kind.fp32_flops for n in range(1, 17))
    assert found.load.bytes_per_s <= kind.pcie_bytes_per_s


def test_a_plan_on_ones_own_measured_device(planner, here):
    code, out, err = planner("plan", "digits.yaml", "--profiles", "mine", "-o", "plan.json")
    assert (code, err) == (0, "")
    assert out.startswith(f"1 x desk ({KIND}, own)")
    code, out, _ = planner("explain", "plan.json")
    assert code == 0
    assert "digits" in out


def test_a_measured_device_is_not_known_without_its_profiles(planner):
    code, _, err = planner("plan", "digits.yaml")
    assert code == 2
    assert f"buy.own[0].gpu: `{KIND}` is not in the catalog" in err


def test_a_kind_in_the_catalog_goes_before_a_measured_one(here, planner):
    known = """
source: the vendor
gpus:
  KIND: {memory_gb: 999, memory_bandwidth_gb_per_s: 9999, fp32_tflops: 99, tdp_w: 10, idle_w: 1, pcie_gb_per_s: 999}
"""
    (here / "known").mkdir()
    (here / "known" / "gpus.yaml").write_text(known.replace("KIND", KIND), encoding="utf-8")
    catalog, _ = knowledge([here / "known"], [here / "mine"])
    assert catalog.gpus[KIND].memory_bytes == 999e9
    assert knowledge(None, [here / "mine"])[0].gpus[KIND].memory_bytes < 999e9


def test_a_measured_profile_is_shown_with_its_doubts(planner):
    code, out, _ = planner("profiles", "show", "lenet", "--profiles", "mine")
    assert code == 0
    assert f"lenet on {KIND}, fp32" in out
    assert "Doubt:" in out


@pytest.mark.parametrize("what", ["latency", "memory", "layers"])
def test_pictures(planner, here, what):
    code, out, _ = planner("profiles", "plot", "lenet", "--profiles", "mine", "--what", what, "-o", "out.png")
    assert code == 0
    assert out == f"Wrote out.png: {what} of lenet on {KIND} at fp32.\n"
    assert (here / "out.png").read_bytes().startswith(PNG)
    assert 5_000 < (here / "out.png").stat().st_size < 150_000
