"""Feasible batches, least work, and what is refused before any fleet is built."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.planning import T4, V100, demand, model, offer, profile, question, scenario, shelf

from planner.model.parts.streams import Phase, StreamSpec
from planner.model.plan import Bottleneck, Rejection
from planner.model.statement import Code, Statement
from planner.placing.sizing import Kind, Need, Sized, design_work, eased, least_work, most_arrivals, needs, size
from planner.search.even import evaluate
from planner.words.candidates import subject_name
from planner.words.statements import rejection_remedy
from simulator.world.curves import Interpolated
from simulator.world.deployment import Drop
from simulator.world.model import Layer
from simulator.world.profile import Doubt, Evidence, Profile
from simulator.world.workload import SLO, FixedRate, Gamma, Poisson, Stream, Trace, draw

V100_KIND = Kind.of(offer(V100, 3.06))


def sized_on_v100(latency_s: float, memory_bytes: int = V100.memory_bytes, weights: int = 100_000_000) -> object:
    asked = scenario([model("a", latency_s)], {"a": (10, 10.0)})
    offered = offer(V100, 3.06, memory_bytes=memory_bytes)
    library = shelf(profile("a", V100, 0.010, 0.005, weights))
    found, refused = size(asked, needs(asked, demand(asked)), [offered], library)
    return next(iter(found.values()), None) or refused[0]


def test_a_measured_context_stands_in_for_the_usual_one() -> None:
    """2 GB hold 0.1 GB of weights beside 0.8 GB, not beside 1.95 GB; what a scenario says counts before both."""
    asked = scenario([model("a", 0.052)], {"a": (10, 10.0)})
    offered = offer(V100, 3.06, memory_bytes=2_000_000_000)

    def sized(measured: int | None, given: int | None) -> object:
        profiles = shelf(replace(profile("a", V100, 0.010, 0.005, 100_000_000), context_bytes=measured))
        found, refused = size(replace(asked, context=given), needs(asked, demand(asked)), [offered], profiles)
        return next(iter(found.values()), None) or refused[0].bottleneck

    usual, heavy, lighter = sized(None, None), sized(1_950_000_000, None), sized(1_950_000_000, 300_000_000)
    assert isinstance(usual, Sized)
    assert usual.context_bytes == 800_000_000
    assert heavy is Bottleneck.MEMORY
    assert isinstance(lighter, Sized)
    assert lighter.context_bytes == 300_000_000


def test_largest_batch_keeps_the_slo_and_the_measured_range() -> None:
    within = sized_on_v100(0.052)  # 10 ms + 5 ms each: eight take 50 ms
    assert isinstance(within, Sized)
    assert within.batch_size_max == 8
    beyond = sized_on_v100(9.0)
    assert isinstance(beyond, Sized)
    assert beyond.batch_size_max == 16  # nobody measured 17


def test_largest_batch_fits_beside_context_and_weights() -> None:
    found = sized_on_v100(1.0, memory_bytes=800_000_000 + 100_000_000 + 3 * 20_000_000)
    assert isinstance(found, Sized)
    assert found.batch_size_max == 3


@pytest.mark.parametrize(
    ("latency_s", "memory_bytes", "bottleneck", "observed", "limit"),
    [
        (0.014, V100.memory_bytes, Bottleneck.LATENCY, 0.015, 0.014),
        (1.0, 900_000_000, Bottleneck.MEMORY, 920_000_000, 900_000_000),
    ],
)
def test_refusal_says_how_far_off(
    latency_s: float, memory_bytes: int, bottleneck: Bottleneck, observed: float, limit: float
) -> None:
    refused = sized_on_v100(latency_s, memory_bytes)
    assert not isinstance(refused, Sized)
    assert (refused.bottleneck, refused.observed, refused.limit) == (bottleneck, pytest.approx(observed), limit)
    assert refused.remedies


def test_memory_that_a_refusal_asks_for_is_enough() -> None:
    refused = sized_on_v100(1.0, 900_000_000, weights=101_234_567)
    assert isinstance(refused, Rejection)
    asked_for = re.search(r"a GPU with ([\d.]+) GB", rejection_remedy(refused))
    assert asked_for
    assert isinstance(sized_on_v100(1.0, round(float(asked_for[1]) * 1e9), weights=101_234_567), Sized)


def test_latency_that_a_refusal_asks_for_suffices_for_one_sample() -> None:
    refused = sized_on_v100(0.014)
    assert isinstance(refused, Rejection)
    assert [remedy.code for remedy in refused.remedies] == [Code.RAISE_LATENCY_WITH_WAITING]
    least_ms, _ = re.findall(r"([\d.]+) ms", rejection_remedy(refused))
    assert isinstance(sized_on_v100(float(least_ms) / 1e3), Sized)


def test_missing_profiles_are_one_refusal_for_each_kind() -> None:
    asked = scenario([model("a"), model("b")], {"a": (1, 1.0), "b": (1, 1.0)})
    found, refused = size(asked, needs(asked, demand(asked)), [offer(T4, 0.5)], shelf())
    assert not found
    assert [(no.bottleneck, subject_name(no.subject)) for no in refused] == [(Bottleneck.PROFILE, "2 models on T4")]
    assert refused[0].remedies == (Statement(code=Code.MEASURE, subjects=("T4",)),)


def test_model_too_large_for_one_gpu_spans_several() -> None:
    asked = scenario([model("a", 1.0)], {"a": (1, 1.0)})
    large = replace(profile("a", T4, 0.01, 0.005), layers=tuple(Layer(f"a{i}", 3_000_000_000) for i in range(12)))
    found, _ = size(asked, needs(asked, demand(asked)), [offer(T4, 4.0, gpu_count=4)], shelf(large))
    assert [s.stages for s in found.values()] == [3]  # 36 GB of weights, 15.2 GB of room each
    _, refused = size(asked, needs(asked, demand(asked)), [offer(T4, 1.0, gpu_count=2)], shelf(large))
    assert refused[0].bottleneck is Bottleneck.MEMORY


def need(stream: Stream, latency_s: float, attainment: float = 0.99, may_drop: bool = True) -> Need:
    return Need("a", stream.rate_rps, SLO(latency_s, attainment), 0.0, may_drop, (stream,))


def test_least_work_of_random_arrivals_is_that_of_the_cheapest_batch() -> None:
    asked = need(Stream("a", Poisson(100.0)), 1.0)
    assert least_work(asked, [0.010, 0.016], noisy=False) == pytest.approx(0.792)
    assert least_work(replace(asked, may_drop=False), [0.010, 0.016], noisy=False) == pytest.approx(0.8)


@settings(max_examples=20)
@given(
    st.floats(0.002, 0.03),
    st.floats(0.0005, 0.005),
    st.integers(1, 30),
    st.floats(2.0, 30.0),
    st.floats(0.05, 0.4),
    st.booleans(),
)
def test_no_timely_request_takes_less_than_the_least_work(
    floor_s: float, slope_s: float, sources: int, rate_rps: float, slo_s: float, random: bool
) -> None:
    """GPU-seconds that a replay took for each request in time, against what is claimed to be the least."""
    stream = StreamSpec(model="a", count=sources, **{"poisson" if random else "rate": rate_rps})
    asked = replace(scenario([model("a", slo_s)], {}), streams=(stream,), warmup=0.0)
    q = question(asked, [offer(V100, 3.06)], shelf(profile("a", V100, floor_s, slope_s)))
    if not q.sized:
        return
    seen = evaluate(q, q.offers[0], 1).replay
    least_s = q.sized["a", V100_KIND].least_work / (0.99 * sources * rate_rps)
    for run in seen.summaries:
        timely_rps = run.models["a"].goodput_rps
        busy = sum(device.utilization for device in run.devices.values())
        assert busy >= least_s * timely_rps * (1 - 1e-9)


def test_least_work_is_reached_where_full_batches_are_kept_coming() -> None:
    """Sixteen cameras in step send batches of sixteen, the largest that was measured: nothing can be saved."""
    stream = StreamSpec(model="a", count=16, rate=10.0, phase=Phase.ALIGNED)
    asked = replace(scenario([model("a", 0.5)], {}), streams=(stream,), warmup=0.0, horizon=10.095)
    q = question(asked, [offer(V100, 3.06)], shelf(profile("a", V100, 0.01, 0.005)))
    run = evaluate(q, q.offers[0], 1).replay.summaries[0]
    busy_s = sum(device.utilization for device in run.devices.values()) * 10.095
    assert run.models["a"].finished == 101 * 16
    assert busy_s / (101 * 16) == pytest.approx(q.sized["a", V100_KIND].least_work / (0.99 * 160), rel=1e-6)


def test_least_work_knows_that_few_cameras_fill_no_batch() -> None:
    asked = need(Stream("a", FixedRate(10.0), count=2), 0.100)  # 20 a second, at most 2 within 90 ms
    assert least_work(asked, [0.010, 0.011, 0.012, 0.013], noisy=False) == pytest.approx(0.99 * 20 * 0.011 / 2)


@pytest.mark.parametrize("window_s", [0.0, 0.03, 0.1, 0.35, 1.0])
def test_no_window_holds_more_arrivals_than_the_bound(window_s: float) -> None:
    rng = np.random.default_rng(3)
    recorded = np.sort(rng.uniform(0, 20, 300))
    for stream in (Stream("a", FixedRate(15.0), 7), Stream("a", Trace(recorded, 20.0), 1)):
        times = draw_times(stream)
        most = (np.searchsorted(times, times + window_s, "right") - np.arange(len(times))).max()
        assert most <= most_arrivals([stream], window_s)
    assert most_arrivals([Stream("a", Gamma(5.0, 2.0))], window_s) == float("inf")


def draw_times(stream: Stream) -> np.ndarray:
    from simulator.world.workload import Workload

    return draw(Workload((stream,)), 60.0, 1)["a"].arrival_s


def test_design_work_is_never_below_the_least() -> None:
    asked = need(Stream("a", Poisson(50.0)), 0.1)
    latency_s = [0.01 + 0.002 * b for b in range(1, 17)]
    assert design_work(asked, latency_s) >= least_work(asked, latency_s, noisy=False)


def test_nothing_may_be_given_up_where_frames_are_never_dropped() -> None:
    asked = scenario([model("a", attainment=0.9)], {"a": (10, 10.0)})
    assert needs(asked, demand(asked))["a"].needed_rps == pytest.approx(90)
    assert needs(replace(asked, drop=Drop.NEVER), demand(asked))["a"].needed_rps == pytest.approx(100)


def test_of_several_precisions_and_runtimes_each_gpu_takes_what_needs_fewest() -> None:
    asked = scenario([model("a", 0.2)], {"a": (10, 10.0)})
    slow = profile("a", V100, 0.010, 0.005, 100_000_000)
    fast = replace(slow, precision="fp16", latency=replace(slow.latency, y=tuple(y / 2 for y in slow.latency.y)))
    by_key = {("fp32", None): slow, ("fp16", None): fast}

    class Shelf:
        def get(self, name: str, gpu: str, precision: str | None, runtime: str | None = None, /) -> Profile | None:
            return by_key.get((precision or "fp32", runtime))

    def chosen(precision: str | tuple[str, ...] | None, runtime: str | None = None) -> str | None:
        spec = replace(asked.models[0], precision=precision, runtime=runtime)
        found, _ = size(replace(asked, models=(spec,)), needs(asked, demand(asked)), [offer(V100, 3.06)], Shelf())
        return next((sized.profile.precision for sized in found.values()), None)

    assert chosen(None) == "fp32"
    assert chosen(("fp32", "fp16")) == chosen(("fp16", "fp32")) == "fp16"
    assert chosen(("fp32", "int8")) == "fp32"
    assert chosen("int8") is None
    assert chosen(("fp16",), "tensorrt") is None


def test_speeds_are_taken_as_they_stand_only_where_none_beside_them_is_predicted() -> None:
    """`buy.evidence: measured` takes a GPU away on which a model is predicted that was measured on another."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.1,)), quantile=1.0)
    theirs, assumed = (
        replace(profile("a", T4, 0.01, 0.01), latency_evidence=evidence, doubt=doubt)
        for evidence in (Evidence.PUBLISHED, Evidence.ASSUMED)
    )
    guess = replace(profile("b", T4, 0.01, 0.01), predicted=True, doubt=doubt)
    taken, lower = eased([theirs, assumed])
    assert (taken.code, taken.subjects) == (Code.AS_THEY_STAND, (Evidence.ASSUMED, Evidence.PUBLISHED))
    assert lower.code is Code.LOWER_CONFIDENCE
    assert eased([theirs, guess]) == (lower,)
    assert eased([replace(theirs, doubt=None)]) == ()
