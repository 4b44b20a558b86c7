"""Studies: points are never lost nor worked out twice, results are the same bytes however they came about, thresholds
are found, and what is written wrong is named with its place."""

import csv
import fcntl
import json
import math
import os
import pickle
import random
import re
import shutil
import signal
import threading
import time
import warnings
from collections import deque
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import ROOT
from typer.testing import CliRunner

from planner.catalog.knowledge import knowledge
from planner.cli import app
from planner.io.load import ScenarioError, load_scenario, schema
from planner.io.overrides import read_override
from planner.io.store import StoreError, plain, read_json
from planner.questions.studies import figures, reading, results
from planner.questions.studies.base import ChangedValue, key_of
from planner.questions.studies.engine import (
    DAY,
    Ask,
    Context,
    Inputs,
    Lost,
    Outcome,
    carried,
    failed,
    fingerprint,
    run_point,
)
from planner.questions.studies.engines import EngineName, opened
from planner.questions.studies.journal import FILE, StudyJournal
from planner.questions.studies.local_engine import LocalEngine
from planner.questions.studies.reading import load_study
from planner.questions.studies.results import PointAnswer, StudyAnswer, write
from planner.questions.studies.run import Ran, run_study
from planner.questions.studies.scenario import Condition, Find, Search, Study, StudySpec
from planner.questions.studies.threshold import bracket, next_values, one_holds
from planner.questions.training.plan import train
from planner.questions.training.reading import load_training
from planner.questions.training.scenario import byte_rate
from planner.replay.run import PLANNING
from planner.search.plan import plan
from planner.show.kept import document_of, render
from planner.show.page.render import page
from planner.show.text.explained import study as explained
from planner.show.text.studies import feasible_by, findings, not_measured
from planner.units.reading import ratio_of
from planner.units.writing import Format, Screen
from simulator.errors import InputError

pytestmark = pytest.mark.usefixtures("forked")

SHIPPED = sorted((ROOT / "scenarios" / "studies").glob("*.yaml"))
CONTEXT = Context(*knowledge(None, None))

BASE = """
models:
  - {name: watch, profile: resnet50_v2, slo: {latency: 100 ms, attainment: 95 %}}
  - {name: look, profile: resnet18_v2, slo: {latency: 100 ms, attainment: 95 %}}
streams:
  - {model: watch, count: 2, rate: 10 fps}
  - {model: look, count: 2, poisson: 10 rps}
buy: {own: [{name: box, gpu: V100, price: $1/h, count: 4}]}
predict: never
horizon: 3 s
replications: 2
confidence: 50 %
"""
STUDY = """
base: base.yaml
axes:
  load: [1, 4, 40]
  buy.max_gpus: [1, 4]
"""
POINTS = 6
SIMULATED = """
base: base.yaml
on: {gpu: V100, count: 1}
axes: {load: [1, 200]}
"""


