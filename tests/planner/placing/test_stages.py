"""Items of a frame at each stage: against closed forms and against drawing them."""

import numpy as np
import pytest

from planner.model.parts.models import SloSpec
from planner.model.parts.pipelines import EdgeSpec, FanOutSpec, PipelineSpec, StageSpec
from planner.placing.stages import ItemCount, items_of, least_shares

SLO = SloSpec(latency=1.0)


def chain(*edges: EdgeSpec) -> PipelineSpec:
    """Stages one after the other."""
    first = StageSpec(name="s0", model="m")
    later = (StageSpec(name=f"s{i}", model="m", after=(edge,)) for i, edge in enumerate(edges, start=1))
    return PipelineSpec(name="p", slo=SLO, stages=(first, *later))


def last(*edges: EdgeSpec) -> ItemCount:
    return items_of(chain(*edges))[f"s{len(edges)}"]


def test_a_fixed_fan_out_does_not_vary() -> None:
    items = last(EdgeSpec(stage="s0", fan_out=FanOutSpec(mean=3.0)))
    assert (items.mean, items.variance) == (3.0, pytest.approx(0.0, abs=1e-9))
    assert items.least_share(0.9) == pytest.approx(0.9)


def test_more_items_than_chances_are_kept_of_are_still_there() -> None:
    """2,500 of each frame, of which 2,000 are sure to be at least."""
    often = FanOutSpec(mean=50.0)
    items = last(EdgeSpec(stage="s0", fan_out=often), EdgeSpec(stage="s1", fan_out=often))
    assert (items.mean, items.none) == (2500.0, 0.0)
    assert items.least_share(0.9) == pytest.approx(0.9 * 1999 / 2500)
    assert last(EdgeSpec(stage="s0", fan_out=FanOutSpec(mean=900.0, poisson=True))).variance == pytest.approx(900, 1e-3)


def test_a_fraction_is_the_numbers_on_both_sides_at_random() -> None:
    items = last(EdgeSpec(stage="s0", fan_out=FanOutSpec(mean=2.25)))
    assert items.chances == pytest.approx([0, 0, 0.75, 0.25])


@pytest.mark.parametrize(("kind", "variance"), [("poisson", 3.2), ("geometric", 3.2 * 4.2)])
def test_random_fan_outs_have_the_variance_of_their_law(kind: str, variance: float) -> None:
    items = last(EdgeSpec(stage="s0", fan_out=FanOutSpec(mean=3.2, **{kind: True})))
    assert float(np.arange(len(items.chances)) @ items.chances) == pytest.approx(3.2, rel=1e-5)
    assert items.variance == pytest.approx(variance, rel=1e-4)


def test_a_share_of_a_poisson_number_is_poisson() -> None:
    """Two stages: each of Poisson many items goes on or not, which leaves Poisson many."""
    items = last(
        EdgeSpec(stage="s0", fan_out=FanOutSpec(mean=4.0, poisson=True)),
        EdgeSpec(stage="s1", share=0.25),
    )
    assert items.mean == 1.0
    assert items.chances[:4] == pytest.approx([np.exp(-1), np.exp(-1), np.exp(-1) / 2, np.exp(-1) / 6], rel=1e-6)


def test_a_compound_number_has_the_variance_of_wald() -> None:
    """Var(sum of N) = E[N] Var(X) + Var(N) E[X]^2."""
    items = last(
        EdgeSpec(stage="s0", fan_out=FanOutSpec(mean=3.0, poisson=True)),
        EdgeSpec(stage="s1", fan_out=FanOutSpec(mean=2.0, geometric=True)),
    )
    assert items.mean == 6.0
    assert items.variance == pytest.approx(3 * (2 * 3) + 3 * 2**2, rel=1e-3)


def test_counts_of_a_recording_are_their_own_law() -> None:
    items = last(EdgeSpec(stage="s0", fan_out=FanOutSpec(counts=(0, 1, 3, 0))))
    assert items.mean == 1.0
    assert items.chances == pytest.approx([0.5, 0.25, 0, 0.25])
    assert items.least_share(0.75) == pytest.approx(0.25)


