"""GPU memory that streams of video hold beside models and processes: what is refused, why, and what would help."""

from pathlib import Path

import pytest

import planner
from planner.model.plan import Bottleneck, Plan, Rejection
from planner.model.statement import Code
from planner.replay.pipelines import dealt_most
from planner.show.documents.brief import limits
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


def remedies(no: Rejection) -> dict[Code, float]:
    """How many streams are named at most, and how many GPUs more."""
    return {
        one.code: one.figures["left" if one.code is Code.FEWER_STREAMS else "gpu_count"]
        for one in no.remedies
        if one.code in (Code.FEWER_STREAMS, Code.MORE_GPUS)
    }


@pytest.mark.parametrize(
    ("cameras", "each", "box"),
    [
        (24, "150 MB", "memory: 4 GB"),
        (60, "150 MB", "memory: 4 GB"),
        (10, "500 MB", "memory: 3 GB"),
        (19, "500 MB", "memory: 3 GB, gpu_count: 2"),
    ],
)
def test_as_many_streams_and_gpus_do_as_are_said(tmp_path: Path, cameras: int, each: str, box: str) -> None:
    """With so many streams on each GPU a plan is met, and with so many GPUs; not with one stream more or one machine
    less."""
    gpus = 2 if "gpu_count" in box else 1
    said = remedies(of_streams(plan(tmp_path, cameras, each, box)))
    fitting, count = round(said[Code.FEWER_STREAMS]) * gpus, 1 + round(said[Code.MORE_GPUS]) // gpus
    fewer = [plan(tmp_path, some, each, box).recommendation.feasible for some in (fitting, fitting + 1)]
    more = [plan(tmp_path, cameras, each, box, some).recommendation.feasible for some in (count, count - 1)]
    assert (fewer, more) == ([True, False], [True, False])


def test_where_no_number_does_none_is_said(tmp_path: Path) -> None:
    """However many boxes there are, each GPU is planned with the stream on the fullest, which leaves no model room."""
    found = plan(tmp_path, 1, "2199 MB", count=4)
    full = [no for no in found.rejections if no.why.code is Code.GPU_TOO_FULL]
    assert full
    assert [remedies(no) for no in full] == [{}] * len(full)


def test_as_many_machines_are_said_as_drivers_need(tmp_path: Path) -> None:
    """The driver of a GeForce encodes 8 streams at once."""
    path = tmp_path / "encoded.yaml"
    text = CAMERAS.format(cameras=40, each="100 MB", box="host_memory: 16 GB", count=1, code="encode")
    path.write_text(text.replace("T4", "RTX4090"))
    found = planner.plan(path)
    (no,) = [one for one in found.rejections if one.why.code is Code.TOO_MANY_ENCODED]
    assert remedies(no) == {Code.FEWER_STREAMS: 8, Code.MORE_GPUS: 4}
    assert found.measure_next == (), "its time is not what it lacks"


def test_streams_are_counted_that_smaller_batches_leave_room_for(tmp_path: Path) -> None:
    """As many come as are said, and one more does not fit."""
    box = "memory: 4 GB"
    found = plan(tmp_path, 12, "150 MB", box)
    (memory,) = [one for one in found.recommendation.resources if one.kind is Bottleneck.MEMORY]
    (model,) = found.recommendation.models
    assert model.demand_factor_max == pytest.approx(memory.streams_max / 12)
    assert f"from {memory.streams_max / 12:.2f} times as many streams" in limits(found.recommendation)
    most = [plan(tmp_path, memory.streams_max + more, "150 MB", box).recommendation.feasible for more in (0, 1)]
    assert most == [True, False]


def test_gpus_of_a_kind_get_streams_in_turn() -> None:
    """Two and three take four: the fifth would come to the first. Three and two take five."""
    assert [dealt_most(most) for most in ([2, 3], [3, 2], [2, 2], [7])] == [4, 5, 4, 7]


def test_the_bound_leaves_room_for_resident_models(tmp_path: Path) -> None:
    """Five streams leave 1 MB of 2.2 GB for the detector, whose weights are more."""
    best = plan(tmp_path, 5, "439.8 MB", count=4).recommendation
    assert best.gpu_count == 2
    assert best.lower_bound_usd_per_hour == pytest.approx(0.4)
