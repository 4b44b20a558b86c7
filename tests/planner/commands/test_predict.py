"""`planner predict`: what it says beside its rows."""

import csv
import io
import sys

import pytest

from planner import cli


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
