"""The sweep survives kill -9, Ctrl-C, crashes, hangs, the end of memory, models that cannot be measured. All real."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from support.forks import PLAIN, Forked, forking

from calibrate.cli import main, read
from calibrate.io.points import NO_WEIGHTS, Point, PointOutcome, Settings, Status, What
from calibrate.sweep.agenda import PointGroup, agenda, groups
from calibrate.sweep.journal import read_journal
from calibrate.sweep.request import Request
from calibrate.sweep.supervisor import StoppedError
from calibrate.sweep.sweep import COMPILING_S, Sweep, _say_next, _signals
from simulator.errors import InputError

MODELS = """
import os, sys, time
import torch
from torch import nn

def tiny():
    print("a factory that talks")
    return nn.Linear(8, 4)

class Risky(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1000, 8)

    def forward(self, x):
        if "torch._dynamo" in sys.modules:
            raise RuntimeError("torch's compiler was imported, which takes a second, and nothing is compiled")
        if len(x) == 2:
            print("goodbye", file=sys.stderr, flush=True)
            os.abort()
        if len(x) == 3:
            raise RuntimeError("three is\\ntoo many")
        return self.layer(x)

class Blind(nn.Module):
    def forward(self, x):
        return x / 0 * 0

risky, blind, weightless = Risky, Blind, torch.nn.Flatten

def broken():
    raise OSError("weights.pt is not there")

def hanging():
    time.sleep(3600)
