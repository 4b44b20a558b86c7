"""GPU memory that streams of video hold beside models and processes: what is refused, why, and what would help."""

from pathlib import Path

import pytest

import planner
from planner.model.plan import Bottleneck, Plan, Rejection
from planner.model.statement import Code
from planner.words.statements import rejection_line

CAMERAS = """
pipelines:
  - name: cam
    slo: {{latency: 250 ms, attainment: 95 %}}
    stages:
      - {{name: dec, {code}: h264, resolution: 1920x1080, memory: {each}}}
      - {{name: det, model: yolo11n, precision: fp16, runtime: tensorrt, after: dec}}
streams:
  - {{model: cam, count: {cameras}, rate: 10 fps}}
buy:
  own:
    - {{name: small, gpu: T4, {box}, cores: 4, price: $0.20/h, count: {count}}}
horizon: 10 s
"""


def plan(
    tmp_path: Path, cameras: int, each: str, box: str = "memory: 3 GB", count: int = 1, code: str = "decode"
) -> Plan:
    """Cameras before a detector on one's own machines."""
    path = tmp_path / "cameras.yaml"
    path.write_text(CAMERAS.format(cameras=cameras, each=each, box=box, count=count, code=code))
    return planner.plan(path)


def of_streams(found: Plan) -> Rejection:
    """The one rejection for the memory of streams."""
    (one,) = [no for no in found.rejections if no.why.code is Code.TOO_MANY_STREAMS]
    return one


@pytest.mark.parametrize("code", ["decode", "encode"])
def test_streams_are_compared_with_what_the_box_has_beside_a_process(tmp_path: Path, code: str) -> None:
    no = of_streams(plan(tmp_path, 5, "500 MB", code=code))
    said = "the 5 streams of video on one T4 hold 2.50 GB; 3.00 GB less 0.80 GB for the process leave 2.20 GB"
    assert said in rejection_line(no)
    assert (no.observed, no.limit, no.why.figures["memory_bytes"]) == (2.5e9, 2.2e9, 3e9)


def test_each_gpu_of_a_box_is_compared_with_its_own_memory(tmp_path: Path) -> None:
    no = of_streams(plan(tmp_path, 10, "500 MB", box="memory: 3 GB, gpu_count: 2"))
    assert (no.observed, no.limit) == (2.5e9, 2.2e9)


def test_without_a_smaller_box_the_memory_of_the_kind_counts(tmp_path: Path) -> None:
    no = of_streams(plan(tmp_path, 40, "500 MB", box="host_memory: 16 GB"))
    assert "hold 20.00 GB; 16.00 GB less 0.80 GB for the process leave 15.20 GB" in rejection_line(no)


@pytest.mark.parametrize("each", ["3500 MB", "2500 MB"])
def test_a_stream_that_a_box_does_not_hold_beside_a_process_is_said(tmp_path: Path, each: str) -> None:
    found = plan(tmp_path, 1, each, count=4)
    assert not found.recommendation.feasible
    no = of_streams(found)
    assert "one stream holds" in rejection_line(no)
    assert "; 3.00 GB less 0.80 GB for the process leave 2.20 GB" in rejection_line(no)
    assert (no.bottleneck, no.limit) == (Bottleneck.MEMORY, 2.2e9)


def test_a_larger_box_of_the_same_kind_keeps_it_on_offer(tmp_path: Path) -> None:
    """One T4 of 3 GB does not hold the stream; one with all of its memory does."""
    path = tmp_path / "two.yaml"
    plenty = "    - {name: large, gpu: T4, cores: 4, price: $0.50/h, count: 1}\nhorizon"
    text = CAMERAS.format(cameras=1, each="3500 MB", box="memory: 3 GB", count=1, code="decode")
    path.write_text(text.replace("horizon", plenty))
    found = planner.plan(path)
    assert found.recommendation.cost_usd_per_hour == pytest.approx(0.5)
    assert not [no for no in found.rejections if no.why.code is Code.TOO_MANY_STREAMS]


@pytest.mark.parametrize(("cameras", "each", "count"), [(5, "500 MB", 1), (1, "2199 MB", 4)])
def test_no_measurement_is_advised_of_a_fleet_that_cannot_hold_the_streams(
    tmp_path: Path, cameras: int, each: str, count: int
) -> None:
    """Time is not what it lacks, but memory: for streams, or for models beside them."""
    found = plan(tmp_path, cameras, each, count=count)
    assert not found.recommendation.feasible
    assert (found.outlooks, found.measure_next) == ((), ())


@pytest.mark.parametrize(("cameras", "boxes"), [(4, 1), (5, 2), (8, 2), (9, 3)])
def test_the_bound_leaves_room_for_a_process_on_each_gpu(tmp_path: Path, cameras: int, boxes: int) -> None:
    """2.2 GB of 3 hold four streams of 500 MB."""
    best = plan(tmp_path, cameras, "500 MB", count=4).recommendation
    assert best.gpu_count == boxes
    assert best.lower_bound_usd_per_hour == pytest.approx(0.2 * boxes)


def test_the_bound_leaves_room_for_resident_models(tmp_path: Path) -> None:
    """Five streams leave 1 MB of 2.2 GB for the detector, whose weights are more."""
    best = plan(tmp_path, 5, "439.8 MB", count=4).recommendation
    assert best.gpu_count == 2
    assert best.lower_bound_usd_per_hour == pytest.approx(0.4)
