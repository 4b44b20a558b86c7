"""`planner predict`: what it says beside its rows."""

import csv
import io
import sys

import pytest

from calibrate.library.lookup import find_profiles
from planner import cli, predict
from planner.catalog.offers import load_catalog


def test_what_a_shipped_profile_has_is_not_predicted(tmp_path):
    """One figure for one question: that of `planner profiles show`, on which plans rest."""
    catalog = load_catalog()
    (profile,) = find_profiles((), catalog.gpus).for_model("resnet50_v2")
    assert profile.runtime == "tvm"
    file = tmp_path / "asked.csv"
    batches = (*profile.latency.x, 3)
    rows = "".join(f"{profile.gpu},{profile.model},tvm,{batch:g}\n" for batch in batches)
    file.write_text(f"gpu,model,runtime,batch\n{rows}")
    found = predict(file)
    assert [answer.latency_s for answer in found] == pytest.approx([profile.latency(batch) for batch in batches])
    last = [(answer.rule, answer.evidence) for answer in found[-2:]]
    assert last == [("profile", "published"), ("profile", "fitted")]


@pytest.mark.parametrize(
    ("rows", "said", "code"),
    [
        ("T4,resnet50\n", "", 0),
        ("T4,resnet50\nT4,nosuchnet\n", "1 of 2 rows have no figures", 0),
        ("T4,nosuchnet\nT5,resnet50\n", "2 of 2 rows have no figures", 2),
        ("", "has no rows", 0),
    ],
)
def test_rows_without_figures_are_counted_beside_the_answers(tmp_path, monkeypatch, capsys, rows, said, code):
    file = tmp_path / "asked.csv"
    file.write_text(f"gpu,model\n{rows}")
    monkeypatch.setattr(sys, "argv", ["planner", "predict", str(file), "--format", "csv"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    assert (end.value.code or 0) == code
    answers = list(csv.DictReader(io.StringIO(out)))
    assert len(answers) == len(rows.splitlines())
    assert all(bool(answer["latency_s"]) != bool(answer["reason"]) for answer in answers)
    assert said in err
    assert bool(said) == bool(err)
