"""Predictions are judged by what taught nothing: networks of this project, and each repository by all others."""

from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from support.planning import CATALOG

from benchmarks import unlearnt
from benchmarks.making.fitting import (
    OWN,
    REPOSITORIES,
    Figure,
    Spreads,
    figures,
    fit,
    measured_figures,
    repository,
    repository_figures,
)
from benchmarks.unlearnt import FILE, GROUP_MIN, Judged, judged, repositories_judged, unlearnt_table
from calibrate.published.names import architecture
from calibrate.published.points import points, sources
from planner.catalog.catalog import load_catalog
from planner.prediction.learnt import learnt
from planner.prediction.queries import read_queries


def test_no_repository_is_a_publication_too() -> None:
    taught = {
        sources()[one].repository for one in {point.source for point in points()}
    }  # trainings teach trainings alone
    gathered = {repository(row) for row in read_queries(REPOSITORIES)}
    assert taught
    assert gathered
    assert not gathered & taught


def test_what_a_repository_gives_has_no_part_in_what_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its times tripled move errors of the others alone. Figures are work alone: such a model is linear."""
    rows = list(repository_figures(CATALOG.gpus))
    names = ("facebookresearch/pycls", "pytorch/TensorRT", "ultralytics/yolov5")
    some = [(figure, row) for figure, row in rows if figure.source in names]
    others = [figure for figure in figures(CATALOG.gpus) if figure.case.architecture == "resnet50"][::10]
    monkeypatch.setattr(unlearnt, "repository_figures", lambda gpus: some)
    monkeypatch.setattr(unlearnt, "FOLDS", len(names))

    def told(slower: float) -> dict[str, list[float]]:
        mine = [replace(f, log_s=f.log_s + log(slower) * (f.source == names[0])) for f, _ in some]
        known: list[Figure] = [replace(f, case=replace(f.case, full=True)) for f in (*mine, *others)]
        found = repositories_judged(fit(known, Spreads(learnt().spreads, learnt().noise)))
        return {name: [one.size for one in found if one.repository == name] for name in names}

    one, other = told(1.0), told(3.0)
    assert one[names[0]] == pytest.approx(other[names[0]], abs=1e-6)
    assert one[names[2]] != pytest.approx(other[names[2]], abs=1e-3)
    assert {name: len(sizes) for name, sizes in one.items()} == {
        name: sum(figure.source == name for figure, _ in rows) for name in names
    }


def test_of_what_this_project_measured_no_network_both_teaches_and_judges() -> None:
    taught = {(f.case.gpu, f.case.architecture) for f in measured_figures(load_catalog().gpus)}
    judging = {(row["gpu"], architecture(row["model"])) for row in read_queries(FILE) if OWN in row["source"]}
    assert {"resnet50", "bert_base"} <= {name for _, name in taught}
    assert {"vgg16", "fasterrcnn_resnet50_fpn"} <= {name for _, name in judging}
    assert not judging & taught


def test_each_figure_names_its_place() -> None:
    rows = [*read_queries(FILE), *read_queries(REPOSITORIES)]
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
