"""Costs of models side by side: the lecture's own table comes out of its profiles, and origins stand apart."""

import csv
import io
import json
from dataclasses import replace

import pytest
from support.calibrated import PROVENANCE, outcomes

import planner
from calibrate.io.points import Settings, What
from calibrate.layers.facts import known as models_with_layers
from calibrate.published.names import architecture
from calibrate.sweep import assemble
from calibrate.sweep.journal import Header
from calibrate.zoo.sources import LECTURE as OF_LECTURE
from planner.questions.profiling.model_costs import ModelCosts, Origin
from planner.show.documents.costs import costs_text
from planner.units.writing import Format, Screen
from simulator.errors import InputError

LECTURE = """
yolov3,0.24,49.5,0.52,17.0,0.73,24.0,1.22,39.9
resnet152,0.24,73.3,0.65,24.8,0.98,26.3,1.71,26.7
resnet50,0.12,27.1,0.35,8.4,0.50,8.5,0.84,8.5
tiny_yolov3,0.04,6.7,0.15,3.0,0.18,5.2,0.24,5.2
inceptionv3,0.12,11.8,0.19,9.1,0.23,9.1,0.34,9.1
ssd_vgg,0.11,16.1,0.23,16.5,0.33,25.7,0.51,44.6
"""
"""CS 181AI, lecture 14 (Padmanabhan, 6 March 2023): GB and ms to load, then to run at batch 1, 2 and 4. Models whose
times the V100's peak allows."""


def table(costs: ModelCosts, form: Format) -> str:
    return costs_text(costs, form, Screen(200))


def test_the_lectures_table_comes_out_of_its_profiles():
    lines = [line.split(",") for line in LECTURE.split()]
    names = [line[0] for line in lines]
    costs = planner.profiles_table(*names, gpu="V100")
    rows = [row for row in csv.DictReader(io.StringIO(table(costs, Format.CSV))) if row["model"] in names]
    for (name, load_gb, load_ms, *runs), row in zip(lines, rows, strict=True):
        assert (row["model"], row["origin"]) == (name, "published")
        assert float(row["load_memory_bytes"]) / 1e9 == pytest.approx(float(load_gb), abs=0.005)
        assert float(row["load_s"]) * 1e3 == pytest.approx(float(load_ms), abs=0.05)
        for batch, memory_gb, run_ms in zip((1, 2, 4), runs[::2], runs[1::2], strict=True):
            assert float(row[f"reserved_bytes_{batch}"]) / 1e9 == pytest.approx(float(memory_gb), abs=0.005)
            assert float(row[f"time_s_{batch}"]) * 1e3 == pytest.approx(float(run_ms), abs=0.05)
            band_s = [float(row[f"time_{end}_s_{batch}"]) for end in ("low", "high")]
            assert [end_s / float(row[f"time_s_{batch}"]) for end_s in band_s] == pytest.approx([0.65, 1.55], abs=0.01)


def test_what_nobody_measured_is_predicted_on_the_gpu_that_is_named_and_stands_apart():
    costs = planner.profiles_table(batches=(1, 8), gpu="T4")
    assert {architecture(row.model) for row in costs.rows} >= {architecture(name) for name in models_with_layers()}
    for row in (*costs.of(Origin.PREDICTED), *costs.of(Origin.PUBLISHED)):
        for run in row.runs:
            assert run.band_s
            assert run.band_s[0] < run.time_s < run.band_s[1]
    assert not planner.profiles_table("resnet18").rows, "no GPU was named, so there is nothing to predict for"
    for form in (Format.TABLE, Format.MD):
        shown = table(costs, form)
        assert shown.index("Published") < shown.index("Predicted")
    assert len(json.loads(table(costs, Format.JSON))["rows"]) == len(costs.rows)


def test_cudnn_by_rule_and_by_trying_stand_side_by_side(tmp_path):
    tried = Settings(cudnn_benchmark=True)
    points = [*outcomes(1.0, 1), *outcomes(0.8, 2, settings=tried)]
    assemble.write(points, Header(provenance=PROVENANCE, seed=1), tmp_path)
    costs = planner.profiles_table("net", gpu="T4", profiles=[tmp_path])
    assert {row.origin for row in costs.rows} == {Origin.MEASURED}
    ((off, on),) = costs.benchmarked
    for batch in costs.batches:
        assert on.at(batch).time_s / off.at(batch).time_s == pytest.approx(0.8, rel=0.02)
    assert off.pageable_s == pytest.approx(0.021, rel=0.05)
    assert "cudnn.benchmark off and on" in table(costs, Format.TABLE)


def test_a_batch_beside_a_load_stands_beside_the_batch(tmp_path):
    points = [
        replace(one, values={**one.values, "beside_load_s": 0.025}) if one.point.what is What.LATENCY else one
        for one in outcomes(1.0, 1)
    ]
    assemble.write(points, Header(provenance=PROVENANCE, seed=1), tmp_path)
    (row,) = csv.DictReader(io.StringIO(table(planner.profiles_table("net", profiles=[tmp_path]), Format.CSV)))
    assert {row[f"beside_load_s_{batch}"] for batch in (1, 2, 4)} == {"0.025"}


def test_a_group_of_models_is_what_it_is_for_calibrate():
    lecture = planner.profiles_table("lecture", gpu="V100")
    assert {architecture(row.model) for row in lecture.rows} == {architecture(name) for name in OF_LECTURE}
    everything = len(planner.profiles_table().rows)
    assert everything == len(set(planner.profiles_table().rows)), "resnet50 and nvidia_resnet50 have one profile"
    assert len(planner.profiles_table("all").rows) == len(planner.profiles_table("all", "resnet50").rows) == everything


@pytest.mark.parametrize("words", [{"models": ("resnet500",)}, {"models": (), "gpu": "V1000"}])
def test_what_is_not_known_is_one_line(words):
    models = words.pop("models")
    with pytest.raises(InputError, match="Did you mean"):
        planner.profiles_table(*models, **words)
