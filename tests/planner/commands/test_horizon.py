"""`planner horizon` as people use it: what it prints, refuses, draws and says in JSON."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from typer.testing import CliRunner

from planner.cli import app
from planner.io.load import ScenarioError
from planner.model.choices import HorizonWay
from planner.model.ranges import Range
from planner.questions.horizons import answer
from planner.units.reading import seldom
from simulator.errors import InputError

SMALL = """
name: small
models: [{name: resnet50_v2, slo: {latency: 200 ms, attainment: 95 %}}]
streams: [{model: resnet50_v2, count: 40, rate: 15 fps}]
buy: {providers: [aws], instances: [p3.2xlarge], retired: true, max_gpus: 6}
horizon: 5 s
replications: 2
calendar:
  days: 1
  hourly: [1, 1, 1, 1, 1, 1, 3, 5, 6, 6, 5, 5, 5, 5, 5, 5, 6, 6, 5, 4, 3, 2, 1, 1]
  rates_are: mean
  representatives: 3
  reserved: {term: reserved-3y}
  spot: {interruptions: 0.1 /h}
"""


def run(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["horizon", *words, "--quiet"])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.exit_code, found.stdout


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return str(path)


def test_all_ways_on_a_narrow_screen(small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    code, text = run(small)
    assert code == 0
    assert text.startswith("small: 51,840,000 requests in 1 day")
    assert all(re.search(rf"^  {way}\b", text, re.MULTILINE) for way in HorizonWay if way != "own")
    assert max(map(len, text.splitlines())) <= 60
    assert text.index("Cheapest that meets every SLO") < text.index("Assumptions")


def test_json_and_picture(small: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    code, text = run(small, "--format", "json", "--plot", str(tmp_path / "week.png"))
    found = json.loads(text)
    assert (code, found["schema"], len(found["strategies"])) == (0, "planner.horizon/v3", 5)
    assert sum(found["requests_by_hour"]) == pytest.approx(40 * 15 * 86_400)
    assert (tmp_path / "week.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_costs_no_answer(small: str, tmp_path: Path) -> None:
    """That a device is full shows only when it is written to."""
    pytest.importorskip("matplotlib")
    (tmp_path / "week.png").symlink_to("/dev/full")
    for picture, said, answered in (("week.png", "cannot be written", True), ("absent/a.png", "is not there", False)):
        done = CliRunner().invoke(app, ["horizon", small, "--quiet", "--plot", str(tmp_path / picture)])
        assert isinstance(done.exception, InputError)
        assert said in str(done.exception)
        assert done.stdout.startswith("small: ") is answered


def test_markdown(small: str) -> None:
    code, text = run(small, "--format", "md", "--set", "calendar.spot=null")
    assert code == 0
    assert "| way | cost |" in text
    assert "spot: give `calendar.spot.interruptions`" in text


@pytest.mark.parametrize(("written", "most"), [("100000 /h", "60 /h"), ("5", "1 /min"), ("9 /min", "1 /min")])
def test_a_rate_beyond_its_limit_is_answered_in_its_own_unit(small: str, written: str, most: str) -> None:
    with pytest.raises(ScenarioError, match=f"interruptions: must be at most {most}, .* Write `{most}` or less"):
        run(small, "--set", f"calendar.spot={{interruptions: {written}}}")
    assert seldom(most) <= 1 / 60


def limited(scenario: str, most: str, *words: str) -> tuple[int, dict[str, Any]]:
    code, text = run(scenario, "--format", "json", "--set", f"buy.max_cost={most}", *words)
    return code, json.loads(text)


def test_no_hour_costs_more_than_is_allowed_and_where_no_way_is_left_the_least_that_would_do_is_named(
    small: str,
) -> None:
    code, found = limited(small, "$7/h")
    assert (code, found["best"]) == (0, "spot")
    assert [s["way"] for s in found["strategies"] if s["met"]] == ["reserved", "spot"]
    assert "No way is taken that has an hour of more than $7.00 (`buy.max_cost`)" in found["assumptions"]
    for s in found["strategies"]:
        assert (
            s["usd_per_hour_max"] <= sum(p["machines_max"] * p["usd_per_hour"] for p in s["parts"]) + 1e-6
        )  # JSON has 9 digits
        assert s["over_max_cost"] is not s["met"]
        assert s["met"] is (s["usd_per_hour_max"] <= 7)
    code, found = limited(small, "$3/h")
    assert (code, found["best"]) == (3, "")
    (enough,) = re.findall(r"allows \$3\.00/h.*Remedy: write (\$\d+\.\d+/h) or more", found["warnings"][0])
    assert limited(small, enough)[0] == 0
    assert limited(small, f"${float(enough[1:-2]) - 0.01:.2f}/h")[0] == 3


def test_the_least_that_would_do_is_of_the_way_whose_dearest_hour_costs_least(tmp_path: Path) -> None:
    """Two boxes and one rented machine at the busiest hours: $7.06/h. The cheapest in all, one box and two, $8.12/h."""
    own = "max_gpus: 6, own: [{name: box, gpu: V100, price: $2.00/h, count: 2}]"
    text = SMALL.replace("max_gpus: 6", own).partition("  reserved:")[0]
    (path := tmp_path / "own.yaml").write_text(text, encoding="utf-8")
    code, found = limited(str(path), "$5/h")
    assert code == 3
    assert found["warnings"][0].endswith("Remedy: write $7.06/h or more")
    assert limited(str(path), "$7.06/h")[0] == 0


def test_every_way_that_costs_too_much_is_shown_and_said_to(small: str) -> None:
    _, found = limited(small, "$4/h")
    too_dear = [s["way"] for s in found["strategies"] if s["over_max_cost"]]
    assert too_dear == ["fixed", "scheduled", "autoscaled"]
    _, text = run(small, "--format", "md", "--set", "buy.max_cost=$4/h")
    assert text.count("| over max_cost |") == len(too_dear)
    assert "max_cost" not in text.partition("## Not compared")[2].partition("##")[0]


def test_where_no_way_does_it_even_without_a_limit_that_is_said(small: str) -> None:
    code, found = limited(small, "$0.01/h", "--set", "buy.max_gpus=1")
    assert code == 3
    assert "No way meets every SLO, not even with more than $0.010/h, `buy.max_cost`" in found["warnings"]
    _, text = run(small, "--set", "buy.max_gpus=1", "--set", "buy.max_cost=$0.01/h")
    assert "No way within `buy.max_cost` meets every SLO." in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("calendar=null", "calendar: is missing"),
        ("merging=layers", "merging: must be none with a calendar"),
        ("survive=1 machine", "survive: must be left out with a calendar, which buys no spares, got 1 machine."),
        ("buy.price=spot", "buy.price: must be on-demand with a calendar"),
        ("calendar.hourly=[1, 2]", "`hourly` must have 24 factors, one an hour, got 2."),
        ("calendar.weekly=[1, 2]", "`weekly` must have 7 factors, Monday to Sunday, got 2."),
        ("calendar.trace={file: none.csv}", "must have one of `hourly` and `trace`"),
        ("calendar.autoscaling={min: 5, max: 2}", "`max` must be at least `min`, 5, got 2"),
        ("calendar.autoscaling={target_utilization: 0}", "target_utilization: must be above 0"),
        ("calendar.spot={}", "calendar.spot.interruptions: is missing"),
        ("calendar.reserved.term=spot", "must be one of reserved-1y, reserved-3y"),
        ("calendar.dayz=3", "unknown key. Did you mean `days`?"),
        ("calendar.spot.interruptions=often", "must be a rate, got `often`. Write e.g. `0.1 /h` or `1 /min`."),
        ("calendar.trace.file=none.csv", "must have one of `hourly` and `trace`"),
        (
            "calendar.autoscaling.min=99",
            "must be at most 6 x p3.2xlarge, the most that may be had (`buy.max_gpus` is 6)",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(small: str, change: str, said: str) -> None:
    with pytest.raises(ScenarioError) as error:
        run(small, "--set", change)
    assert said in str(error.value)
    assert str(error.value).startswith(f"--set {change}: ")
    assert "\n" not in str(error.value)


def test_what_the_file_has_wrong_is_not_blamed_on_other_overrides(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(SMALL.replace("hourly: [1, 1,", "hourly: ["), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"^\S*wrong\.yaml:9:3: calendar: `hourly` must have 24 factors"):
        run(str(path), "--set", "calendar.days=2", "--set", "seed=3")


def test_the_start_of_a_machine_has_three_digits(small: str) -> None:
    code, text = run(small, "--set", "calendar.autoscaling.load=19.6 ms")
    assert code == 0
    assert "a p3.2xlarge answers 90 s after it is ordered" in " ".join(text.split())


def test_a_recording_that_is_not_there_is_named_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "trace.yaml"
    path.write_text(re.sub(r"  hourly: .*\n", "  trace: {file: none.csv}\n", SMALL), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"trace\.yaml:10:17: calendar\.trace\.file: .*no such file"):
        run(str(path))


def test_a_way_that_misses_an_slo_is_never_the_best(small: str) -> None:
    tight = ("calendar.autoscaling={target_utilization: 100 %, max: 1}", "calendar.spot=null", "streams[0].count=80")
    code, text = run(small, *(word for change in tight for word in ("--set", change)), "--format", "json")
    ways = {s["way"]: s for s in json.loads(text)["strategies"]}
    assert code == 0
    assert ways["fixed"]["met"]
    assert not ways["autoscaled"]["met"]
    assert json.loads(text)["best"] != "autoscaled"
    assert ways["autoscaled"]["gpus_max"] == 1
    assert ways["autoscaled"]["short_gpu_hours"] > 0


def test_every_key_of_the_json_is_explained() -> None:
    page = (ROOT / "docs" / "horizons.md").read_text(encoding="utf-8")
    kinds = (
        answer.Horizon,
        answer.Strategy,
        answer.LoadLevel,
        answer.ModelSlo,
        answer.StrategyPart,
        answer.DayCheck,
        Range,
    )
    keys = {f.name for kind in kinds for f in fields(kind)}
    assert sorted(key for key in keys if f"`{key}`" not in page) == []


@pytest.mark.parametrize("name", ["week", "bursts"])
def test_shipped_scenarios_are_read(name: str) -> None:
    from planner.io.load import load_scenario

    loaded = load_scenario(ROOT / "scenarios" / "horizon" / f"{name}.yaml")
    assert loaded.scenario.calendar is not None


def test_pipelines_are_refused_and_where_they_are_answered_is_said(small: str) -> None:
    stages = "[{name: detect, model: resnet50_v2}, {name: track, host: 2 ms, after: detect}]"
    changes = (f"pipelines=[{{name: gate, slo: {{latency: 1 s}}, stages: {stages}}}]", "streams[0].model=gate")
    with pytest.raises(ScenarioError) as error:
        run(small, *(part for change in changes for part in ("--set", change)), "--set", "models=[]")
    told = "pipelines: must be left out with a calendar, which weighs models alone. `planner plan` plans pipelines,"
    assert str(error.value) == f"--set {changes[0]}: {told} at one load."
