"""From a recorded sweep to a plan: it enters by the door that a real sweep uses, and the rest follows from it."""

import json
import re
import shutil
import sys
from dataclasses import replace
from statistics import fmean

import pytest
import yaml
from support import cuda
from support.paths import DATA

from calibrate.devices.device import FIRST_OPENING, find_device
from calibrate.devices.timer import StopRule
from calibrate.io.points import Point, PointOutcome, Status, What
from calibrate.library.lookup import find_kinds, find_profiles
from calibrate.sweep import assemble
from calibrate.sweep.journal import Header, read_journal
from calibrate.sweep.measure import measure
from calibrate.zoo.zoo import build
from planner import cli
from planner.catalog.catalog import load_catalog
from planner.catalog.knowledge import knowledge
from simulator.world.profile import Evidence

RECORDED = DATA / "lenet-cpu.jsonl"
"""LeNet on a CPU that others kept busy: `planner calibrate --device cpu`, 15 samples of each point kept."""
KIND = "cpu-intel-xeon-2.50ghz"
PROGRESS = re.compile(r"^\d+ s: .*\n", re.MULTILINE)
"""A line every ten seconds, on a machine that others keep busy."""
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
    assert (code, PROGRESS.sub("", err)) == (0, "")
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


def test_another_folder_is_no_hint_where_one_was_named(planner, here):
    shutil.copytree(here / "mine", here / "another")
    try:
        _, out, err = planner("profiles", "show", "lenet", "--profiles", "mine")
    finally:
        shutil.rmtree(here / "another")
    assert f"lenet on {KIND}" in out
    assert "Did you mean" not in out + err


@pytest.mark.parametrize("what", ["latency", "memory", "layers"])
def test_pictures(planner, here, what):
    code, out, _ = planner("profiles", "plot", "lenet", "--profiles", "mine", "--what", what, "-o", "out.png")
    assert code == 0
    assert out == f"Wrote out.png: {what} of lenet on {KIND} at fp32.\n"
    assert (here / "out.png").read_bytes().startswith(PNG)
    assert 5_000 < (here / "out.png").stat().st_size < 150_000


MIB = 1 << 20


def measured_on_a_gpu(place, **knobs):
    """LeNet on a GPU in imitation, in a folder for `--profiles`."""
    with pytest.MonkeyPatch.context() as patch, cuda.imitated(kernel_s=1e-5, **knobs):
        patch.setattr("calibrate.sweep.rates.ROW_S", 0.05)
        FIRST_OPENING.clear()
        device = find_device("cuda:0")
        device.open()
        built = build("lenet", place="cuda:0")
        points = [Point(what=what, model="lenet", batch=1) for what in (What.MEMORY, What.LATENCY)]
        rule = StopRule(seconds=0.02, at_least=3, at_most=4, warm_up_s=0.0)
        taken = [
            PointOutcome(point=point, status=Status.OK, **measure(built, device, point, rule)._asdict())
            for point in [*points, Point(what=What.LOAD, model="lenet")]
        ]
    provenance = {"gpu": "H100", "memory_bytes": 85_000_000_000, "date": "2026-11-25T00:00:00+00:00", "driver": "580"}
    assemble.write(taken, Header(provenance=provenance, seed=1), place)


@pytest.mark.parametrize(("context_mib", "memory", "fits"), [(300, "0.7 GB", True), (900, "1 GB", False)])
def test_a_plan_holds_the_memory_that_a_process_was_seen_to_hold(planner, here, context_mib, memory, fits):
    """What it holds after use decides, less or more than the 0.8 GB that are assumed of others."""
    measured_on_a_gpu(here / "gpu", context_bytes=context_mib * MIB, kernels_bytes=100 * MIB)
    box = {"name": "box", "gpu": "H100", "memory": memory, "price": "$1/h"}
    (here / "box.yaml").write_text(yaml.safe_dump(SCENARIO | {"buy": {"own": [box]}}), encoding="utf-8")
    code, out, _ = planner("plan", "box.yaml", "--profiles", "gpu")
    assert (code == 0) is fits, out
    code, out, _ = planner("plan", "box.yaml", "--profiles", "gpu", "--set", "context=0.8 GB")
    assert (code == 0) is not fits, out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("precision=fp16", f"{KIND} computes nothing in fp16"),
        ("runtime=tensorrt", f"tensorrt does not run on {KIND}"),
        ("runtime=torch-compile", "nobody published it in torch-compile on a processor"),
    ],
)
def test_a_measured_processor_is_planned_at_what_all_processors_are(planner, here, asked, said):
    code, out, _ = planner("plan", "digits.yaml", "--profiles", "mine", "--set", f"models[digits].{asked}")
    assert code == 3, out
    assert said in " ".join(out.split())


