"""What a precision costs in accuracy, as published."""

import csv

import pytest

from calibrate.published.accuracy import accuracies, accuracy
from calibrate.published.names import architectures
from calibrate.published.points import DATA, sources


def test_every_figure_has_a_source_and_an_architecture() -> None:
    with (DATA / "accuracy.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert rows
    for row in rows:
        assert row["architecture"] in architectures()
        assert row["source"] in sources()
        assert 0 < float(row["value"]) <= 100
        assert abs(float(row["reference"]) - float(row["value"])) < 6


def test_a_name_is_found_however_it_is_written() -> None:
    assert accuracies("ResNet50", "int8") == accuracies("nvidia_resnet50", "int8")


def test_the_runtime_that_runs_counts_first() -> None:
    found = accuracy("resnet50", "int8", "tensorrt")
    assert found is not None
    assert (found.runtime, found.method) == ("tensorrt", "at least by MLPerf's rules")
    assert found.lost == pytest.approx(0.76)
    torch = accuracy("resnet50", "int8", "pytorch")
    assert torch is not None
    assert (torch.method, torch.lost) == ("quantized after training", pytest.approx(0.21))


def test_where_nothing_is_published_nothing_is_said() -> None:
    assert accuracy("yolov3", "fp16", "pytorch") is None
    assert accuracy("no-such-model", "int8", "pytorch") is None
