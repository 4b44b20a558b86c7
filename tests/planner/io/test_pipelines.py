"""Pipelines in scenarios: what is read, and what is refused, each with its place in one line."""

import re
from pathlib import Path

import jsonschema
import pytest

from planner.io.load import Loaded, ScenarioError, load_text, schema, workload
from planner.io.strict_yaml import parse
from planner.io.warm import key_of
from planner.model.choices import Codec
from planner.model.parts.pipelines import EdgeSpec, FanOutSpec, PipelineSpec, StageSpec
from planner.objects import Scenario
from simulator.errors import InputError

CROSSING = """\
pipelines:
  - name: crossing
    slo: {latency: 300 ms, attainment: 95 %}
    ordered: true
    stages:
      - {name: decode, decode: h264, resolution: 1280x720}
      - {name: detect, model: yolo11s, precision: fp16, after: decode}
      - {name: track, host: 2 ms, after: detect}
      - {name: classify, model: resnet50, after: {stage: detect, fan_out: {mean: 3.2, poisson: true}}}
      - {name: plates, model: resnet18, after: [{stage: detect, share: 30 %, fan_out: 2}]}
      - {name: answer, host: 0.2 ms, after: [track, classify, plates]}
streams:
  - {model: crossing, count: 40, rate: 10 fps}
"""


def read(text: str, *overrides: str) -> PipelineSpec:
    return load_text(text, Path("made.yaml"), overrides).scenario.pipelines[0]


def refusals(*changes: str) -> list[str]:
    text = CROSSING
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(ScenarioError) as refused:
        read(text)
    return list(refused.value.problems)


def test_stages_and_the_ways_between_them_are_read() -> None:
    pipeline = read(CROSSING)
    stages = {stage.name: stage for stage in pipeline.stages}
    assert (pipeline.slo.latency, pipeline.slo.attainment, pipeline.ordered) == (0.3, 0.95, True)
    assert (stages["decode"].decode, stages["decode"].resolution) == (Codec.H264, (1280, 720))
    assert stages["detect"].after == (EdgeSpec(stage="decode"),)
    assert stages["classify"].after == (EdgeSpec(stage="detect", fan_out=FanOutSpec(mean=3.2, poisson=True)),)
    assert stages["plates"].after == (EdgeSpec(stage="detect", fan_out=FanOutSpec(mean=2.0), share=0.3),)
    assert [edge.stage for edge in stages["answer"].after] == ["track", "classify", "plates"]
    assert stages["track"].host == 0.002


@pytest.mark.parametrize(("name", "codec"), [("h265", Codec.HEVC), ("H.264", Codec.H264), ("hevc", Codec.HEVC)])
def test_codecs_are_known_by_their_other_names(name: str, codec: Codec) -> None:
    assert read(CROSSING.replace("decode: h264", f"decode: {name}")).stages[0].decode is codec


def test_one_frame_in_three_goes_on_in_turn() -> None:
    edge = read(CROSSING.replace("share: 30 %", "every: 3")).stages[4].after[0]
    assert (edge.every, edge.part) == (3, pytest.approx(1 / 3))
    (line,) = refusals("share: 30 %", "every: 0")
    assert line.startswith("made.yaml:10:")
    assert "every" in line


def test_streams_ask_a_pipeline_by_its_name() -> None:
    demand = workload(load_text(CROSSING, Path("made.yaml"), ()))
    assert demand.rates_rps() == {"crossing": 400.0}


def test_the_schema_knows_the_shorter_forms() -> None:
    jsonschema.validate(parse(CROSSING).data, schema())