def test_no_runtime_of_gpus_is_proposed_for_a_measured_processor(planner, here):
    more = SCENARIO | {"streams": [{"model": "digits", "count": 3, "rate": "250 fps"}]}
    (here / "digits.yaml").write_text(yaml.safe_dump(more), encoding="utf-8")
    code, out, _ = planner("plan", "digits.yaml", "--profiles", "mine", "-o", "plan.json", "-v")
    assert code == 0, out
    found = json.loads((here / "plan.json").read_text(encoding="utf-8"))
    assert found["recommendation"]["gpu_count"] > 1
    assert "tensorrt" not in json.dumps(found)


def test_predict_answers_from_ones_own_profiles(planner, here):
    raw = json.loads((here / "mine" / KIND / "lenet.json").read_text(encoding="utf-8"))
    rows = "".join(f"{KIND},lenet,{batch}\n" for batch in (*raw["latency_s"], 100_000))
    (here / "asked.csv").write_text(f"gpu,model,batch\n{rows}", encoding="utf-8")
    code, out, _ = planner("predict", "asked.csv", "--profiles", "mine", "--format", "json")
    assert code == 0
    *measured, beyond = json.loads(out)
    _, library = knowledge((), here / "mine")
    known = library.get("lenet", KIND)
    expected_s = [known.latency(int(batch)) for batch in raw["latency_s"]]
    assert [row["latency_s"] for row in measured] == pytest.approx(expected_s)
    assert {(row["rule"], row["evidence"]) for row in measured} == {("profile", "measured")}
    assert "of which only batches that somebody timed are told" in beyond["reason"]
    code, out, _ = planner("predict", "asked.csv", "--format", "json")
    assert code == 2
    assert "name the folder with `--profiles DIR`" in json.loads(out)[0]["reason"]


def test_a_plan_of_inference_repeats_no_doubt_about_training(planner, here):
    header, outcomes = read_journal(RECORDED)
    steps = [o for o in outcomes if o.point.what is What.TRAINING]
    few = [replace(o, samples={name: [fmean(taken)] * 4 for name, taken in o.samples.items()}) for o in steps]
    assemble.write([*outcomes, *few], header, here / "doubted")
    assemble.write([o for o in outcomes if not o.point.optimizer], header, here / "alone")
    raw = json.loads((here / "doubted" / KIND / "lenet.json").read_text(encoding="utf-8"))
    assert all(raw["measured"]["training_doubts"].values()), "they are kept, elsewhere"
    said = []
    for folder in ("doubted", "alone"):
        code, _, err = planner("plan", "digits.yaml", "--profiles", folder, "-o", f"{folder}.json")
        assert code == 0, err
        said.append(json.loads((here / f"{folder}.json").read_text(encoding="utf-8"))["warnings"])
    assert said[0] == said[1]


def test_a_slower_host_takes_more_gpus_and_says_so(planner, here):
    """Batches that the host takes 20 ms to queue, kernels 5 ms: one GPU for 40 rps, and two at half its speed."""
    raw = json.loads((here / "mine" / KIND / "lenet.json").read_text(encoding="utf-8"))
    del raw["latency_fit"]
    raw |= {"latency_s": {"1": 0.020}, "host_s": {"1": 0.020}, "busy_s": {"1": 0.005}, "latency_evidence": "measured"}
    (here / "mine" / KIND / "lenet.json").write_text(json.dumps(raw), encoding="utf-8")
    own = SCENARIO["buy"]["own"][0]
    asked = SCENARIO | {"streams": [{"model": "digits", "count": 8, "rate": "5 fps"}], "buy": {"own": [own]}}
    (here / "host.yaml").write_text(yaml.safe_dump(asked), encoding="utf-8")
    found = {}
    for speed in ("1", "0.5", "2"):
        words = ("plan", "host.yaml", "--profiles", "mine", "--set", f"buy.host_speed={speed}", "-o", "plan.json")
        code, _, err = planner(*words)
        assert code == 0, err
        found[speed] = json.loads((here / "plan.json").read_text(encoding="utf-8"))
    assert [plan["recommendation"]["gpu_count"] for plan in found.values()] == [1, 2, 1]
    doubts = {speed: {one["what"]["text"] for one in plan["warnings"]} for speed, plan in found.items()}
    assert len(doubts["0.5"] - doubts["1"]) == 1
    code, _, err = planner("plan", "host.yaml", "--profiles", "mine", "--set", "buy.host_speed=0.5", "--strict")
    assert code == 5
    assert "transferred" in err