def test_the_least_share_is_that_of_the_lightest_frames() -> None:
    rng = np.random.default_rng(1)
    items = last(EdgeSpec(stage="s0", fan_out=FanOutSpec(mean=3.2, poisson=True)))
    drawn = np.sort(rng.poisson(3.2, 400_000))
    lightest = drawn[: int(0.95 * len(drawn))].sum() / drawn.sum()
    assert items.least_share(0.95) == pytest.approx(lightest, abs=3e-3)


def test_a_join_runs_once_for_each_frame_that_brings_anything() -> None:
    none = EdgeSpec(stage="a", share=0.3)
    stages = (
        StageSpec(name="a", model="m"),
        StageSpec(name="b", model="m", after=(none,)),
        StageSpec(name="c", host=0.001, after=(EdgeSpec(stage="b"), none)),
        StageSpec(name="d", host=0.001, after=(EdgeSpec(stage="a"), EdgeSpec(stage="b"))),
    )
    items = items_of(PipelineSpec(name="p", slo=SLO, stages=stages))
    assert items["c"].mean == pytest.approx(0.3)
    assert items["d"].mean == 1.0


def test_the_least_shares_are_of_frames_that_reach_a_last_stage() -> None:
    """A detector on every third frame, 90 % of which must be answered: 30 % of the frames, 90 % of its own."""
    asked = chain(EdgeSpec(stage="s0", every=3), EdgeSpec(stage="s1", fan_out=FanOutSpec(mean=2)))
    assert least_shares(asked, 0.9) == pytest.approx({"s0": 0.3, "s1": 0.9, "s2": 0.9})


def test_the_least_shares_are_those_of_the_lightest_frames_that_count() -> None:
    """Drawn: Poisson vehicles, of which each third is read. Frames in which something is read count; those with fewest
    vehicles are answered."""
    rng = np.random.default_rng(1)
    cars = rng.poisson(2.0, 400_000)
    read = rng.binomial(cars, 1 / 3)
    asked = chain(EdgeSpec(stage="s0", fan_out=FanOutSpec(mean=2.0, poisson=True)), EdgeSpec(stage="s1", share=1 / 3))
    found = least_shares(asked, 0.9)
    for stage, items in (("s1", cars), ("s2", read)):
        counted = np.sort(items[read > 0])
        lightest = counted[: int(0.9 * len(counted))].sum() / items.sum()
        assert found[stage] <= lightest + 3e-3
    assert found["s2"] == pytest.approx(lightest, abs=3e-3)


def test_the_least_shares_of_branches_are_below_those_of_frames_that_pass_them() -> None:
    """Every third frame is looked at, and has Poisson vehicles and plates. Drawn: the lightest of frames that count."""
    rng = np.random.default_rng(1)
    seen = rng.random(400_000) < 1 / 3
    cars, plates = (np.where(seen, rng.poisson(3.0, len(seen)), 0) for _ in range(2))
    some = FanOutSpec(mean=3.0, poisson=True)
    stages = (
        StageSpec(name="decode", host=0.001),
        StageSpec(name="detect", model="m", after=(EdgeSpec(stage="decode", share=1 / 3),)),
        StageSpec(name="cars", model="m", after=(EdgeSpec(stage="detect", fan_out=some),)),
        StageSpec(name="plates", model="m", after=(EdgeSpec(stage="detect", fan_out=some),)),
        StageSpec(name="answer", host=0.001, after=(EdgeSpec(stage="cars"), EdgeSpec(stage="plates"))),
    )
    found = least_shares(PipelineSpec(name="p", slo=SLO, stages=stages), 0.95)
    counted = (cars > 0) | (plates > 0)
    kept = int(0.95 * np.count_nonzero(counted))
    lightest = np.sort(cars[counted])[:kept].sum() / cars.sum()
    assert found["cars"] <= lightest
    surely = np.sort(cars[seen])[: int(0.95 * 0.95 * np.count_nonzero(seen))].sum() / cars.sum()
    assert found["cars"] == pytest.approx(surely, abs=3e-3)  # no more frames than have a car need be answered
    assert 0.95 * 0.95 - 3e-3 <= found["detect"] <= kept / np.count_nonzero(seen)
