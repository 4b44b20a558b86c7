"""The shipped points follow from the tables that were published, and say what those say."""

import gzip

import pytest
from support.paths import PUBLIC

from benchmarks.making import points as collecting
from calibrate.io.tables import csv_text
from calibrate.published import names
from calibrate.published.points import COLUMNS, DATA, points, sources

TABLES = pytest.mark.skipif(not (PUBLIC / "published").is_dir(), reason="the published tables are not here")


@TABLES
def test_the_shipped_points_are_those_of_the_tables():
    figures = collecting.collect(PUBLIC)
    with gzip.open(DATA / "points.csv.gz", "rt", encoding="utf-8", newline="") as file:
        assert file.read() == csv_text(COLUMNS, figures)
    assert (DATA / "architectures.csv").read_text(encoding="utf-8") == csv_text(
        collecting.ARCHITECTURE_COLUMNS, collecting.architectures(PUBLIC, figures)
    )


def test_every_point_has_a_source_and_known_names():
    found = list(points())
    assert len(found) > 9000
    assert {point.source for point in found} <= set(sources())
    assert all(names.architecture(point.architecture) == point.architecture for point in found[::50])
    assert all(names.gpu(point.gpu) == point.gpu for point in found[::50])
    assert all(point.latency_s > 0 for point in found)


def test_points_of_one_architecture_are_found_alone():
    every = [point for point in points() if point.architecture == "resnet50" and point.gpu == "T4"]
    assert list(points("resnet50", "T4")) == every
    assert list(points("resnet5")) == []


def figure(**asked):
    """Latencies, ms, of the points that have these attributes."""
    return [
        point.latency_s * 1e3
        for point in points(asked["architecture"])
        if all(getattr(point, name) == value for name, value in asked.items())
    ]


def test_figures_are_those_of_their_sources():
    """ResNet-50 at batch 1 on a T4: 12.96 ms by PyTorch, 2.64 by Paddle with TensorRT, about 1 by TensorRT at int8."""
    t4 = {"architecture": "resnet50", "gpu": "T4", "batch": 1}
    assert any(ms == pytest.approx(12.96, abs=0.01) for ms in figure(**t4, runtime="pytorch", precision="amp"))
    assert any(ms == pytest.approx(2.64, abs=0.01) for ms in figure(**t4, runtime="paddle-tensorrt", precision="fp16"))
    assert min(figure(**t4, runtime="tensorrt", precision="int8")) == pytest.approx(1.0, abs=0.2)
