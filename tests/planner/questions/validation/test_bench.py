"""`planner validate` on the real processor: what is missing is measured, requests are served, the run is kept."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.forks import Forked, forking
from support.paths import ROOT
from support.worlds import profile

from calibrate.serving.served import batch_sizes, doublings, launches
from planner.catalog.catalog import load_catalog
from planner.cli import main
from planner.io.load import load_scenario
from planner.questions.validation import bench as validation_bench
from planner.questions.validation import takes
from planner.questions.validation.bench import Processor, ValidationBench, agreeing, load_error, run_error
from planner.questions.validation.fitting import Pace, offered_work
from planner.questions.validation.recording import read_recording
from planner.questions.validation.speed import speed_of
from simulator.clock.records import Outcome
from simulator.world.profile import FitQuality

SCENARIO = """
name: Two of LeNet
models:
  - {name: one, profile: lenet, slo: {latency: 1 s}}
  - {name: two, profile: lenet, slo: {latency: 1 s}}
streams:
  - {model: one, poisson: 20 rps}
  - {model: two, count: 2, rate: 5 fps}
drop: late
context: 0 B
validate: {load: 5 %, batch_size: 2, delay_scale: 2}
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scenario, one run of it kept, and the profiles that it measured."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "two.yaml").write_text(SCENARIO)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation_bench, "SECONDS_PER_POINT", 0.05)
        code, _, _ = planner(patch, "validate", folder / "two.yaml", "--record", folder / "run.json.gz", *on(folder, 2))
    assert code == 0
    return folder


def on(folder: Path, seconds: float = 1) -> list[str]:
    return ["--device", "cpu", "--profiles", str(folder / "profiles"), "--duration", f"{seconds}s", "--quiet"]


def planner(patch: pytest.MonkeyPatch, *words: object, err: io.StringIO | None = None) -> tuple[int, str, str]:
    """The command in this process: exit code, what it printed."""
    import contextlib

    import torch

    torch.set_num_threads(1)
    patch.setenv("OMP_NUM_THREADS", "1")
    patch.setattr(sys, "argv", ["planner", *map(str, words)])
    out, err = io.StringIO(), err or io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), forking(), pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


def test_every_request_is_accounted_for(bench: Path) -> None:
    found = read_recording(bench / "run.json.gz")
    assert found.stopped == ""
    assert found.machine["gpu"].startswith("cpu-")
    for requests in found.result.requests.values():
        assert len(requests.arrival_s) > 0  # how many follows from what this processor carries
        assert np.all(np.diff(requests.arrival_s) >= 0)
        done = requests.outcome == Outcome.FINISHED
        assert np.array_equal(done, np.isfinite(requests.finish_s))
        assert np.all(requests.finish_s[done] > requests.arrival_s[done])
    ran = sum(int(batches.count.sum()) for batches in found.result.batches)
    started = sum(np.count_nonzero(r.outcome % 3 == 0) for r in found.result.requests.values())
    assert ran == started


def test_the_memory_limit_holds_and_the_overhead_is_told(bench: Path) -> None:
    found = read_recording(bench / "run.json.gz")
    (device,) = found.result.deployment.devices
    assert found.result.memory[device.id].used_bytes.max() <= device.memory_bytes
    assert len(launches(found.actions, device.id)) == sum(len(batches.count) for batches in found.result.batches)
    assert found.held[device.id].weight_bytes["one"] > 100_000


def test_it_is_rehearsed_before_and_after(bench: Path) -> None:
    found = read_recording(bench / "run.json.gz")
    before, after = found.rehearsals
    for rehearsal in (before, after):
        ran = {(actions.kind, actions.model) for actions in rehearsal if actions.kind == "run"}
        assert ran == {("run", "one"), ("run", "two")}
        assert {1, 2} <= {int(size) for actions in rehearsal for size in actions.batch}
        assert all(np.all(actions.actual_s > 0) for actions in rehearsal if actions.kind == "run")
    assert speed_of(found.rehearsals).run.keys() == {"one", "two"}