class Here:
    """An engine in this process."""

    window = 2

    def __init__(self, context: Context = CONTEXT) -> None:
        self.context = context
        self.jobs: deque[tuple[str, Inputs]] = deque()
        self.asked: list[str] = []

    def submit(self, key: str, inputs: Inputs) -> None:
        self.asked.append(key)
        self.jobs.append((key, inputs))

    def take(self) -> tuple[str, Outcome | Lost]:
        key, inputs = self.jobs.pop()  # the last first: the order must not matter
        return key, run_point(self.context, inputs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.jobs.clear()


def written(folder: Path, study: str = STUDY, base: str = BASE) -> Path:
    """A study's file, and its base."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "base.yaml").write_text(base, encoding="utf-8")
    path = folder / "study.yaml"
    path.write_text(study, encoding="utf-8")
    return path


def drive(path: Path, out: Path) -> None:
    """A run that a test may kill."""
    keep(run_study(load_study(path), CONTEXT, Here(), out, resume=True), out)


def forked(path: Path, out: Path) -> int:
    """A process that drives the study; its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads, which numpy has
        process = os.fork()
    if process == 0:
        try:
            drive(path, out)
        finally:
            os._exit(0)
    return process


def keep(ran: Ran, out: Path) -> None:
    """Write all results."""
    assert write(ran.answer, out) == ["study.json", "results.csv", "results.parquet"]


def content(out: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def lines(out: Path) -> int:
    """Points that a study has kept."""
    return (out / FILE).read_bytes().count(b"\n") if (out / FILE).exists() else 0


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("small"), STUDY)


@pytest.fixture(scope="module")
def whole(small: Path) -> dict[str, bytes]:
    """What an uninterrupted run leaves."""
    out = small.parent / "whole"
    drive(small, out)
    return content(out)


@pytest.fixture(scope="module")
def answer(small: Path, whole: dict[str, bytes]) -> StudyAnswer:
    """The same as an answer, of the points that were kept."""
    return run_study(load_study(small), CONTEXT, Here(), small.parent / "whole", resume=True).answer


# Nothing is lost


def test_a_study_killed_at_any_moment_loses_nothing(small: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    moments = random.Random(8)
    for i in range(3):
        out, wanted = tmp_path / str(i), moments.randrange(POINTS)
        driver = forked(small, out)
        while lines(out) < wanted:
            ended = os.waitid(os.P_PID, driver, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            assert ended is None or lines(out) >= wanted
            time.sleep(0.002)
        os.kill(driver, signal.SIGKILL)
        assert os.waitpid(driver, 0)[0] == driver
        before = lines(out)
        assert before >= wanted
        engine = Here()
        keep(run_study(load_study(small), CONTEXT, engine, out, resume=True), out)
        assert len(engine.asked) == POINTS - before
        assert content(out) == whole


def test_a_killed_worker_loses_no_point(small: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    engine = LocalEngine(CONTEXT, 1)
    killed = []

    def kill(_done: int, _of: int, points: int) -> None:
        if points == 2 and not killed:
            killed.extend([worker.kill() for worker in engine.workers])

    keep(run_study(load_study(small), CONTEXT, engine, tmp_path, tell=kill), tmp_path)
    assert killed
    assert content(tmp_path) == whole


def test_a_point_whose_workers_die_is_given_up_and_not_kept(
    small: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    """Every worker is killed as soon as it is there, until the first point is given up."""
    engine, given_up = LocalEngine(CONTEXT, 1), threading.Event()

    def kill() -> None:
        while not given_up.is_set():
            with engine.lock:
                for worker in engine.workers:
                    worker.kill()
            time.sleep(0.001)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        ran = run_study(load_study(small), CONTEXT, engine, tmp_path, tell=lambda *_: given_up.set())
    finally:
        given_up.set()
        killer.join()
    (reason,) = ran.lost
    assert reason == "its process died 3 times, the last time with SIGKILL"
    failures = [point.reason for point in ran.answer.points if point.failed]
    assert failures == [reason] * (POINTS - ran.computed) != []
    assert lines(tmp_path) == ran.computed
    again = Here()
    keep(run_study(load_study(small), CONTEXT, again, tmp_path, resume=True), tmp_path)
    assert len(again.asked) == len(failures)
    assert content(tmp_path) == whole


def test_a_point_without_a_worker_is_lost_and_not_waited_for(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "absent"))
    ran = run_study(load_study(small), CONTEXT, LocalEngine(CONTEXT, 1), tmp_path)
    assert ran.lost == ("no process could be started for it (No such file or directory)",)
    assert ran.computed == 0


def test_a_torn_last_line_is_cut_off_and_points_are_not_overwritten(
    small: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    lines = whole[FILE].splitlines(keepends=True)
    (tmp_path / FILE).write_bytes(b"".join(lines[:3]) + lines[3][:40])
    with pytest.raises(StoreError, match=r"holds 3 points already\. Resume it"):
        StudyJournal(tmp_path, resume=False)
    engine = Here()
    keep(run_study(load_study(small), CONTEXT, engine, tmp_path, resume=True), tmp_path)
    assert len(engine.asked) == POINTS - 3
    assert content(tmp_path) == whole


def test_only_one_study_writes_a_journal(tmp_path: Path) -> None:
    with StudyJournal(tmp_path, resume=True), pytest.raises(StoreError, match="another study is writing it"):
        StudyJournal(tmp_path, resume=True)
    (tmp_path / FILE).write_text('{"key": 1}\n')
    with pytest.raises(StoreError, match=r"points\.jsonl:1: is no point of a study"):
        StudyJournal(tmp_path, resume=True)


def test_a_journal_that_was_replaced_before_its_lock_was_had_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B opens the file, A sorts, which replaces it, and ends, B has the lock: of what is no journal any more."""
    first, lock, order = StudyJournal(tmp_path, resume=True), fcntl.flock, []
    first.keep("a", failed("of the first"))

    def locked(file: int, how: int) -> None:
        if not order:
            order.append("the first ends")
            first.sort(["a"])
            first.close()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", locked)
    with StudyJournal(tmp_path, resume=True) as second:
        assert second.outcomes.keys() == {"a"}
        second.keep("b", failed("of the second"))
    assert order
    with StudyJournal(tmp_path, resume=True) as third:
        assert third.outcomes.keys() == {"a", "b"}


def test_a_sorted_journal_is_still_locked_and_goes_on(tmp_path: Path) -> None:
    with StudyJournal(tmp_path, resume=True) as journal:
        journal.sort([])
        with pytest.raises(StoreError, match="another study is writing it"):
            StudyJournal(tmp_path, resume=True)
        journal.keep("a", failed("after the sort"))
    with StudyJournal(tmp_path, resume=True) as again:
        assert again.outcomes.keys() == {"a"}


# Points


def test_a_point_is_what_the_command_says(small: Path, whole: dict[str, bytes]) -> None:
    changes = ["streams[0].rate=40", "streams[1].poisson=40", "buy.max_gpus=1"]
    loaded = load_scenario(small.parent / "base.yaml", changes)
    best = plan(loaded, CONTEXT.catalog, CONTEXT.library, created_at=DAY.isoformat()).recommendation
    answer = json.loads(whole["study.json"])
    (point,) = [p for p in answer["points"] if p["axes"] == {"load": 4, "buy.max_gpus": 1}]
    worst = min((m.slo_attainment for m in best.models), key=lambda a: a.mean)
    assert point["values"]["cost_usd_per_hour"] == best.cost_usd_per_hour
    assert point["values"]["gpu_count"] == best.gpu_count
    assert point["values"]["attainment"] == plain({"low": worst.low, "mid": worst.mean, "high": worst.high})
    assert point["values"]["p99_s"]["mid"] == plain(max(m.p99_s for m in best.models))


def test_keys_tell_what_matters_apart_and_nothing_else(small: Path, tmp_path: Path) -> None:
    known = fingerprint(CONTEXT)
    base = load_study(small).base
    elsewhere = load_study(written(tmp_path, STUDY, "# a comment\n" + BASE)).base

    def key(*changes: str) -> str:
        made = [ChangedValue(*read_override(change)) for change in changes]
        return key_of(elsewhere.resolve(made, None), known)

    assert key() == key_of(base.resolve((), None), known)
    assert key() == key("load=1") == key("streams[*].count=2") == key("streams[0].rate=600 /min")
    others = {key(), key("load=2"), key("seed=2"), key("streams[0].rate=11"), key_of(base.resolve((), None), "newer")}
    assert len(others) == 5


MERGED = """
models:
  - {name: watch, profile: resnet50_v2, layers: resnet50, slo: {latency: 100 ms, attainment: 95 %}}
  - {name: look, profile: resnet50_v2, layers: resnet50, slo: {latency: 100 ms, attainment: 95 %}}
streams:
  - {model: watch, count: 2, trace: {file: seen.csv}}
  - {model: look, count: 2, poisson: 10 rps}
buy: {own: [{name: box, gpu: V100, memory: 1.05 GB, price: $1/h, count: 3}]}
merging: layers
sharing: {table: costs.csv}
horizon: 3 s
replications: 2
"""


def files(folder: Path, kept: float) -> None:
    """What `MERGED` names: a recording, and how much accuracy merged models keep."""
    arrivals = "".join(f"{i / 10}\n" for i in range(100))
    (folder / "seen.csv").write_text(f"time\n{arrivals}", encoding="utf-8")
    rows = f"*,0,1\n*,1,{kept}\n"
    (folder / "costs.csv").write_text(f"model,shared_fraction,accuracy\n{rows}", encoding="utf-8")


def test_a_point_needs_no_file_where_it_is_worked_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolved here, by relative paths; worked out in another folder, when the files are gone."""
    outcomes = []
    for kept in (1.0, 0.5):
        folder = tmp_path / str(kept)
        path = written(folder, "base: base.yaml\naxes: {load: [1]}\n", MERGED)
        files(folder, kept)
        monkeypatch.chdir(folder)
        study = load_study(Path(path.name))
        sent = pickle.dumps(study.base.resolve(study.changes_at((0,)), None))
        for file in folder.iterdir():
            file.unlink()
        monkeypatch.chdir(tmp_path)
        outcomes.append(run_point(CONTEXT, pickle.loads(sent)))
    assert not any(outcome["failed"] for outcome in outcomes), outcomes
    assert [outcome["values"]["accuracy"] == 1 for outcome in outcomes] == [True, False], outcomes


def test_profiles_are_carried_with_their_samples(tmp_path: Path) -> None:
    shipped = next(path for path in CONTEXT.library.paths.values() if path.stem.startswith("resnet50_v2"))
    raw = json.loads(shipped.read_text(encoding="utf-8")) | {"measured": {"layers": [], "seen": 1}}
    (tmp_path / "mine.json").write_text(json.dumps(raw), encoding="utf-8")
    mine = Context(*knowledge(None, [tmp_path]))
    sent = pickle.dumps(carried(mine))
    (tmp_path / "mine.json").unlink()
    library = pickle.loads(sent).library
    profile = library.get(raw["model"], raw["gpu"], raw["precision"])
    assert library.measured(profile)["seen"] == 1
    with pytest.raises(InputError):
        mine.library.measured(profile)


def test_a_file_that_cannot_be_read_is_named_before_anything_is_worked_out(tmp_path: Path) -> None:
    path = written(tmp_path, "base: base.yaml\naxes: {load: [1]}\n", MERGED)
    files(tmp_path, 1.0)
    (tmp_path / "costs.csv").unlink()
    with pytest.raises(ScenarioError, match=r"base\.yaml:10:\d+: sharing\.table: .*costs\.csv: no such file"):
        load_study(path)


def test_a_file_may_have_another_name_but_nothing_else_in_it(tmp_path: Path) -> None:
    files(tmp_path, 1.0)
    path = written(tmp_path, "base: base.yaml\naxes: {load: [1]}\n", MERGED)

    def key() -> str:
        return key_of(load_study(path).base.resolve((), None), "known")

    before = key()
    for name in ("seen.csv", "costs.csv"):
        (tmp_path / name).rename(tmp_path / f"other-{name}")
        base = (tmp_path / "base.yaml").read_text(encoding="utf-8").replace(name, f"other-{name}")
        (tmp_path / "base.yaml").write_text(base, encoding="utf-8")
    assert key() == before
    for name in ("other-seen.csv", "other-costs.csv"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("1.0\n", "0.95\n"), encoding="utf-8")
        assert key() != before
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert key() == before
    seen = (tmp_path / "other-seen.csv").read_text(encoding="utf-8")
    (tmp_path / "other-seen.csv").write_text(f"# from 0 s, lasts 20 s\n{seen}", encoding="utf-8")
    assert key() != before  # the same times, in a recording that is twice as long


def test_the_worst_of_several_models_is_unknown_where_one_answers_nothing() -> None:
    assert figures.overall("p99_s", [0.02, 0.05]) == 0.05
    assert figures.overall("attainment", [0.9, 0.5]) == 0.5
    assert figures.overall("p99_s", [math.nan, 0.05]) is None
    assert figures.overall("p99_s", [{"low": None, "mid": math.nan, "high": None}, 0.05]) is None
    assert figures.overall("p99_s", []) is None


def test_a_model_that_nobody_asks_is_no_part_of_the_worst(small: Path) -> None:
    found = plan(
        load_scenario(small.parent / "base.yaml"), CONTEXT.catalog, CONTEXT.library, created_at=DAY.isoformat()
    )
    best = found.recommendation
    watch, look = best.models
    for offered_rps, wanted in ((0.0, look.mean_s), (1.0, None)):
        silent = replace(watch, mean_s=math.nan, offered_rps=offered_rps)
        assert figures.served([silent, look], best.gpus, found.policies)["mean_s"] == wanted


def test_a_point_that_is_no_scenario_fails_alone(tmp_path: Path) -> None:
    axes = "axes:\n  models[watch].slo.latency: [100 ms, 700 ms]\n  horizon: [1.2 s, 5 s]\n"
    study = load_study(written(tmp_path, f"base: base.yaml\n{axes}"))
    points = run_study(study, CONTEXT, Here(), tmp_path / "out").answer.points
    assert [point.failed for point in points] == [False, False, True, False]
    assert points[2].reason.startswith("horizon: must be longer than a warm-up of 0.7 s")
    assert points[2].values == dict.fromkeys(output.name for output in study.outputs)


def test_an_internal_error_is_a_reason() -> None:
    outcome = run_point(CONTEXT, Inputs(Ask.PLAN, None))  # type: ignore[arg-type]
    assert outcome["failed"]
    assert outcome["reason"].startswith("internal error: ")


def test_simulations_of_named_machines(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, SIMULATED + "outputs: [attainment, 'goodput_rps[look]']\n"))
    answer = run_study(study, CONTEXT, Here(), tmp_path / "out").answer
    assert [point.feasible for point in answer.points] == [True, False]
    assert answer.points[0].values["goodput_rps[look]"] == pytest.approx(20, rel=0.5)
    assert answer.points[1].reason


def test_one_at_a_time_leaves_corners_out(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, STUDY + "design: one-at-a-time\n"))
    assert study.reference == (0, 1)  # load 1 is the base; of the numbers of GPUs none is
    assert study.combinations() == [(0, 0), (0, 1), (1, 1), (2, 1)]


def test_one_at_a_time_is_as_long_as_it_is_and_no_longer(tmp_path: Path) -> None:
    paths = ("load", "headroom", "horizon", "warmup", "seed", *(f"streams[{i}].count" for i in (0, 1)))
    paths += tuple(f"models[{i}].slo.latency" for i in (0, 1))
    values = {"headroom": "[1 %, 2 %, 3 %, 4 %]", "horizon": "[3 s, 4 s, 5 s, 6 s]", "warmup": "[0, 1 s, 2 s, 2.5 s]"}
    axes = "".join(
        f"  {at}: {values.get(at, '[100 ms, 200 ms, 300 ms, 400 ms]' if 'slo' in at else '[1, 2, 3, 4]')}\n"
        for at in paths
    )
    text = f"base: base.yaml\naxes:\n{axes}"
    with pytest.raises(ScenarioError, match="make 262,144 points, more than 100,000"):
        load_study(written(tmp_path, text))
    study = load_study(written(tmp_path, text + "design: one-at-a-time\n"))
    found = study.combinations()
    assert len(found) == len(set(found)) == 28
    assert study.reference in found
    assert all(sum(i != j for i, j in zip(at, study.reference, strict=True)) <= 1 for at in found)


# Sensitivity


def point(axes: dict[str, object], cost: float | None, feasible: bool = True) -> PointAnswer:
    values = {"cost": cost}
    about = {
        "threshold": None,
        "evidence": None,
        "predicted": False,
        "speed_evidence": None,
        "uncertain": False,
        "failed": False,
        "reason": "",
        "tried": 1,
        "key": "",
    }
    return PointAnswer(axes=axes, values=values, feasible=feasible, **about)  # type: ignore[arg-type]


def test_points_whose_speeds_the_user_did_not_measure_are_named() -> None:
    measured, drawn = point({"a": 1}, 1.0), replace(point({"a": 2}, 2.0), speed_evidence="published", uncertain=True)
    taken = replace(drawn, uncertain=False)
    assert [*not_measured([measured, drawn, drawn])] == [
        "Speeds of points 2-3 are published, not measured; each replication draws its own."
    ]
    assert [*not_measured([taken])] == ["Speeds of all points are published, not measured."]
    assert [*not_measured([measured])] == []


def test_a_study_that_was_kept_before_points_said_where_speeds_come_from_goes_on(tmp_path: Path) -> None:
    outcome = failed("no GPU left")
    path = tmp_path / "points.jsonl"
    since = ("speed_evidence", "uncertain")
    said = {name: one for name, one in outcome.items() if name not in since}
    path.write_text(json.dumps({"key": "a", **said}) + "\n", encoding="utf-8")
    with StudyJournal(tmp_path, resume=True) as journal:
        assert journal.outcomes == {"a": outcome}
    answer = {name: one for name, one in asdict(point({"a": 1}, 1.0)).items() if name not in since}
    assert PointAnswer(**answer) == point({"a": 1}, 1.0)


def test_what_matters_most_comes_first_and_the_rest_stays_at_the_base() -> None:
    def axis(name: str) -> results.AxisAnswer:
        return results.AxisAnswer(name=name, values=(1, 2, 3), numbers=None, unit="", log=False, reference=1)

    grid = [point({"a": a, "b": b}, a + 10 * b, feasible=b < 3) for a in (1, 2, 3) for b in (1, 2, 3)]
    first, second = results.sensitivity([axis("a"), axis("b")], ["cost"], grid, Ask.PLAN)
    assert (first.axis, first.low_figure, first.high_figure, first.left_out) == ("b", 12, 22, (3,))
    assert (second.axis, second.low, second.high, second.reference_figure) == ("a", 1, 3, 22)


# Thresholds


@settings(max_examples=60)
@given(
    low=st.floats(1e-3, 10), ratio=st.floats(1.1, 1e4), share=st.floats(-0.1, 1.1), tolerance=st.floats(0.001, 0.5),
    find=st.sampled_from(Find), whole=st.booleans(),
)  # fmt: skip
def test_halving_finds_a_known_threshold(
    low: float, ratio: float, share: float, tolerance: float, find: Find, whole: bool
) -> None:
    low = float(max(1, round(low))) if whole else low
    high = low * ratio if not whole else low + max(1, round(low * ratio))
    truth = low * (high / low) ** share
    search = Search("load", low, high, "", find, (), tolerance, whole)
    held: dict[float, bool] = {}
    while values := next_values(search, held):
        held |= {value: (value <= truth) == (find is Find.LARGEST) for value in values}
        assert len(held) < 40
    found = bracket(search, held)
    ends = [end for end in (found.good, found.bad) if end is not None]
    if find is Find.LARGEST:
        assert (found.good is None) == (truth < low)
        assert (found.bad is None) == (truth >= high)
    if len(ends) == 2:
        assert min(ends) <= truth <= max(ends)
        assert max(ends) <= min(ends) * (1 + tolerance) or (whole and max(ends) - min(ends) <= 1)
    if whole:
        assert all(value.is_integer() for value in held)


@pytest.mark.parametrize("unit", ["", "ms"])
def test_a_search_runs_the_value_that_it_reports(unit: str) -> None:
    """As a point does: numbers are written with their unit and read back."""

    def run(number: float) -> float:
        seen = reading.measured(search.written(number))
        assert seen
        assert seen[1] == unit
        return seen[0]

    search = Search("x", 1_000_001.0, 9_999_999.0, unit, Find.LARGEST, (), 0.0001, not unit)
    held: dict[float, bool] = {}
    while values := next_values(search, held):
        assert [run(value) for value in values] == list(values)
        held |= {value: value <= 3_162_277 for value in values}
    assert run(0.12345678) == 0.12345678


def test_ends_of_one_kind_may_be_in_different_units(tmp_path: Path) -> None:
    axes = "axes: {horizon: {from: 3 s, to: 1 min, steps: 3, log: true}, buy.max_gpus: [1, 2]}\n"
    search = 'search: {path: "models[*].slo.latency", between: [50 ms, 1 s], find: smallest}\n'
    study = load_study(written(tmp_path, f"base: base.yaml\n{axes}{search}"))
    assert [value.label for value in study.axes[0].values] == ["3 s", "13.4164 s", "60 s"]
    assert study.search is not None
    assert (study.search.low, study.search.high, study.search.unit) == (50.0, 1000.0, "ms")
    assert ratio_of("seconds", "ms") == 1000
    assert ratio_of("GB", "ms") is None
    assert ratio_of("GB/s", "Mb/s", byte_rate) == 8000


def test_steps_are_written_with_six_digits_and_whole_numbers_with_all(tmp_path: Path) -> None:
    axes = "axes:\n  seed: {from: 1000001, to: 3000003, steps: 3}\n  load: {from: 1, to: 2, steps: 3, log: true}\n"
    seeds, loads = load_study(written(tmp_path, "base: base.yaml\n" + axes)).axes
    assert [value.label for value in seeds.values] == [1000001, 2000002, 3000003]
    assert [value.label for value in loads.values] == [1, 1.41421, 2]


def test_conditions_are_held_by_the_bad_end() -> None:
    outcome = {"feasible": True, "values": {"p99_s": {"low": 0.08, "mid": 0.09, "high": 0.11}, "cost": 5.0}}

    def holds(name: str, sign: str, limit: float) -> bool:
        return one_holds(Condition("", name, sign, limit), outcome)

    assert holds("p99_s", "<=", 0.11)
    assert not holds("p99_s", "<", 0.11)
    assert holds("p99_s", ">=", 0.08)
    assert not holds("p99_s", ">", 0.08)
    assert holds("cost", "<=", 5.0)
    assert not holds("nothing", "<", 1.0)


def test_a_search_brackets_what_two_gpus_carry_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    text = "base: base.yaml\naxes: {buy.max_gpus: [1, 2]}\nsearch: {path: load, between: [10, 100], tolerance: 20 %}\n"
    text += "set: {horizon: 1 s}\n"
    study = load_study(written(tmp_path, text))
    answer = run_study(study, CONTEXT, Here(), tmp_path / "out").answer
    one, two = (p.threshold for p in answer.points)
    for found, count in ((one, 1), (two, 2)):
        assert found["low"] == found["mid"] < found["high"] <= 1.2 * found["low"]
        for end, feasible in (("low", True), ("high", False)):
            inputs = study.base.resolve(
                (*study.changes, ChangedValue("buy.max_gpus", count), ChangedValue("load", found[end])), None
            )
            assert run_point(CONTEXT, inputs)["feasible"] is feasible
    assert 1.5 * one["low"] < two["low"] < 2.5 * one["low"]
    lines = (tmp_path / "out" / FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / "out" / FILE).write_bytes(b"".join(lines[:5]))
    engine = Here()
    assert run_study(study, CONTEXT, engine, tmp_path / "out", resume=True).answer == answer
    assert len(engine.asked) == len(lines) - 5


# Files


def test_csv_and_parquet_hold_what_the_json_holds(whole: dict[str, bytes], tmp_path: Path) -> None:
    answer = json.loads(whole["study.json"])
    (tmp_path / "x.parquet").write_bytes(whole["results.parquet"])
    table = duckdb.sql(f"SELECT * FROM '{tmp_path / 'x.parquet'}'")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    texts = list(csv.DictReader(whole["results.csv"].decode().splitlines()))
    assert len(rows) == len(texts) == len(answer["points"]) == POINTS
    for row, text, p in zip(rows, texts, answer["points"], strict=True):
        assert row["p99_s_high"] == float(text["p99_s_high"]) == p["values"]["p99_s"]["high"]
        assert row["gpu_count"] == p["values"]["gpu_count"]
        assert row["feasible"] is p["feasible"]
        assert row["load"] == p["axes"]["load"]
        assert (row["reason"] or "") == text["reason"] == p["reason"]


SAME_NAMES = """
base: base.yaml
axes:
  merging: [none, layers]
  Key: {cases: {a: {load: 1}}}
  axis.merging: {cases: {b: {horizon: 2 s}}}
outputs: [merging]
"""


def test_an_axis_may_be_called_as_an_output_is(tmp_path: Path) -> None:
    """Names of columns differ by more than capitals, for in SQL these do not count."""
    ran = run_study(load_study(written(tmp_path, SAME_NAMES)), CONTEXT, Here(), tmp_path / "out")
    keep(ran, tmp_path)
    rows = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert [row["axis.merging"] for row in rows] == ["none", "layers"]
    assert {row["axis.Key"] for row in rows} == {"a"}
    assert {row["axis.axis.merging"] for row in rows} == {"b"}
    assert [row["merging"] for row in rows] == [point.values["merging"] for point in ran.answer.points]
    assert all(len(row["key"]) == 64 for row in rows)
    assert re.search(
        r"# +axis\.merging +Key +axis\.axis\.merging +merging\n", render(ran.answer, Format.TABLE, Screen(100))
    )
    table = duckdb.sql(f"SELECT * FROM '{tmp_path / 'results.parquet'}'")
    assert table.columns == list(rows[0])
    assert [row[0] for row in table.fetchall()] == ["none", "layers"]


def test_without_duckdb_there_is_no_parquet(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    ran = run_study(replace(load_study(small), axes=()), CONTEXT, Here(), tmp_path)
    assert write(ran.answer, tmp_path) == ["study.json", "results.csv"]


def test_schema_of_studies_is_shipped() -> None:
    shipped = json.loads((ROOT / "scenarios" / "studies" / "study.schema.json").read_text(encoding="utf-8"))
    assert shipped == schema(StudySpec)


def test_every_key_of_a_study_is_explained(whole: dict[str, bytes]) -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").partition("`planner.study/v2`")[2]
    kinds = (results.StudyAnswer, results.AxisAnswer, results.OutputAnswer, results.SearchAnswer, results.Swing)
    keys = {name for kind in (*kinds, PointAnswer) for name in kind.__dataclass_fields__}
    assert sorted(key for key in keys if f"`{key}`" not in text) == []


def test_an_axis_that_makes_points_infeasible_is_not_idle(answer: StudyAnswer) -> None:
    """Where no figure moves with it, it decides whether there is one."""
    axis = answer.axes[0]
    still = tuple(replace(s, high_figure=s.low_figure) if s.axis == axis.name else s for s in answer.sensitivity)
    points = tuple(replace(point, feasible=point.axes[axis.name] != axis.values[0]) for point in answer.points)
    answer = replace(answer, points=points, sensitivity=still)
    assert list(feasible_by(answer)) == [axis.name]
    assert not any(line.startswith(axis.name) for line in explained.idle_axes(answer))
    count = len(points) // len(axis.values)
    counts = f"feasible are 0 of {count} points at {axis.values[0]}, {count} of {count} at {axis.values[-1]}."
    assert list(explained.deciding(answer)) == [f"{axis.name}: {counts}"]
    assert f"{axis.name} moves no figure, but {counts}" in render(answer, Format.TABLE, Screen(200))


def test_a_base_that_is_not_there_is_named_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text(BASE)
    (tmp_path / "study.yaml").write_text("name: a\nbase: rael.yaml\naxes: {seed: [1, 2]}\n")
    with pytest.raises(ScenarioError, match=r"study.yaml:2:7: base: `rael.yaml`: no such file. Did you mean `real"):
        load_study(tmp_path / "study.yaml")


def test_a_folder_of_a_study_is_told_by_its_answer(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(StoreError, match=r"is a directory\. Name `.*study\.json`\."):
        read_json(tmp_path)


# Shipped studies


def smaller(study: Study) -> Study:
    """The last value of the first axis, the first two of the second, and a search that ends at once."""
    first = replace(study.axes[0], values=study.axes[0].values[-1:], reference=0)
    others = (replace(axis, values=axis.values[:2], reference=0) for axis in study.axes[1:])
    return replace(study, axes=(first, *others), search=study.search and replace(study.search, tolerance=3.0, low=4))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_studies_run(path: Path, tmp_path: Path) -> None:
    quick = [] if path.stem == "deadline" else ["replications=2", "horizon=5 s", "confidence=50 %"]
    answer = run_study(smaller(load_study(path, quick)), CONTEXT, Here(), tmp_path).answer
    assert len(answer.points) == 2
    assert not any(p.failed for p in answer.points)
    assert {output.name for output in answer.outputs} == set(answer.points[0].values)


def test_the_example_of_the_page_is_a_study(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    path = tmp_path / "study.yaml"
    path.write_text(text.replace("../video.yaml", str(ROOT / "scenarios" / "video.yaml")), encoding="utf-8")
    assert len(load_study(path).combinations()) == 2 * 3 * 3 * 2


# What is written wrong

WRONG = [
    ("base: base.yaml\naxes: {}\n", "2:7: axes: nothing is varied. Give an axis"),
    ("axes: {load: [1]}\n", "1:1: base: is missing. Add it."),
    ("base: nowhere.yaml\naxes: {load: [1]}\n", "study.yaml:1:7: base: `nowhere.yaml`: no such file."),
    ("base: base.yaml\naxes: {load: []}\n", "2:14: axes.load: must be a list of values,"),
    ("base: base.yaml\naxes: {load: 3}\n", "2:14: axes.load: must be a list of values,"),
    ("base: base.yaml\naxes: {load: [1, 1]}\n", "2:14: axes.load: has `1` twice. Keep one."),
    ("base: base.yaml\naxes: {load: [1, -2]}\n", "2:18: axes.load[1]: `load` multiplies the rates of all"),
    ("base: base.yaml\naxes: {buy.gpu: [T4]}\n", "2:18: axes.buy.gpu[0]: unknown key. Did you mean `gpus`?"),
    ("base: base.yaml\naxes:\n  streams[*].rate: [x]\n", "3:21: axes.streams[*].rate[0]: streams[0].rate: must be"),
    ("base: base.yaml\naxes:\n  streams[9].rate: [1]\n", "`streams` has no item `9`."),
    ("base: base.yaml\naxes:\n  stream[*].rate: [1]\n", "is no list with items, and `[*]` means each of them."),
    ("base: base.yaml\naxes: {load: {from: 1, to: 2, steps: 1}}\n", "2:38: axes.load.steps: must be a whole"),
    ("base: base.yaml\naxes: {load: {from: 3, to: 2, steps: 2}}\n", "axes.load.to: must be above the other"),
    ("base: base.yaml\naxes: {horizon: {from: 3 s, to: 9 fps, steps: 2}}\n", "must have a unit like that of the other"),
    ("base: base.yaml\naxes: {horizon: {from: 3, to: 9 s, steps: 2}}\n", "of the other end, got `none` and `s`"),
    ("base: base.yaml\naxes: {load: {from: 1, to: 2, steps: 2, lg: true}}\n", "2:41: axes.load.lg: unknown key."),
    ("base: base.yaml\naxes: {a: {cases: {x: 1}}}\n", "axes.a.cases.x: must be a mapping of paths to values, got 1."),
    ("base: base.yaml\naxes: {load: [1]}\noutputs: [cost]\n", "3:11: outputs[0]: unknown output `cost`."),
    ("base: base.yaml\naxes: {load: [1]}\noutputs: ['gpu_count[look]']\n", "unknown output `gpu_count[look]`"),
    ("base: base.yaml\naxes: {load: [1]}\nask: train\n", "3:6: ask: `train` does not go with base.yaml"),
    ("base: base.yaml\naxes: {load: [1]}\nask: simulate\n", "on: goes with `ask: simulate`, and only with that."),
    ("base: base.yaml\naxes: {on.count: [0]}\non: {gpu: V100}\n", "`on.count` must be a whole number from 1"),
    ("base: base.yaml\naxes: {load: [1]}\nset: {horizn: 3 s}\n", "3:15: set.horizn: unknown key."),
    ("base: base.yaml\nsearch: {path: load, between: [2, 1]}\n", "search.between[1]: must be above the other end"),
    ("base: base.yaml\nsearch: {path: load, between: [0, 1]}\n", "search.between[0]: must be above 0, got 0."),
    (
        "base: base.yaml\nsearch: {path: buy.max_cost, between: [$1, $9]}\n",
        "search.between[0]: must be a number, or one with a unit, got `$1`. Write e.g. `0.5` or `50 ms`, and dollars",
    ),
    ("base: base.yaml\nsearch: {path: load, between: [1, 2], where: [cheap]}\n", "where[0]: must be `feasible`"),
    ("base: base.yaml\nsearch: {path: load, between: [1, 2], where: [cost<3]}\n", "where[0]: unknown output `cost`."),
    (
        "base: base.yaml\nsearch: {path: load, between: [1, 2], where: ['p99_s[zzz]<=0.1']}\n",
        "2:47: search.where[0]: no model `zzz`. Known: watch, look.",
    ),
    (
        "base: base.yaml\nsearch: {path: load, between: [1, 2], where: [fleet<=3]}\n",
        "2:47: search.where[0]: `fleet` is in words, which cannot be compared.",
    ),
    ("base: base.yaml\naxes: {load: [1]}\nsearch: {path: load, between: [1, 2]}\n", "axes.load: is what `search`"),
    ("base: base.yaml\naxes: {load: [1]}\nfoo: 1\n", "3:1: foo: unknown key."),
    ("base: base.yaml\naxes: {load: [1]}\noutputs: ['p99_s[zzz]']\n", "3:11: outputs[0]: no model `zzz`. Known: "),
    ("base: study.yaml\naxes: {load: [1]}\n", "1:7: base: is this study itself. Name a scenario."),
    ("- 1\n", "1:1: must be a mapping with `base` and `axes`, got a list."),
    ("a: [\n", "is not YAML"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), WRONG, ids=range(len(WRONG)))
def test_what_is_written_wrong_is_named_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ScenarioError) as error:
        load_study(path)
    assert said in str(error.value)
    assert all(problem.startswith(str(tmp_path)) for problem in error.value.problems)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = "base: base.yaml\naxes:\n  load: [0, 1, x]\n  headroom: [5 %, 500 %]\noutputs: [p98_s]\n"
    with pytest.raises(ScenarioError) as error:
        load_study(written(tmp_path, text))
    lines = [problem.partition("study.yaml:")[2].partition(": ")[0] for problem in error.value.problems]
    assert lines == ["3:10", "3:16", "4:19", "5:11"]


def test_what_is_wrong_with_an_axis_itself_is_said_once_at_its_key(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as error:
        load_study(written(tmp_path, "base: base.yaml\naxes:\n  headrom: [5 %, 10 %, 20 %]\n"))
    (problem,) = error.value.problems
    assert "study.yaml:3:12: axes.headrom: unknown key. Did you mean `headroom`?" in problem


def test_a_trainings_option_names_its_gpus_and_who_rents_them() -> None:
    ways = train(load_training(ROOT / "scenarios" / "training" / "resnet50.yaml"), *knowledge(None, None))
    best = ways.cheapest
    assert best is not None
    named = figures.of_training(ways)["values"]["option"]
    assert all(part in named for part in (best.instance, f"({best.gpu_count} {best.gpu})", best.provider))
    here = replace(best, provider="aws", region="us-east-2")
    assert str(figures.trained(here)["option"]).endswith(" of aws us-east-2")


def test_a_change_of_what_is_varied_is_refused(small: Path) -> None:
    with pytest.raises(ScenarioError, match="--set load=2: `load` is varied by the study"):
        load_study(small, ["load=2"])
    with pytest.raises(ScenarioError, match="--set horizn=2 s: horizn: unknown key"):
        load_study(small, ["horizn=2 s"])


# The command


def test_other_files_stay_alone(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    done = CliRunner().invoke(app, ["study", str(small), "-o", str(out)])
    assert isinstance(done.exception, StoreError)
    assert "mine: holds other files, and no study" in str(done.exception)
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


def test_resuming_where_nothing_is_is_said(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.questions.studies.local_engine.LocalEngine", lambda *_: Here())
    words = ["study", str(small), "-o", str(tmp_path / "out"), "--resume"]
    assert "found nothing to go on with" in CliRunner().invoke(app, words).stderr
    assert "found nothing to go on with" not in CliRunner().invoke(app, words).stderr


@pytest.mark.parametrize(
    ("study", "base"),
    [
        ("name: other" + STUDY, BASE),
        (STUDY.replace("base.yaml", "other.yaml"), BASE),
        (SIMULATED, BASE),
        (STUDY.replace("[1, 4, 40]", "[2, 3]"), BASE),
        (STUDY, BASE.replace("replications: 2", "replications: 3")),
    ],
)
def test_results_of_another_study_are_not_replaced(
    study: str, base: str, small: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    """Of another name, base or question though they share points, or without a point in common."""
    other = written(tmp_path, study, base)
    (tmp_path / "other.yaml").write_text(base)
    out = tmp_path / "out"
    shutil.copytree(small.parent / "whole", out)
    engine = Here()
    with pytest.raises(StoreError, match=r"holds 6 points of another study.*\. Name another directory"):
        run_study(load_study(other), CONTEXT, engine, out, resume=True)
    assert not engine.asked
    assert content(out) == whole


def test_a_study_with_more_values_goes_on_where_it_was(small: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    shutil.copytree(small.parent / "whole", tmp_path / "out")
    more = written(tmp_path, STUDY.replace("[1, 4, 40]", "[1, 2, 4, 40]"))
    ran = run_study(load_study(more), CONTEXT, Here(), tmp_path / "out", resume=True)
    assert (ran.taken, ran.computed) == (POINTS, 2)


def test_the_command(small: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = CliRunner().invoke(app, ["study", str(small), "-o", str(out), "--workers", "2"])
    assert said.exit_code == 0, said.output
    assert content(out) == whole
    again = CliRunner().invoke(app, ["study", str(small), "-o", str(out), "--resume", "--format", "json"])
    assert json.loads(again.stdout) == json.loads(whole["study.json"])
    with pytest.raises(StoreError, match="holds 6 points already"):
        CliRunner().invoke(app, ["study", str(small), "-o", str(out)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("engine", "workers", "address", "said"),
    [
        (EngineName.RAY, 2, None, "--workers 2: with --engine ray the cluster says how many."),
        (EngineName.LOCAL, None, "auto", "--address auto goes with --engine ray alone."),
        (EngineName.LOCAL, -1, None, "workers: must be from 1 to 1,024, got -1."),
        (EngineName.LOCAL, 1025, None, "workers: must be from 1 to 1,024, got 1025."),
        (EngineName.RAY, 0, None, "workers: must be from 1 to 1,024, got 0."),
    ],
)
def test_options_that_do_not_go_with_the_engine(
    engine: EngineName, workers: int | None, address: str | None, said: str
) -> None:
    with pytest.raises(InputError) as error:
        opened(engine, CONTEXT, workers, address)
    assert str(error.value) == said


def test_a_mean_of_replications_is_called_one(answer: StudyAnswer) -> None:
    """A plan's p99 is another where speeds or phases are drawn."""
    assert "p99_s" in answer.points[0].values
    assert " mean p99 " in render(answer, Format.TABLE, Screen(200))


def test_what_matters_most_names_the_point_that_axes_are_varied_from(small: Path, tmp_path: Path) -> None:
    """The base's latency, 100 ms, is not among those of the axis, so that the others run at the one in the middle."""
    axes = STUDY.replace("axes:", "axes:\n  'models[*].slo.latency': [80 ms, 90 ms, 200 ms]") + "outputs: [gpu_count]\n"
    path = written(tmp_path, axes + "design: one-at-a-time\n")
    found = run_study(load_study(path), CONTEXT, Here(), tmp_path / "out").answer
    said = "the others at the reference point: models[*].slo.latency=90 ms, load=1, buy.max_gpus=4."
    texts = render(found, Format.TABLE, Screen(200)), page(document_of(found)), str(explained.document(found))
    for text in texts:
        assert said in text.replace("\N{NO-BREAK SPACE}", " ")
        assert "as in the base" not in text


def test_a_misspelt_load_is_said(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"axes\.loads: unknown key\. Did you mean `load`\?"):
        load_study(written(tmp_path, STUDY.replace("load:", "loads:")))


def test_an_only_axis_is_not_said_to_matter_most(tmp_path: Path) -> None:
    path = written(tmp_path, SIMULATED.replace("200", "2") + "outputs: [goodput_rps]\n")
    found = run_study(load_study(path), CONTEXT, Here(), tmp_path / "out").answer
    for text in (render(found, Format.TABLE, Screen(200)), page(document_of(found)), str(explained.document(found))):
        assert "matters most" not in text
        assert "What matters most" not in text
        assert "What changes with load" in text
    assert next(findings(found)).startswith("goodput: from 39.")


def test_a_seed_is_shown_where_it_can_be_given_back(answer: StudyAnswer) -> None:
    told = [render(replace(answer, seed=seed), Format.TABLE, Screen(200)) for seed in (7, PLANNING)]
    assert "one seed for all, 7\n" in told[0]
    assert "one seed for all\n" in told[1]
    assert all(str(PLANNING) not in text for text in told)


def test_narrow_screens_split_the_table(answer: StudyAnswer) -> None:
    assert asdict(answer)["points"]
    lines = render(answer, Format.TABLE, Screen(60)).splitlines()
    assert max(map(len, lines)) <= 70
    assert sum(line.lstrip().startswith("#") for line in lines) > 1
