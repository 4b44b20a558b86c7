"""Work on a core in the time that was measured: found in a folder of one's own, or refused in a line."""

import json
from pathlib import Path

import pytest

from calibrate.library.lookup import SHIPPED
from planner.catalog.knowledge import knowledge
from planner.io.load import Loaded, ScenarioError, load_text
from planner.search.names import with_known_names

MEASURED = SHIPPED / "H200" / "device.json"
TEXT = """\
pipelines:
  - name: gate
    slo: {latency: 300 ms, attainment: 95 %}
    stages:
      - {name: decode, decode: h264, resolution: SIZE}
      - {name: small, measured: letterbox, HOSTafter: decode}
      - {name: detect, model: resnet50, after: small}
      - {name: boxes, measured: suppress, host: 9 ms, after: detect}
streams:
  - {model: gate, rate: 10 fps}
"""


def asked(*folders: Path, size: str = "1280x720", host: str = "") -> Loaded:
    text = TEXT.replace("SIZE", size).replace("HOST", host)
    return with_known_names(load_text(text, Path("made.yaml"), ()), *knowledge(None, folders))


def measured(folder: Path, name: str, factor: float) -> Path:
    """The shipped measurement as if one's own, with other times."""
    made = json.loads(MEASURED.read_text())
    values = made["probes"]["host"]["values"]
    made["probes"]["host"]["values"] = {key: factor * value for key, value in values.items()}
    made["gpu"]["name"] = name
    (folder / name).mkdir()
    (folder / name / "device.json").write_text(json.dumps(made))
    return folder


def test_the_slowest_of_ones_own_machines_counts_at_the_size_that_was_decoded(tmp_path: Path) -> None:
    folder = measured(measured(tmp_path, "first", 2.0), "second", 3.0)
    _, small, _, boxes = asked(folder).scenario.pipelines[0].stages
    times = json.loads(MEASURED.read_text())["probes"]["host"]["values"]
    assert times["letterbox_1280x720_s"] != times["letterbox_1920x1080_s"]
    assert small.host == pytest.approx(3.0 * times["letterbox_1280x720_s"])
    assert boxes.host == pytest.approx(3.0 * times["suppress_s"]), "not what is stated beside it"


def test_without_a_measurement_what_is_stated_counts_and_else_it_is_refused() -> None:
    _, small, _, boxes = asked(host="host: 4 ms, ").scenario.pipelines[0].stages
    assert (small.host, boxes.host) == (0.004, 0.009)
    with pytest.raises(ScenarioError) as refused:
        asked()
    (line,) = refused.value.problems
    assert line.startswith(
        "made.yaml:6:33: pipelines[0].stages[1].measured: `letterbox` 1280x720: no folder of --profiles says how long "
        "a core takes. Measure it: planner calibrate --what host"
    )


def test_a_size_that_nobody_measured_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as refused:
        asked(measured(tmp_path, "mine", 1.0), size="640x480")
    (line,) = refused.value.problems
    assert "`letterbox` 640x480: " in line
    assert "Known are 1280x720, 1920x1080." in line
