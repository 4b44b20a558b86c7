"""`planner predict`: what it says beside its rows."""

import csv
import io
import sys

import pytest
from support.commands import planner

from calibrate.library.lookup import find_profiles
from planner import cli, predict
from planner.catalog.catalog import load_catalog


@pytest.mark.parametrize(
    ("gpu", "model", "runtime"),
    [
        ("V100", "resnet50_v2", "tvm"),
        ("V100", "resnet50", "pytorch"),  # its table has means and throughputs
        ("T4", "bert_base", "fastertransformer"),  # published alone, in two tables
    ],
)
def test_what_plans_have_a_profile_of_is_answered_as_they_have_it(tmp_path, gpu, model, runtime):
    """One figure for one question: `plan`, `profile` and `predict` say the same time and memory."""
    catalog = load_catalog()
    precision = "fp16" if model == "bert_base" else "fp32"
    profile = find_profiles((), catalog.gpus).get(model, gpu, precision, runtime)
    assert profile is not None
    file = tmp_path / "asked.csv"
    batches = (*profile.latency.x, 3)
    rows = "".join(f"{gpu},{model},{runtime},{precision},{batch:g}\n" for batch in batches)
    file.write_text(f"gpu,model,runtime,precision,batch\n{rows}")
    found = predict(file)
    assert [answer.latency_s for answer in found] == pytest.approx([profile.latency(batch) for batch in batches])
    held_bytes = [profile.weight_bytes + profile.workspace(batch) for batch in batches]
    assert [answer.reserved_bytes for answer in found] == pytest.approx(held_bytes)
    assert (found[-1].rule, found[-1].evidence) == ("profile", "fitted")


@pytest.mark.parametrize(
    ("rows", "said", "code"),
    [
        ("T4,resnet50\n", "", 0),
        ("T4,resnet50\nT4,nosuchnet\n", "1 of 2 rows have no figures", 0),
        ("T4,nosuchnet\nT5,resnet50\n", "2 of 2 rows have no figures", 2),
        ("T4,resnet50\nT5,resnet50\n", "says why. Row 2: GPU T5 is not known. Known: GTX580, T4, ", 0),
        ("", "has no rows below its first line. Write one", 2),
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
    assert said in " ".join(err.split())
    assert bool(said) == bool(err)


def test_a_table_refers_to_nothing_that_it_does_not_show(tmp_path, monkeypatch, capsys):
    file = tmp_path / "asked.csv"
    file.write_text("gpu,model\nA10G,resnet50\nT5,resnet50\n")
    monkeypatch.setattr(sys, "argv", ["planner", "predict", str(file), "--format", "table"])
    with pytest.raises(SystemExit):
        cli.main()
    out, err = capsys.readouterr()
    assert "row 2: GPU T5 is not known" in " ".join(out.split())
    assert "Elsewhere: published on other GPUs." in out
    assert err == ""


def test_progress_says_how_many_rows_are_answered(tmp_path):
    file = tmp_path / "asked.csv"
    file.write_text("gpu,model\nT4,resnet50\nT5,resnet50\n")
    told = []
    predict(file, progress=lambda text, done: told.append((text, done)))
    assert told == [("0 of 2 rows", 0.0), ("1 of 2 rows", 0.5)]


MISSPELT = [
    ("precison", "precision"),
    ("Batchs", "batch"),
    ("modle", "model"),
    ("bach size", "batch"),
    ("max_batch_size", "batch"),
    ("Batch Size (images)", "batch"),
    ("input_tokens", "input"),
]


@pytest.mark.parametrize(("written", "meant"), MISSPELT)
def test_a_misspelt_column_is_no_column_left_aside(tmp_path, written, meant):
    table = tmp_path / "asked.csv"
    table.write_text(f"gpu,{written},source\nT4,resnet50,me\n", encoding="utf-8")
    code, _, said = planner("predict", table)
    assert code == 2
    assert f"{table}:1: column `{written}` is not known. Did you mean `{meant}`?" in " ".join(said.split())


@pytest.mark.parametrize(("first", "second", "column"), [("model", "Model", "model"), ("batch", "batch_size", "batch")])
def test_a_column_that_comes_twice_is_refused(tmp_path, first, second, column):
    table = tmp_path / "asked.csv"
    table.write_text(f"gpu,network,{first},{second}\nT4,resnet50,8,16\n".replace("network,model", "model"), "utf-8")
    code, _, said = planner("predict", table)
    assert code == 2
    told = f"{table}:1: has column `{column}` 2 times: `{first}` and `{second}`. Keep one of them."
    assert told in " ".join(said.split())


SPELLINGS = [
    ("Model,GPU,Batch Size,Dtype", "float16"),
    ("model_name,gpu-type,batch_size,data type", "half"),
    ("Network,GPU Name,batchSize,torch_dtype", "torch.float16"),
    (" MODEL , Gpu , bs , Precision ", "FP16"),
]


@pytest.mark.parametrize(("columns", "precision"), SPELLINGS)
def test_columns_are_known_as_people_write_them(tmp_path, columns, precision):
    plain, spelled = tmp_path / "plain.csv", tmp_path / "spelled.csv"
    plain.write_text("model,gpu,batch,precision,price\nresnet50,T4,8,fp16,1\n", encoding="utf-8")
    spelled.write_text(f"{columns},price\nResNet-50 v1.5,Tesla T4,8,{precision},1\n", encoding="utf-8")
    assert predict(spelled) == predict(plain) != predict_one_at_fp32(tmp_path)


@pytest.mark.parametrize("name", ["résnet50", "Résnet-50", "\uff32esNet50"])
def test_a_name_with_accents_is_another_one_and_asked_back(tmp_path, name):
    table = tmp_path / "asked.csv"
    table.write_text(f"gpu,model\nT4,{name}\nT4,resnet50\n", encoding="utf-8")
    refused, known = predict(table)
    assert refused.latency_s is None
    assert "Did you mean resnet50?" in refused.reason
    assert known.latency_s


def test_an_unknown_column_is_named(tmp_path):
    table = tmp_path / "asked.csv"
    table.write_text("gpu,model,batch,colour\nT4,resnet50,,red\n", encoding="utf-8")
    code, _, said = planner("predict", table)
    assert code == 0
    assert "ignored, as no column that a prediction depends on: `colour`." in " ".join(said.split())


def predict_one_at_fp32(tmp_path):
    """What was answered where columns were left aside."""
    table = tmp_path / "usual.csv"
    table.write_text("model,gpu\nresnet50,T4\n", encoding="utf-8")
    return predict(table)


@pytest.mark.parametrize("batch", ["0", "-1", "1.5", "+8", "٣", "1000001"])
def test_a_batch_that_is_no_whole_number_is_said(tmp_path, batch):
    table = tmp_path / "asked.csv"
    table.write_text(f"gpu,model,batch\nT4,resnet50,{batch}\n", encoding="utf-8")
    code, out, _ = planner("predict", table)
    assert code == 2
    assert "batch must be a whole number from 1 to 1,000,000" in " ".join(out.split())