def test_a_part_can_be_changed_by_its_name() -> None:
    assert read(CROSSING, "pipelines[crossing].stages[track].host=3 ms").stages[2].host == 0.003


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "after: decode}",
            "after: [decode, track]}",
            "made.yaml:8:42: pipelines[0].stages[2].after: runs in a circle: track -> detect -> track, so that ",
        ),
        (
            "{name: decode, decode: h264, resolution: 1280x720}",
            "{name: decode, decode: h264, after: decode}",
            "made.yaml:6:45: pipelines[0].stages[0].after: runs in a circle: decode -> decode, so that ",
        ),
        (
            ", after: decode}",
            "}",
            "made.yaml:7:9: pipelines[0].stages[1]: frames enter here beside `decode`, after which nothing comes. ",
        ),
        (
            "after: decode}",
            "after: decode, slo: {latency: 2 s, attainment: 90 %}}",
            "made.yaml:7:87: pipelines[0].stages[1].slo.latency: must not be above the pipeline's own, ",
        ),
        (
            "after: decode}",
            "after: []}",
            "made.yaml:7:64: pipelines[0].stages[1].after: must not be empty. Name the stage before, or ",
        ),
        (
            "after: decode}",
            "after: nowhere}",
            "made.yaml:7:64: pipelines[0].stages[1].after: no stage is called `nowhere`. Known: decode, ",
        ),
        (
            "after: decode}",
            "after: decoder}",
            "made.yaml:7:64: pipelines[0].stages[1].after: no stage is called `decoder`. Did you mean `decode`?",
        ),
        (
            "fan_out: 2}",
            "fan_out: -2}",
            "made.yaml:10:87: pipelines[0].stages[4].after[0].fan_out: must be above 0, got -2.",
        ),
        (
            "{mean: 3.2, poisson: true}",
            "{mean: 3.2, poisson: true, geometric: true}",
            "made.yaml:9:113: pipelines[0].stages[3].after.fan_out.geometric: cannot stand beside `poisson`: counts "
            "vary in one way. Keep one of them.",
        ),
        (
            "{mean: 3.2, poisson: true}",
            "{counts: [0, 0]}",
            "made.yaml:9:84: pipelines[0].stages[3].after.fan_out.counts: must hold one count above 0. "
            "Give some, or leave the stage out.",
        ),
        (
            "fan_out: 2}",
            "fan_out: [2]}",
            "made.yaml:10:87: pipelines[0].stages[4].after[0].fan_out: must be a number of items, got a list. Write ",
        ),
        (
            "{mean: 3.2, poisson: true}",
            "{counts: []}",
            "made.yaml:9:84: pipelines[0].stages[3].after.fan_out.counts: must hold one count above 0. "
            "Give some, or leave the stage out.",
        ),
        (
            "share: 30 %",
            "share: 130 %",
            "made.yaml:10:72: pipelines[0].stages[4].after[0].share: must be between 0 and 1, got 130 %. "
            "Write e.g. `0.95` or `95 %`.",
        ),
        (
            "name: plates",
            "name: track",
            "made.yaml:10:16: pipelines[0].stages[4].name: `track` is the name of another stage. Name them apart.",
        ),
        (
            "decode: h264",
            "decode: h246",
            "made.yaml:6:32: pipelines[0].stages[0].decode: must be one of h264, ",
        ),
        (
            "resolution: 1280x720",
            "resolution: big",
            "made.yaml:6:50: pipelines[0].stages[0].resolution: must be width x height, got `big`. Write e.g. `1920",
        ),
        (
            "host: 2 ms, after",
            "host: 2 ms, copy: 6 MB, after",
            "made.yaml:8:41: pipelines[0].stages[2].copy: cannot stand beside `host`: a stage does one thing. "
            "Make two stages of it.",
        ),
        (
            "{name: track, host: 2 ms, after: detect}",
            "{name: track, after: detect}",
            "made.yaml:8:9: pipelines[0].stages[2]: does nothing. Give one of `model`, `decode`, `encode`, `host`, ",
        ),
        (
            "host: 2 ms, after",
            "host: 2 ms, precision: fp16, after",
            "made.yaml:8:46: pipelines[0].stages[2].precision: goes only with `model`, not with `host`. Leave it out.",
        ),
        (
            "model: crossing,",
            "model: crossings,",
            "made.yaml:13:13: streams[0].model: no model is called `crossings`. Did you mean `crossing`?",
        ),
        (
            "ordered: true",
            "orderd: true",
            "made.yaml:4:5: pipelines[0].orderd: unknown key. Did you mean `ordered`? Known: ",
        ),
        (
            "streams:",
            "merging: auto\nstreams:",
            "made.yaml:12:10: merging: goes only with `models`, not with `pipelines`. Leave one of them out.",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(old: str, new: str, line: str) -> None:
    found = refusals(old, new)
    assert any(one.startswith(line) for one in found), found
    assert all("\n" not in one for one in found)


RECORDED = "fan_out: {trace: cars.csv, column: cars}"
CARS = "frame,cars,note\n0,3,busy\n# nobody\n1,0,\n2,12.0,\n"


@pytest.mark.parametrize(("change", "said"), [("fan_out.mean=-1.5", "must be above 0"), ("shar=1", "unknown key")])
def test_what_is_changed_below_the_only_stage_before_is_not_blamed_on_the_file(change: str, said: str) -> None:
    change = f"pipelines[0].stages[3].after.{change}"
    with pytest.raises(ScenarioError) as refused:
        read(CROSSING, change)
    (problem,) = refused.value.problems
    assert problem.startswith(f"--set {change}: {change.partition('=')[0]}: {said}")


def recorded(folder: Path, content: str, fan_out: str = RECORDED, *overrides: str) -> Loaded:
    """The crossing with the counts of its vehicles in a file."""
    (folder / "cars.csv").write_text(content)
    text = CROSSING.replace("fan_out: {mean: 3.2, poisson: true}", fan_out)
    return load_text(text, folder / "made.yaml", overrides)


def test_a_column_of_a_file_is_the_same_as_its_counts(tmp_path: Path) -> None:
    """Whatever way it is read by; another content is another question, so no kept answer is taken for it."""
    given = recorded(tmp_path, CARS, "fan_out: {counts: [3, 0, 12]}")
    read_ = recorded(tmp_path, CARS)
    assert read_.scenario == given.scenario
    changed = f"pipelines[0].stages[4].after={{stage: detect, {RECORDED}}}"
    assert recorded(tmp_path, CARS, RECORDED, changed).scenario.pipelines[0].stages[4].after == (
        EdgeSpec(stage="detect", fan_out=FanOutSpec(counts=(3, 0, 12))),
    )
    assert key_of(read_, [], "day") != key_of(recorded(tmp_path, CARS.replace("3", "4")), [], "day")


@pytest.mark.parametrize(
    ("fan_out", "content", "problem"),
    [
        (
            "fan_out: {trace: cars.csv, column: car}",
            CARS,
            "has no column `car`. Did you mean `cars`? Known: frame, cars",
        ),
        (RECORDED, CARS.replace("12.0", "-2"), "cars.csv:5: must be a whole number from 0 to 10,000, got `-2`. Mend"),
        (RECORDED, CARS.replace("12.0", "2.5"), "cars.csv:5: must be a whole number from 0 to 10,000, got `2.5`."),
        (RECORDED, CARS.replace("12.0", "nan"), "cars.csv:5: must be a whole number from 0 to 10,000, got `nan`."),
        (RECORDED, CARS.replace("2,12.0,", "2"), "cars.csv:5: must be a whole number from 0 to 10,000, got nothing."),
        (RECORDED, "frame,cars\n", "column `cars` must hold one count above 0."),
        (RECORDED, "frame,cars\n0,0\n", "column `cars` must hold one count above 0."),
        (RECORDED, "", "is empty"),
        (RECORDED, "cars\n" + 100_001 * "1\n", "holds more than 100,000 rows"),
        ("fan_out: {trace: none.csv, column: cars}", CARS, "none.csv: "),
        ("fan_out: {trace: cars.csv}", CARS, "fan_out: `trace` and `column` go together"),
        ("fan_out: {column: cars}", CARS, "fan_out: `trace` and `column` go together"),
        ("fan_out: {mean: 3, trace: cars.csv, column: cars}", CARS, "mean: cannot stand beside `trace`"),
        ("fan_out: {poisson: true, trace: cars.csv, column: cars}", CARS, "trace: cannot stand beside `poisson`"),
    ],
)
def test_recorded_counts_that_cannot_be_are_refused(tmp_path: Path, fan_out: str, content: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        recorded(tmp_path, content, fan_out)
    (line,) = refused.value.problems
    assert problem in line
    assert line.startswith(f"{tmp_path}/made.yaml:9:")


def test_files_that_are_missing_are_told_with_all_else_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as refused:
        recorded(
            tmp_path, CARS, "fan_out: {trace: none.csv, column: cars}", "headroom=99", "streams[0].trace.file=no.csv"
        )
    said = [line.replace(f"{tmp_path}/", "") for line in refused.value.problems]
    assert any("fan_out.trace: none.csv: no such file" in line for line in said)
    assert any("streams[0].trace.file: no.csv: no such file" in line for line in said)
    assert any("headroom: must be between 0 and 1" in line for line in said)


def test_stages_behind_a_circle_are_told_with_it() -> None:
    """In one line: the circle is what is wrong."""
    (found,) = refusals("after: decode}", "after: [decode, track]}")
    assert ", so that classify, plates, answer are never reached. Leave one" in found


def test_every_stage_that_feeds_itself_is_called_a_circle() -> None:
    found = refusals(
        "after: decode}", "after: [decode, detect]}", "2 ms, after: detect}", "2 ms, after: [detect, track]}"
    )
    for name in ("detect", "track"):
        assert sum(f"runs in a circle: {name} -> {name}" in one for one in found) == 1
    assert len(found) == 2


def test_another_input_of_a_model_by_a_plain_name_is_refused_at_its_stage() -> None:
    (found,) = refusals("model: resnet18,", "model: osnet_x1_0, input: 3x128x128,")
    assert found.startswith("made.yaml:10:9: pipelines[0].stages[4]: has `input`, which goes only with a `model` of a")
    assert "that of `osnet_x1_0` is 3x256x128. Leave it out." in found


@pytest.mark.parametrize("written", ["3x256x128", "[3, 256, 128]"])
def test_the_usual_input_of_a_model_by_a_plain_name_may_be_said(written: str) -> None:
    """It is the same model, by the same profiles."""
    bare = read(CROSSING.replace("model: resnet18,", "model: osnet_x1_0,"))
    said = read(CROSSING.replace("model: resnet18,", f"model: osnet_x1_0, input: {written},"))
    assert said.stages[4].served(said) == bare.stages[4].served(bare)


TRACK = "{name: track, host: 2 ms, after: detect}"


@pytest.mark.parametrize(
    ("new", "line"),
    [
        ("encod: h264", "made.yaml:8:23: pipelines[0].stages[2].encod: unknown key. Did you mean `encode`?"),
        ("encode: vp9", "pipelines[0].stages[2].encode: must be one of h264, hevc, av1, got `vp9`."),
        ("encode: h264, preset: fast", "preset: must be one of p1, p2, p3, p4, p5, p6, p7, got `fast`."),
        ("host: 2 ms, preset: p3", "stages[2].preset: goes only with `encode`, not with `host`. Leave it out."),
        ("decode: h264, preset: p3", "stages[2].preset: goes only with `encode`, not with `decode`. Leave it out."),
        ("host: 2 ms, engine_rate: 9 fps", "engine_rate: goes only with `decode` or `encode`, not with `host`."),
        ("encode: h264, engine_rate: 0 fps", "stages[2].engine_rate: must be above 0, got 0 fps."),
        ("encode: h264, decode: h264", "stages[2].encode: cannot stand beside `decode`: a stage does one thing."),
        ("encode: h264, memory: 500", "must say its unit, got 500. Write `500 MB`, or `500 B` where that is meant."),
        ("encode: h264, resolution: 999999x1080", "must have sides of 10 to 99999 pixels, got `999999x1080`. Write"),
        ("encode: h264, resolution: 1080p", "must be width x height, got `1080p`. Write e.g. `1920x1080`."),
        ("host: 2 ms, after: 3", "stages[2].after: must name a stage, got 3. Write e.g. `decode`, or"),
    ],
)
def test_what_is_wrong_with_a_stage_is_one_line(new: str, line: str) -> None:
    after = "" if "after" in new else ", after: detect"
    (found,) = refusals(TRACK, f"{{name: track, {new}{after}}}")
    assert line in found


def test_a_stream_that_asks_for_a_pipeline_by_half_its_name_is_one_line() -> None:
    """That nothing asks for the pipeline follows from it."""
    (found,) = refusals("model: crossing,", "model: crossings,")
    assert found.startswith("made.yaml:13:13: streams[0].model: no model is called `crossings`.")


def test_a_pipeline_without_stream_is_refused() -> None:
    text = CROSSING.replace("streams:", "models:\n  - {name: vgg16, slo: {latency: 1 s}}\nstreams:")
    with pytest.raises(
        ScenarioError, match=re.escape("no stream asks `crossing`. Add a stream with `model: crossing`")
    ):
        read(text.replace("{model: crossing,", "{model: vgg16,"))


def test_names_of_stages_and_models_differ() -> None:
    text = CROSSING.replace("pipelines:", "models:\n  - {name: crossing.detect, slo: {latency: 1 s}}\npipelines:")
    with pytest.raises(ScenarioError, match=re.escape("`crossing.detect` is the name of a model")):
        read(f"{text}  - {{model: crossing.detect, rate: 1 fps}}\n")


def test_a_pipeline_of_stations_alone_is_refused() -> None:
    text = CROSSING.replace("model: yolo11s, precision: fp16", "host: 1 ms").replace("model: resnet50", "host: 1 ms")
    with pytest.raises(ScenarioError, match=re.escape("run no model")):
        read(text.replace("model: resnet18", "host: 1 ms"))


def test_pipelines_are_checked_in_python_too() -> None:
    one = StageSpec(name="detect", model="yolo11s")
    made = Scenario(
        pipelines=[PipelineSpec(name="p", slo={"latency": "1 s"}, stages=(one,))],
        streams=[{"model": "p", "rate": "10 fps"}],
    )
    assert made.pipelines[0].stages == (one,)
    assert StageSpec(name="decode", decode="h264", resolution=(1280, 720)).resolution == (1280, 720)
    with pytest.raises(InputError, match=re.escape("StageSpec: does nothing")):
        StageSpec(name="idle")
    with pytest.raises(InputError, match=re.escape("no stage is called `detekt`. Did you mean `detect`?")):
        PipelineSpec(
            name="p", slo={"latency": "1 s"}, stages=(one, StageSpec(name="x", host="1 ms", after=("detekt",)))
        )
