"""Publications that taught nothing: predictions are judged by them, so none may have a part in what was learnt."""

from pathlib import Path

import pytest

from benchmarks.making.fitting import OWN, measured_figures
from benchmarks.unlearnt import FILE, GROUP_MIN, Judged, judged, unlearnt_table
from calibrate.published.names import architecture
from calibrate.published.points import points, sources
from planner.catalog.catalog import load_catalog
from planner.prediction.queries import read_queries


def test_nothing_was_learnt_of_what_judges() -> None:
    taught = {
        sources()[one].repository for one in {point.source for point in points()}
    }  # trainings teach trainings alone
    judging = {row["source"].partition("@")[0] for row in read_queries(FILE)}
    assert taught
    assert judging
    assert not judging & taught


def test_of_what_this_project_measured_no_network_both_teaches_and_judges() -> None:
    taught = {(f.case.gpu, f.case.architecture) for f in measured_figures(load_catalog().gpus)}
    judging = {(row["gpu"], architecture(row["model"])) for row in read_queries(FILE) if OWN in row["source"]}
    assert {"resnet50", "bert_base"} <= {name for _, name in taught}
    assert {"vgg16", "faster_rcnn"} <= {name for _, name in judging}
    assert not judging & taught


def test_each_figure_names_its_place() -> None:
    rows = read_queries(FILE)
    assert all("@" in row["source"] and ":" in row["source"] for row in rows)
    cases = [tuple(row[name] for name in row if name != "latency_s") for row in rows]
    assert len(cases) == len(set(cases))


def test_shares_and_errors_are_those_of_their_rows() -> None:
    far = Judged(repository="a/b", gpu="T4", runtime="pytorch", small=True, size=0.6931471805599453, inside=False)
    near = Judged(repository="a/c", gpu="T4", runtime="pytorch", small=False, size=0.0, inside=True)
    rows = unlearnt_table([far] * GROUP_MIN + [near])
    assert "| all | 21 | 100.0 % | 100 % | 5 % |" in rows
    assert "| a/b | 20 | 100.0 % | 100 % | 0 % |" in rows
    assert "| the other 1 | 1 | 0.0 % | 0 % | 100 % |" in rows
    assert not [row for row in rows if row.startswith("| a/c")]


def test_a_figure_that_nobody_can_predict_stops_the_table(tmp_path: Path) -> None:
    file = tmp_path / "some.csv"
    file.write_text("gpu,model,runtime,batch,latency_s,source\nT4,nosuchnet,pytorch,1,0.1,a/b@1:c\n")
    with pytest.raises(ValueError, match="nosuchnet"):
        judged(file)
