"""Work of a processor: each step does what it says, against torchvision and counting."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import interpolate

from calibrate.devices.host import (
    assigned,
    clip,
    cropped,
    frames_of,
    letterboxed,
    overlaps,
    random_boxes,
    resized,
    suppressed,
)

SQUARE, LEFT_HALF, ELSEWHERE = (0.0, 0.0, 2.0, 2.0), (0.0, 0.0, 1.0, 2.0), (5.0, 5.0, 6.0, 6.0)


def test_overlap_is_what_both_cover_over_what_either_does():
    found = overlaps(np.array([SQUARE]), np.array([SQUARE, LEFT_HALF, ELSEWHERE]))
    assert found.tolist() == [[1.0, 0.5, 0.0]]


@given(st.integers(1, 60), st.integers(0, 1000))
def test_what_is_kept_overlaps_no_better_box(count, seed):
    random = np.random.default_rng(seed)
    boxes, scores = random_boxes(random, count), random.random(count)
    kept = suppressed(boxes, scores)
    overlap = overlaps(boxes, boxes)
    ordered = [int(i) for i in np.argsort(-scores)]
    expected = []
    for i in ordered:
        if all(overlap[i, j] <= 0.5 for j in expected):
            expected.append(i)
    assert kept == expected


def test_objects_that_move_a_little_keep_their_tracks():
    random = np.random.default_rng(3)
    corner = np.stack(np.meshgrid(np.arange(0, 500, 100), np.arange(0, 500, 100)), axis=-1).reshape(-1, 2).astype(float)
    before = np.concatenate([corner, corner + 50], axis=1)
    order = random.permutation(len(before))
    now = before[order] + random.uniform(-5, 5, (len(before), 1))
    pairs = dict(assigned(before, now))
    assert [int(order[pairs[i]]) for i in range(len(before))] == list(range(len(before)))
    assert assigned(before, before + 1000) == []


def test_a_letterbox_keeps_proportions():
    frame = torch.full((3, 1080, 1920), 255, dtype=torch.uint8)
    boxed = letterboxed(frame)
    assert boxed.shape == (3, 640, 640)
    assert int((boxed[0] > 0.99).sum()) == 640 * 360


@pytest.mark.parametrize(("height", "width"), [(1080, 1920), (722, 1279), (333, 517)])
@pytest.mark.parametrize("planes", [False, True])
def test_resizing_bytes_is_as_near_as_bytes_can_be(height: int, width: int, planes: bool) -> None:
    """Along each axis half a level of rounding, and a hundredth for rounded weights; whatever the layout."""
    drawn = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
    frame = torch.from_numpy(drawn).permute(2, 0, 1)
    exact = interpolate(frame[None].float(), (360, 640), mode="bilinear")[0]
    found = resized(frame.contiguous() if planes else frame, 360, 640)
    assert found.is_contiguous()
    assert float((255 * found - exact).abs().max()) <= 2 * (0.5 + 0.01)


def test_a_crop_has_the_size_of_a_classifiers_input():
    frame = torch.zeros((3, 720, 1280), dtype=torch.uint8)
    frame[:, 100:340, 200:520] = 255
    assert cropped(frame, 200, 100).shape == (3, 224, 224)
    assert float(cropped(frame, 200, 100).min()) == pytest.approx(1)


@pytest.mark.skipif(find_spec("av") is None, reason="PyAV is not installed")
def test_a_video_is_decoded_as_it_was_made():
    frames = frames_of(clip(320, 240, frames=5))
    assert len(frames) == 5
    shown = [frame.to_ndarray(format="rgb24").astype(float) for frame in frames]
    assert {picture.shape for picture in shown} == {(240, 320, 3)}
    moved = np.abs(shown[4] - shown[0]).mean()
    assert moved > 5  # the pattern goes on from frame to frame