def test_a_long_run_is_served_in_takes_with_a_rehearsal_between(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the profiles that were measured before."""
    (journal,) = (bench / "profiles").rglob("journal.jsonl")
    before = journal.read_bytes()
    monkeypatch.setattr(takes, "TAKE_S", 1.0)
    code, _, err = planner(monkeypatch, "validate", bench / "two.yaml", "--record", bench / "long.json", *on(bench, 2))
    assert code == 0, err
    assert journal.read_bytes() == before
    found = read_recording(bench / "long.json")
    assert found.takes_s == (1.0, 1.0)
    assert found.result.duration_s == 2
    assert len(found.rehearsals) == 3
    for requests in found.result.requests.values():
        assert np.all(np.diff(requests.arrival_s) >= 0)
        assert {0, 1} == set(takes.take_of(requests.arrival_s, found.takes_s).tolist())
    assert {one.kind for one in found.actions} == {"run", "wake", "follow"}
    assert len(launches(found.actions, "process-1")) == sum(len(batches.count) for batches in found.result.batches)


def test_what_is_missing_goes_beside_a_folder_of_other_settings(bench: Path) -> None:
    """As of a pipeline, which leaves a core to its frames: fewer threads than before."""
    folder, machine = bench / "profiles", read_recording(bench / "run.json.gz").machine
    now, lines = {**machine, "torch_threads": 2}, list[str]()
    device = ValidationBench(device="cpu", catalog=load_catalog(()), directories=(folder,))
    assert agreeing(load_scenario(bench / "two.yaml"), device, now, lines.append) == (folder,), "nothing is missing"
    larger = load_scenario(bench / "two.yaml", ["validate.batch_size=4"])
    assert agreeing(larger, device, machine, lines.append) == (folder,)
    assert lines == []
    assert agreeing(larger, device, now, lines.append) == (bench / "profiles-torch_threads-2",)
    (line,) = lines
    assert line.startswith(f"{folder}: was measured with torch_threads 1, here it is 2.")


def test_the_run_offers_the_load_that_was_asked_for(bench: Path) -> None:
    """Frames of two cameras come in turn, each at a steady pace, and requests at random twice as often: of these there
    may be any number. Within 1 %, for times are kept to a microsecond, and batches take some hundred of them."""
    found = read_recording(bench / "run.json.gz")
    frames_s = found.result.requests["two"].arrival_s
    rate_rps = 2 / np.median(frames_s[2:] - frames_s[:-2])
    pace = Pace(run=speed_of(found.rehearsals[:1]).run)
    offered = offered_work(found.result.deployment, {"one": 2 * rate_rps, "two": rate_rps}, pace)
    assert offered == pytest.approx(0.05, rel=0.01)


def test_a_kept_run_is_compared_without_torch(bench: Path) -> None:
    code = (
        "import sys; from planner.cli import main; sys.modules['torch'] = None\n"
        f"sys.argv = ['planner', 'validate', '--replay', {str(bench / 'run.json.gz')!r}, '--format', 'json']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=bench)
    assert done.returncode == 0, done.stderr
    raw = json.loads(done.stdout)
    assert raw["schema"] == "planner.validation/v2"
    assert [model["name"] for model in raw["models"]] == ["one", "two"]
    assert raw["overhead"]["batches"] > 0


def interrupted(folder: Path, after_s: float) -> tuple[int, bytes]:
    """`planner validate` with Ctrl-C so long after it said that it serves: exit code and output."""
    command = [sys.executable, "-m", "planner", "validate", "two.yaml", "--record", "cut.json"]
    command += ["--device", "cpu", "--profiles", "profiles", "--duration", "15s"]  # rehearsed for a fifth of it
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with Forked(command, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stderr
        while not (line := process.stderr.readline()).startswith(b"Serving"):
            assert line, "it ended before it served"
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
    return process.returncode, out


def test_a_run_that_is_interrupted_is_kept(bench: Path) -> None:
    # It is still making the models when it says that it serves, for as long as the machine takes.
    for after_s in (1, 3, 6, 12):
        code, out = interrupted(bench, after_s)
        if code not in (130, -signal.SIGINT):
            break
    assert code == 0
    assert b"Stopped early: interrupted" in out
    assert read_recording(bench / "cut.json").result.duration_s < 15


def test_a_run_is_compared_whatever_happens_after_it(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bench / "gone"
    folder.mkdir()

    class Person(io.StringIO):
        """Reads that it rehearses again, takes the recording's folder away, and presses Ctrl-C."""

        def write(self, text: str) -> int:
            if "Rehearsing again" in text:
                folder.rmdir()
                signal.raise_signal(signal.SIGINT)
            return super().write(text)

    words = [word for word in on(bench, 2) if word != "--quiet"]
    code, out, err = planner(
        monkeypatch, "validate", bench / "two.yaml", "--record", folder / "cut.json", *words, err=Person()
    )
    assert code == 2
    assert "Stopped early: rehearsal after it: interrupted" in out
    assert "Likely cause:" in out
    assert "cut.json: cannot be written: folder" in err


def test_each_precision_of_a_model_is_measured(bench: Path) -> None:
    (bench / "both.yaml").write_text(SCENARIO.replace("{name: one,", "{name: one, precision: bf16,"))
    kind = read_recording(bench / "run.json.gz").machine["gpu"]
    given = validation_bench.ValidationBench(device="cpu", catalog=load_catalog([]), directories=(bench / "profiles",))
    assert validation_bench.missing(load_scenario(bench / "two.yaml"), given, kind) == []
    assert validation_bench.missing(load_scenario(bench / "both.yaml"), given, kind) == ["lenet"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--replay", "a", "b.yaml"], "either a scenario or --replay"),
        ([], "either a scenario or --replay"),
        (["--replay", "a", "--seed", "1"], "leave out --record, --duration, --seed and --set"),
        (["b.yaml", "--format", "csv"], "table, json or md"),
        (["two.yaml", "--record", "two.yaml"], "is the scenario itself"),
        (["two.yaml", "--record", "nowhere/run.json"], "folder nowhere is not there"),
        (["two.yaml", "--record", "folder.json"], "folder.json: cannot be written: it is a folder"),
        (["two.yaml", "--record", "run.txt"], "run.txt: a recording is named .json or .json.gz"),
        (["two.yaml", "--duration", "soon"], "--duration must be a duration"),
        (["--replay", "two.yaml"], "is not JSON"),
        (["--replay", "missing.json"], "no such file"),
        (["two.yaml", "--device", "tpu"], "tpu"),
    ],
)
def test_bad_usage_is_said_in_a_line(words: list[str], said: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.yaml").write_text(SCENARIO)
    (tmp_path / "folder.json").mkdir()
    code, out, err = planner(monkeypatch, "validate", *words)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert "Traceback" not in err


def test_a_model_that_cannot_be_run_is_named(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(SCENARIO.replace("lenet", "lanet"))
    loaded = load_scenario(path)
    with pytest.raises(
        validation_bench.DeploymentError,
        match=r"models\[one\]\.profile: `lanet` is no model that can be run\. Name what is to be run as its `model`",
    ):
        validation_bench.record(loaded, None, 1.0, "", print)  # type: ignore[arg-type]


def test_the_profile_of_a_package_s_model_says_what_is_run(tmp_path: Path) -> None:
    path = tmp_path / "named.yaml"
    path.write_text(SCENARIO.replace("profile: lenet", "profile: timm.resnet18"))
    loaded = load_scenario(path)
    validation_bench.check_runnable(loaded)
    assert [validation_bench.runs_as(spec) for spec in loaded.scenario.models] == ["timm:resnet18", "timm:resnet18"]


def test_what_other_programs_do_is_seen() -> None:
    before = Processor(0.0, 100.0, 10.0)
    assert Processor(10.0, 118.0, 13.0).others_cores(before) == 1.5
    assert Processor(10.0, None, 13.0).others_cores(before) is None
    assert Processor.now().own_s > 0


def test_batches_up_to_the_largest() -> None:
    assert batch_sizes(1) == doublings(1) == (1,)
    assert batch_sizes(6) == (1, 2, 3, 4, 5, 6)
    assert batch_sizes(40) == (*range(1, 17), 32, 40)
    assert doublings(6) == (1, 2, 4, 6)
    assert doublings(8) == (1, 2, 4, 8)


def test_errors_that_profiles_state() -> None:
    from dataclasses import replace

    made = profile("a")
    assert run_error(made) == validation_bench.UNKNOWN_ERROR
    assert run_error(replace(made, latency_fit=FitQuality(form="joined", band=0.07))) == pytest.approx(0.0411, abs=1e-4)
    assert load_error({}) == validation_bench.UNKNOWN_ERROR
    assert load_error({"fits": {"load.pageable": {"error_mean": 0.04}}}) == pytest.approx(0.0501, abs=1e-4)
