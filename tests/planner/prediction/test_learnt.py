"""What was learnt from published points: that the shipped file follows from them, and what it answers."""

import csv
import io
import json
from math import log
from pathlib import Path

import numpy as np
import pytest
from support.planning import CATALOG

from calibrate.published.points import points
from planner import api
from planner.prediction.effects import NOISE, SPREAD, Case
from planner.prediction.learning import digest, figures
from planner.prediction.learnt import Learnt, Nearness, learnt
from planner.prediction.queries import QueryError, answers
from planner.show.spreadsheet import answers_csv, answers_json

STATIONARY = ("series", "work model gpu", "work model chip", "overhead model gpu")
"""Groups of little spread, so that digits that the file leaves out matter little."""


def asked(path: Path, *rows: str) -> list[dict[str, str]]:
    """Answers to rows of gpu, model, input, precision, runtime, batch, as CSV has them."""
    file = path / "asked.csv"
    file.write_text("\n".join(("gpu,model,input,precision,runtime,batch", *rows)), encoding="utf-8")
    return list(csv.DictReader(io.StringIO(answers_csv(api.predict(file)))))


def test_the_shipped_effects_were_learnt_from_the_shipped_points() -> None:
    assert learnt().points_sha256 == digest()


def test_the_shipped_effects_solve_the_equations_of_the_mixed_model() -> None:
    """At the solution an effect is its variance over the noise's, times the sum of what it leaves unexplained."""
    effects = {group: {key: mean for key, (mean, _) in keys.items()} for group, keys in learnt().effects.items()}
    pulls: dict[tuple[str, str], float] = {}
    for figure in figures(CATALOG.gpus):
        terms = [term for term in figure.effects if term.weight]
        left = figure.residual - sum(term.weight * effects[term.group][term.key] for term in terms)
        for term in terms:
            if term.group in STATIONARY:
                pulls[term.group, term.key] = pulls.get((term.group, term.key), 0.0) + term.weight * left
    for group in STATIONARY:
        found = np.array([effects[group][key] for of, key in pulls if of == group])
        expected = np.array([pull for (of, _), pull in pulls.items() if of == group]) * (SPREAD[group] / NOISE) ** 2
        assert np.quantile(np.abs(found - expected), 0.99) < 0.02, group


def test_a_published_case_is_what_was_published(tmp_path: Path) -> None:
    point = next(
        p for p in points("resnet50", "T4") if p.batch == 8 and p.precision == "fp32" and p.runtime == "pytorch"
    )
    (row,) = asked(tmp_path, "Tesla T4,resnet50,,,,8")
    assert row["evidence"] == "published"
    assert point.source in row["sources"]
    assert float(row["latency_low_s"]) <= point.latency_s <= float(row["latency_high_s"])


def test_a_batch_between_published_ones_lies_between_them(tmp_path: Path) -> None:
    low, between, high = asked(tmp_path, "T4,resnet50,,,,16", "T4,resnet50,,,,23", "T4,resnet50,,,,32")
    assert between["evidence"] == "predicted"
    assert between["rule"] == "series"
    assert float(low["latency_s"]) < float(between["latency_s"]) < float(high["latency_s"])


def test_names_are_understood_as_published_tables_write_them(tmp_path: Path) -> None:
    rows = asked(
        tmp_path,
        "NVIDIA A100-SXM4-80GB,ResNeXt50_32x4d,224x224,half,TensorRT 8.4.2,8",
        "A100-80GB,resnext50_32x4d,224,fp16,tensorrt,8",
    )
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("Riva128,resnet50,,,,", "Riva128"),
        ("T4,nonesuch,,,,", "nonesuch"),
        ("T4,resnet50,,fp5,,", "fp5"),
        ("T4,resnet50,,,abacus,", "abacus"),
    ],
)
def test_what_cannot_be_predicted_has_a_reason_and_no_figures(tmp_path: Path, row: str, said: str) -> None:
    before, told, after = asked(tmp_path, "T4,resnet50,,,,1", row, "T4,resnet50,,,,1")
    assert said in told["reason"]
    assert not any(value for name, value in told.items() if name != "reason")
    assert before == after


def test_json_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "asked.csv"
    file.write_text("model,gpu\nresnet50,T4\nnonesuch,T4\n", encoding="utf-8")
    found = json.loads(answers_json(api.predict(file)))
    assert found[0]["latency_low_s"] < found[0]["latency_s"] < found[0]["latency_high_s"]
    assert found[1]["latency_s"] is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ":1:"),
        ("gpu,precision\nT4,fp32\n", ":1:"),
        ("gpu,model,batch\nT4,resnet50,0\n", ":2:"),
        ("gpu,model,batch\nT4,resnet50,many\n", ":2:"),
        ("gpu,model\nT4,resnet50,8\n", ":2:"),
        ("gpu,model\n,resnet50\n", ":2:"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_by_line(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "asked.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(QueryError, match=place):
        list(answers(file, CATALOG.gpus))


def test_less_is_surer_the_nearer_something_was_measured() -> None:
    def width(**changes: object) -> float:
        case = {"gpu": "T4", "architecture": "resnet50", "input": "224", "precision": "fp32", "runtime": "pytorch"}
        estimate = learnt().predict(Case(**{**case, "batch": 12.0, **changes}), CATALOG.gpus["T4"])  # type: ignore[arg-type]
        return log(estimate.high / estimate.low)

    assert width() < width(architecture="tf_efficientnet_l2")


def test_what_nobody_has_seen_spreads_as_its_group_does() -> None:
    case = Case(gpu="T4", architecture="resnet50", input="224", precision="fp32", runtime="pytorch", batch=8.0)
    nothing = Learnt.of({})
    assert nothing.nearness(case) is Nearness.NEW_MODEL
    assert nothing.log_time(case, CATALOG.gpus["T4"]).sd > learnt().log_time(case, CATALOG.gpus["T4"]).sd
