"""`planner merge analyze` and `planner merge breakeven`, as a person runs them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.placing.merging.layers import MergeError
from simulator.errors import InputError

PNG = b"\x89PNG"
SCENARIO = """
models:
  - {name: a, profile: resnet50_v2, layers: resnet50, slo: {latency: 100 ms, attainment: 95 %}}
  - {name: b, profile: resnet50_v2, layers: resnet50, slo: {latency: 100 ms, attainment: 95 %}}
streams:
  - {model: a, rate: 10 fps}
  - {model: b, rate: 10 fps}
buy: {own: [{name: box, gpu: V100, memory: 1.05 GB, price: $1/h, count: 2}]}
"""


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["merge", *words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_scenario_is_no_spec_of_a_training(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SCENARIO)
    with pytest.raises(
        InputError, match=r"a\.yaml: is a scenario of serving: `planner plan` reads it\. Name a file with"
    ):
        run("train", str(tmp_path / "a.yaml"))


def test_a_number_of_models_that_is_not_there_is_refused_in_words_for_one(tmp_path: Path) -> None:
    one = SCENARIO.replace(
        "  - {name: b, profile: resnet50_v2, layers: resnet50, slo: {latency: 100 ms, attainment: 95 %}}\n", ""
    )
    (tmp_path / "a.yaml").write_text(one.replace("  - {model: b, rate: 10 fps}\n", ""))
    with pytest.raises(MergeError, match=r"--models 99: the scenario has 1 model\. Write 1\."):
        run("breakeven", str(tmp_path / "a.yaml"), "--models", "99")


def test_analyze_as_a_table_and_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = run("analyze", "vgg16", "resnet50*2", "--plot", str(tmp_path / "a.png"))
    assert "3 models: 102.02 MB of 757.46 MB (13 %)" in text
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("models", "said"),
    [(["resnet18"], "Name others, or `resnet18*2`"), (["vgg16", "resnet18"], "no two layers are equal")],
)
def test_where_nothing_is_shared_no_savings_are_listed(models: list[str], said: str) -> None:
    text = run("analyze", *models)
    assert said in text
    assert "what is shared" not in text


def test_analyze_as_json() -> None:
    data = json.loads(run("analyze", "vgg16", "vgg19", "--format", "json"))
    assert data["schema"] == "planner.merge/v1"
    assert data["shareable_bytes"] / 2**20 == pytest.approx(527.79, abs=0.02)
    assert data["groups"][0]["models"] == ["vgg16", "vgg19"]
    assert data["heavy_hitters"][0]["strength"] == "strong"


def test_what_is_not_known_ends_in_one_line() -> None:
    with pytest.raises(MergeError, match="Did you mean vgg16"):
        run("analyze", "vgg166")


def test_a_picture_that_cannot_be_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(InputError, match="none is not there"):
        run("analyze", "lenet", "--plot", str(tmp_path / "none" / "a.png"))


def test_the_answer_is_printed_even_where_its_picture_fails(tmp_path: Path) -> None:
    """That a device is full shows only when it is written to."""
    pytest.importorskip("matplotlib")
    (tmp_path / "two.yaml").write_text(SCENARIO)
    (tmp_path / "a.png").symlink_to("/dev/full")
    small = ["breakeven", str(tmp_path / "two.yaml"), "--loads", "1", "--models", "1"]
    for words, said in ((["analyze", "vgg16", "vgg19"], "2 models: "), (small, "resident")):
        done = CliRunner().invoke(app, ["merge", *words, "--plot", str(tmp_path / "a.png")])
        assert isinstance(done.exception, InputError)
        assert said in done.stdout


@pytest.mark.parametrize("form", ["csv", "md"])
def test_formats_for_plans_are_refused(form: str) -> None:
    assert CliRunner().invoke(app, ["merge", "analyze", "lenet", "--format", form]).exit_code == 2


def test_breakeven(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "two.yaml"
    path.write_text(SCENARIO)
    options = ["--loads", "0.5,2", "--models", "1,2", "--plot", str(tmp_path / "b.png"), "--format", "json", "-q"]
    data = json.loads(run("breakeven", str(path), *options))
    assert [row["at"] for row in data["by_load"]] == [0.5, 2.0]
    assert [row["at"] for row in data["by_models"]] == [1, 2]
    assert all(row["wins"] for row in data["by_load"])
    assert (tmp_path / "b.png").read_bytes().startswith(PNG)


def test_loads_that_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(SCENARIO)
    assert CliRunner().invoke(app, ["merge", "breakeven", str(path), "--loads", "much"]).exit_code == 2
