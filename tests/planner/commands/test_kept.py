"""Which plans take the place of `plan.json`, and which lists name nothing."""

from pathlib import Path

import pytest

from planner import plan
from planner.io.load import ScenarioError

SCENARIO = """
models: [{name: resnet18, slo: {latency: 500 ms}}]
streams: [{model: resnet18, rate: 1 fps}]
"""


@pytest.mark.parametrize("wrong", ["buy.gpus=[]", "buy.providers=[]"])
def test_a_list_that_names_nothing_is_refused(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO, encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        plan(tmp_path / "s.yaml", overrides=[wrong])
    (line,) = str(error.value).splitlines()
    assert "names nothing" in line


def test_no_precision_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO.replace("name: resnet18,", "name: resnet18, precision: [],"), "utf-8")
    with pytest.raises(ScenarioError) as error:
        plan(tmp_path / "s.yaml")
    (line,) = str(error.value).splitlines()
    assert "models[0].precision" in line


def test_a_plan_that_crosses_a_threshold_replaces_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from planner.cli import app

    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(SCENARIO + "buy: {gpus: [CPU-Ice-Lake-4c], providers: [aws]}\n", encoding="utf-8")
    asked = ["plan", "s.yaml", "--quiet", "--set", "horizon=5 s"]
    assert CliRunner().invoke(app, [*asked, "--fail-on", "cost>0.01"]).exit_code == 4
    assert not Path("plan.json").exists()
    assert CliRunner().invoke(app, asked).exit_code == 0
    good = Path("plan.json").read_bytes()
    assert CliRunner().invoke(app, [*asked, "--set", "buy.max_cost=$0.01/h"]).exit_code == 3
    assert (Path("infeasible.json").exists(), Path("plan.json").read_bytes()) == (True, good)