"""
QUICK = ("--device", "cpu", "--mode", "inference", "--seconds", "0.02", "--input", "8")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "calibrate", *QUICK, *arguments]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def finished(*arguments: str, start: type[subprocess.Popen] = Forked) -> tuple[int, str]:
    """Exit code and standard error of the command in this process; its workers are processes, forked."""
    said = io.StringIO()
    with redirect_stderr(said), redirect_stdout(io.StringIO()), forking(start):
        code = main([*QUICK, *arguments])
    return code, said.getvalue()


def journal_of(place: Path) -> Path | None:
    return next(iter(place.glob("profiles/*/journal.jsonl")), None)


def lines_of(place: Path) -> int:
    path = journal_of(place)
    return path.read_bytes().count(b"\n") if path else 0


def kept(place: Path) -> list[str]:
    """Keys of the points on disk; the journal and every profile must be whole."""
    for profile in place.glob("profiles/*/*.json"):
        assert json.loads(profile.read_text())["schema"].startswith("planner.")
    path = journal_of(place)
    if path is None or b"\n" not in path.read_bytes():
        return []
    keys = [outcome.point.key for outcome in read_journal(path)[1]]
    assert len(keys) == len(set(keys))
    return keys


def wait_for_lines(place: Path, lines: int, process: subprocess.Popen[bytes]) -> None:
    while lines_of(place) < lines and process.poll() is None:
        time.sleep(0.01)


def test_killed_at_random_moments_it_ends_with_the_same_points(place: Path) -> None:
    """Kills while starting, while measuring, while writing; then the set of points is that of a run in peace.

    The same many times: `python -m benchmarks.kills`.
    """
    asked = ("--model", "mine:tiny", "--batches", ",".join(map(str, range(1, 13))))
    killed_at_random_moments(place, command(*asked, "--resume"), [0, 4])
    code, said = finished(*asked, "--resume")
    assert code == 0, said
    assert sorted(kept(place)) == points_of(*asked)
    assert len(list(place.glob("profiles/*/*.json"))) == 2


def killed_at_random_moments(place: Path, again: Sequence[str], points: Sequence[int]) -> None:
    """Kills the command once it has kept so many points more, or while it starts; no point may ever be lost."""
    moments = random.Random(5)
    before = kept(place)
    for more in points:
        process = subprocess.Popen(again, stderr=subprocess.DEVNULL)
        if more:
            wait_for_lines(place, lines_of(place) + more, process)
        time.sleep(moments.uniform(0, 0.1 if more else 5.0))
        process.kill()
        process.wait()
        after = kept(place)
        assert after[: len(before)] == before
        before = after


def points_of(*asked: str) -> list[str]:
    """Keys of the points that a run in peace would keep."""
    request = read([*QUICK, *asked])
    return sorted(point.key for point in agenda(request, groups(request)[0], {}, 0, ()))


def test_interrupted_it_writes_what_it_has_and_says_how_to_go_on(place: Path) -> None:
    asked = ("--model", "mine:tiny", "--batches", ",".join(map(str, range(1, 100))), "--seconds", "0.3")
    with forking():
        process = subprocess.Popen(command(*asked), stderr=subprocess.PIPE, text=True)
    wait_for_lines(place, 4, process)  # type: ignore[arg-type]
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 143, said
    assert said.splitlines()[-1].startswith("Interrupted: ")
    assert said.splitlines()[-1].endswith("left. The same command with --resume continues.")
    assert list(place.glob("profiles/*/device.json"))
    code, said = finished(*asked, "--resume", "--budget", "0.1", start=PLAIN)
    assert (code, said) == (2, "--budget: 0.1 s ended before anything was measured. Allow more.\n")
    code, said = finished(*asked)
    assert code == 2
    assert "Add to it with --resume, which measures what is missing, other models too" in said


def test_a_crash_an_exception_and_the_end_of_memory_cost_a_point_each(place: Path) -> None:
    asked = ("--model", "mine:risky", "--batches", "1,2,3,4,1000000", "--input", "1000", "--memory", "1GB")
    code, said = finished(*asked)
    assert code == 0, said
    path = journal_of(place)
    assert path
    ended = {o.point.key.removeprefix("mine:risky/").removesuffix("/fp32"): o for o in read_journal(path)[1]}
    assert {key: str(o.status) for key, o in ended.items()} == {
        "layers": "ok", "load": "ok", "memory/1": "ok", "memory/2": "crashed", "memory/3": "failed", "memory/4": "ok",
        "memory/1000000": "out-of-memory", "latency/1": "ok", "latency/4": "ok",
    }  # fmt: skip
    assert ended["memory/2"].message.startswith("its process ended with SIGABRT")
    assert ended["memory/3"].message == "RuntimeError: three is too many"
    assert said.splitlines()[-1] == "Next: planner profiles show mine.risky.1000 --profiles profiles"

    mended = (place / "mine.py").read_text().replace("len(x) == 3", "len(x) == 30")
    (place / "mine.py").write_text(mended)
    code, said = finished(*asked, "--resume")
    assert code == 0
    assert "; 7 are there from before. Each is kept in " in said  # of 9: two are measured anew
    again = {o.point.key.removeprefix("mine:risky/").removesuffix("/fp32"): o for o in read_journal(path)[1]}
    changed = {key: str(o.status) for key, o in again.items() if key not in ended or o.status is not ended[key].status}
    assert changed == {"memory/3": "ok", "latency/3": "ok"}


def test_models_that_cannot_be_measured_have_one_line_each(place: Path) -> None:
    models = ("--model", "mine:broken", "--model", "mine:blind", "--model", "mine:weightless")
    code, said = finished(*models, "--batches", "1")
    assert code == 2
    broken, blind, weightless = said.splitlines()[2:]
    assert broken.startswith(
        "mine:broken at fp32: not measured: mine:broken: the factory raised: OSError: weights.pt is not"
    )
    assert blind.startswith(
        "mine:blind at fp32: not measured: ValueError: mine:blind: its output is not a number (NaN)."
    )
    assert weightless == f"mine:weightless at fp32: not measured: mine:weightless: {NO_WEIGHTS}"
    code, said = finished("--model", "mine:hanging", "--timeout", "1")
    hanging = "mine:hanging at fp32: not measured: building the model took longer than 1 s. Allow more with --timeout."
    assert (code, said.splitlines()[2:]) == (2, [hanging])  # fmt: skip
    assert kept(place) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--models", "resnet5"], "--models: resnet5 is not known. Did you mean resnet50?"),
        (["--models", ""], "--models: nothing to measure."),
        (["--models", "lenet", "--batches", "0"], "--batches: 0 is not a whole number from 1 to 1000000."),
        (["--models", "lenet", "--batches", "1,,2"], "--batches: '1,,2' names nothing between two commas."),
        (["--models", "lenet", "--device", "gpu"], "--device: gpu is not a device. Write cpu or e.g. cuda:0."),
        (
            ["--models", "lenet", "--mode", "fast"],
            "--mode: fast is not known. Write some of inference,training,",
        ),
        (["--models", "lenet", "--precision", "int4"], "--precision: int4 is not known."),
        (["--models", "lenet", "--memory", "lots"], "--memory: lots is not an amount of memory. Write e.g. 8GB."),
        (["--models", "lenet", "--seconds", "0"], "--seconds: 0 is not a number of seconds above 0."),
        (["--model", "mine", "--input", "3x8x8"], "--model: mine does not name a factory."),
        (["--model", "my mod:small", "--input", "8"], "--model: my mod:small has spaces, as no name has."),
        (["--models", "lenet alexnet"], "--models: lenet alexnet is not known. A name has no spaces."),
        (["--model", "mine:tiny", "--input", "3*8"], "--input: 3*8 is not the shape of one sample."),
        (["--models", "lenet", "--out", "/proc/here"], "/proc/here: cannot be written ("),
    ],
)
def test_a_wrong_request_has_one_line_and_exit_code_2(
    arguments: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--device", "cpu", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(said)


def test_a_device_that_is_not_there(place: Path) -> None:
    code, said = finished("--models", "lenet", "--device", "cuda:7")
    assert code == 2
    assert len(said.splitlines()) == 1
    assert "--device: cuda:7 is not there" in said


def test_dry_run_counts_and_measures_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--models", "lenet", "--batches", "1,2", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("6 points, about ")
    assert not (place / "profiles").exists()


def test_a_dry_run_says_what_cannot_be_built(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def import_module(name: str) -> None:
        raise ImportError(f"no {name}")

    monkeypatch.setattr("calibrate.zoo.zoo.import_module", import_module)
    assert main([*QUICK, "--models", "lenet,alexnet", "--batches", "1,2", "--dry-run"]) == 2
    said = capsys.readouterr()
    assert "alexnet at fp32: cannot be measured: alexnet: torchvision cannot be imported: ImportError" in said.err
    assert said.out.startswith("6 points, about "), "those of LeNet"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_between_two_steps(number: signal.Signals) -> None:
    sweep, unseen = Sweep(request()), []
    before = signal.signal(number, lambda *_: unseen.append(number))
    try:
        with _signals(sweep):
            os.kill(os.getpid(), number)
            with pytest.raises(StoppedError):
                sweep.check()
        assert sweep.stop_signal == number
        os.kill(os.getpid(), number)
        assert unseen == [number], "afterwards they are whose they were"
    finally:
        signal.signal(number, before)


def test_after_probes_alone_no_profile_is_shown_next(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = Sweep(request())
    _say_next(sweep, [Path("bare/cpu-some/device.json")])
    assert capsys.readouterr().err == ""


def test_no_point_is_begun_that_the_budget_would_cut() -> None:
    sweep = Sweep(request(budget_s=60.0))
    sweep.check(needed_s=30.0)
    with pytest.raises(StoppedError):
        sweep.check(needed_s=90.0)
    assert sweep.out_of_time


# The agenda: pure


def request(**changes: object) -> Request:
    return Request(**{"models": ("m",), "batches": (1, 2, 4, 8), "modes": ("inference",), **changes})  # type: ignore[arg-type]


def done(*ended: tuple[Point, Status]) -> dict[str, PointOutcome]:
    return {point.key: PointOutcome(point=point, status=status) for point, status in ended}


def memory(batch: int, status: Status = Status.OK) -> tuple[Point, Status]:
    return Point(what=What.MEMORY, model="m", batch=batch), status


def keys(asked: Request, known: dict[str, PointOutcome], seed: int = 0) -> list[str]:
    return [point.key for point in agenda(asked, PointGroup("m", Settings()), known, seed, ())]


def test_layers_and_load_come_first_then_memory_upward_then_times_in_random_order() -> None:
    listed = keys(request(), {})
    assert listed[:6] == ["m/layers/fp32", "m/load/fp32", *(f"m/memory/{batch}/fp32" for batch in (1, 2, 4, 8))]
    assert sorted(listed[6:]) == [f"m/latency/{batch}/fp32" for batch in (1, 2, 4, 8)]
    orders = {tuple(keys(request(), {}, seed)[6:]) for seed in range(20)}
    assert len(orders) > 5
    assert keys(request(), {}, 4) == keys(request(), {}, 4)


@pytest.mark.parametrize("end", [Status.OUT_OF_MEMORY, Status.TIMED_OUT])
def test_nothing_larger_is_tried_where_memory_or_time_ended(end: Status) -> None:
    left = keys(request(), done(memory(1), memory(2), memory(4, end)))
    assert "m/memory/8/fp32" not in left
    assert sorted(key for key in left if "latency" in key) == ["m/latency/1/fp32", "m/latency/2/fp32"]


def test_a_crash_leaves_its_batch_out_and_goes_on() -> None:
    left = keys(request(), done(memory(1), memory(2, Status.CRASHED)))
    assert "m/memory/4/fp32" in left
    assert "m/latency/2/fp32" not in left


def test_doubling_goes_on_until_memory_ends() -> None:
    asked = request(until_memory_ends=True)
    known = done(*(memory(batch) for batch in (1, 2, 4, 8)))
    assert "m/memory/16/fp32" in keys(asked, known)
    assert "m/memory/32/fp32" not in keys(asked, known)
    known |= done(memory(16), memory(32, Status.OUT_OF_MEMORY))
    left = keys(asked, known)
    assert not [key for key in left if "memory" in key]
    assert "m/latency/16/fp32" in left
    assert "m/latency/32/fp32" not in left


def test_resuming_keeps_the_order_of_what_is_left() -> None:
    fitted = done(*(memory(batch) for batch in (1, 2, 4, 8)))
    whole = keys(request(), fitted)
    first = Point(what=What.LAYERS, model="m")
    assert keys(request(), fitted | done((first, Status.OK))) == whole[1:]


def test_each_optimizer_has_a_ladder_of_its_own() -> None:
    listed = keys(request(modes=("training",), batches=(1,)), {})
    assert listed[2:] == [
        "m/memory/sgd/1/fp32",
        "m/training/sgd/1/fp32",
        "m/memory/adam/1/fp32",
        "m/training/adam/1/fp32",
    ]


def test_settings_are_axes() -> None:
    asked = read(["--models", "lenet", "--precision", "bf16,fp32", "--resolution", "28,32", "--channels-last"])
    assert [(s.precision, s.resolution, s.channels_last) for s in asked.settings] == [
        ("fp32", 28, True), ("fp32", 32, True), ("bf16", 28, True), ("bf16", 32, True),
    ]  # fmt: skip
    assert os.fspath(asked.out) == "profiles"


def test_a_soak_comes_last_and_with_the_largest_batch_that_fits() -> None:
    request = read([*QUICK, "--models", "lenet", "--batches", "1,4,16", "--soak", "9"])
    group = groups(request)[0]
    assert agenda(request, group, {}, 0, ())[-1] == Point(what=What.SOAK, model="lenet", batch=16)
    full = Point(what=What.MEMORY, model="lenet", batch=16)
    done = {full.key: PointOutcome(point=full, status=Status.OUT_OF_MEMORY)}
    last = agenda(request, group, done, 0, ())[-1]
    assert (last.what, last.batch) == (What.SOAK, 4)
    assert Sweep(request).expected_s(last) >= 9


def test_a_dry_run_knows_what_compiling_takes() -> None:
    asked = [*QUICK, "--models", "lenet", "--batches", "1,4,16"]
    plain, compiled = (Sweep(read([*asked, *more])).left()[1] for more in ((), ("--compile",)))
    assert compiled - plain == pytest.approx(3 * COMPILING_S), "once for each batch size"


def test_a_graph_is_of_inference_on_a_gpu_alone() -> None:
    for asked in (["--device", "cpu"], ["--mode", "training"]):
        with pytest.raises(InputError, match=r"^--cuda-graph: captures"):
            read(["--models", "lenet", "--cuda-graph", *asked])
