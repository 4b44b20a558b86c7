"""The duty cycle, and packings against every possible one."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.planning import T4, V100, model, offer, profile, question, scenario, shelf

from planner.model.plan import Bottleneck
from planner.placing.duty import Portion, caps_with_slack, duty_cycle, least_load
from planner.placing.packing import fills
from planner.placing.packing.packed import Misfit, Packing
from planner.placing.packing.packer import Packer
from planner.placing.sizing import Kind
from planner.replay.deploying import devices_of
from planner.search.question import Question
from simulator.world.curves import Interpolated
from simulator.world.hardware import GPU

KIND = Kind.of(offer(V100, 3.06))


def asked(
    models: dict[str, tuple[float, float, float, float]], weights: int = 100_000_000, gpu: GPU = V100, **changes: object
) -> Question:
    """A question from (floor_s, slope_s, rps, slo_s) by model; ten cameras each."""
    made = scenario(
        [model(name, slo_s) for name, (_, _, _, slo_s) in models.items()],
        {name: (10, rps / 10) for name, (_, _, rps, _) in models.items()},
        headroom=0.0,
        **changes,
    )
    library = shelf(*(profile(n, gpu, floor, slope, weights) for n, (floor, slope, _, _) in models.items()))
    return question(made, [offer(gpu, 3.06)], library)


def portions(q: Question) -> list[Portion]:
    return [Portion(q.sized[name, KIND], 1.0) for name in q.needs]


def test_round_is_the_sum_of_its_batches() -> None:
    q = asked({"a": (0.01, 0.0, 50, 0.1), "b": (0.01, 0.0, 50, 0.1)})
    duty = duty_cycle(portions(q), KIND, q.rules(False, {}))
    assert duty is not None
    assert duty.cycle_s == pytest.approx(0.02)
    assert duty.batch_sizes == (1, 1)
    assert duty.worst_s == (pytest.approx(0.03), pytest.approx(0.03))
    assert not duty.swapped


def test_batches_grow_until_all_that_arrives_is_served() -> None:
    q = asked({"a": (0.01, 0.002, 100, 1.0), "b": (0.01, 0.002, 100, 1.0)})
    duty = duty_cycle(portions(q), KIND, q.rules(False, {}))
    assert duty is not None
    for p, b in zip(portions(q), duty.batch_sizes, strict=True):
        assert b >= p.rate_rps * duty.cycle_s - 1e-6
    assert duty.cycle_s == pytest.approx(sum(0.01 + 0.002 * b for b in duty.batch_sizes))


def test_models_that_do_not_fit_together_take_turns_or_are_refused() -> None:
    q = asked({"a": (0.01, 0.001, 5, 1.0), "b": (0.01, 0.001, 5, 1.0)}, weights=9_000_000_000)
    assert duty_cycle(portions(q), KIND, q.rules(False, {})) is None
    swapped = duty_cycle(portions(q), KIND, q.rules(True, {}))
    assert swapped is not None
    assert swapped.swapped
    assert swapped.cycle_s == pytest.approx(2 * 9e9 / 12e9)  # loads take longer than batches and hide them


def pack(q: Question, devices: int, swap: bool = False) -> Packing | Misfit:
    return Packer(list(q.needs), q.sized, q.rules(swap, {})).pack(devices_of(q.offers, (devices,)))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_busy_gpu_takes_the_cheapest_batches_but_none_that_a_round_of_loads_has_no_room_for(swapped: bool) -> None:
    """Eight take 0.1 s and sixteen 2 s, so eight are cheapest. In a round of two loads of 9 GB,
    which is 1.5 s, nine of 6 a second gather."""
    weights = 9_000_000_000 if swapped else 100_000_000
    times_s = Interpolated((1.0, 8.0, 9.0, 16.0), (0.09, 0.1, 0.3, 2.0))
    made = scenario([model(name, 4.0) for name in "ab"], dict.fromkeys("ab", (6, 1.0)), headroom=0.0)
    library = shelf(*(replace(profile(name, V100, 0, 0, weights), latency=times_s) for name in "ab"))
    q = question(made, [offer(V100, 3.06)], library)
    rules = q.rules(swapped, {})
    duty = duty_cycle(portions(q), KIND, rules)
    assert duty is not None
    assert duty.swapped == swapped
    assert caps_with_slack(portions(q), duty, rules) == (duty.batch_sizes if swapped else (8, 8))
    assert min(duty.batch_sizes) == (9 if swapped else 2)


def test_weights_that_fit_no_gpu_together_are_spread() -> None:
    q = asked(dict.fromkeys("abcd", (0.005, 0.001, 5, 0.5)), weights=7_000_000_000)
    found = pack(q, 2)
    assert isinstance(found, Packing)
    by_card = [
        {p.portion.sized.model for p in found.placed if p.devices[0].id == device}
        for device in ("1xV100-1:0", "1xV100-2:0")
    ]
    assert sorted(map(len, by_card)) == [2, 2]
    refused = pack(q, 1)
    assert isinstance(refused, Misfit)
    assert refused.bottleneck is Bottleneck.MEMORY
    assert refused.observed == 800_000_000 + 4 * 7_000_000_000 + 20_000_000


def test_demand_above_one_gpu_is_served_by_several() -> None:
    q = asked({"a": (0.002, 0.004, 500, 0.5)})  # 4.125 ms each at best: 2.04 GPUs
    found = pack(q, 3)
    assert isinstance(found, Packing)
    assert len(found.placed) == 3
    assert sum(p.portion.share for p in found.placed) == pytest.approx(1.0)
    assert found.work <= 1.0
    short = pack(q, 2)
    assert isinstance(short, Packing)
    assert short.work > 1.0  # and the search refuses it


MODELS = st.dictionaries(
    st.sampled_from("abcde"),
    st.tuples(
        st.floats(0.002, 0.03), st.floats(0.0005, 0.006), st.floats(5, 120), st.sampled_from([0.05, 0.1, 0.2, 0.4])
    ),
    min_size=2,
    max_size=5,
)


@settings(max_examples=40)
@given(MODELS, st.integers(1, 3), st.sampled_from([100_000_000, 3_000_000_000]))
def test_packs_whatever_can_be_packed_whole(
    models: dict[str, tuple[float, float, float, float]], count: int, weights: int
) -> None:
    """Where some way to put whole models on GPUs passes the duty-cycle test, one as good is found."""
    q = asked(models, weights)
    if set(q.needs) != {m for m, _ in q.sized}:
        return
    found, best = pack(q, count), brute_force(q, count)
    if best <= 1:
        assert isinstance(found, Packing)
        assert found.strain <= 1 + 1e-9


def brute_force(q: Question, count: int) -> float:
    """Least strain of the most strained GPU over all ways to put whole models on GPUs."""
    rules = q.rules(False, {})
    best = float("inf")
    for places in product(range(count), repeat=len(q.needs)):
        strains = []
        for device in set(places):
            here = [p for p, place in zip(portions(q), places, strict=True) if place == device]
            duty = duty_cycle(here, KIND, rules)
            work = sum(p.sized.least_work for p in here)
            strains.append(duty.strain if duty and work <= 1 else float("inf"))
        best = min(best, max(strains))
    return best


@settings(max_examples=30)
@given(MODELS, st.integers(1, 4))
def test_every_request_has_a_place_and_no_gpu_is_overfull(
    models: dict[str, tuple[float, float, float, float]], count: int
) -> None:
    q = asked(models, 2_000_000_000)
    if set(q.needs) != {m for m, _ in q.sized}:
        return
    found = pack(q, count)
    if isinstance(found, Misfit):
        return
    packer = Packer(list(q.needs), q.sized, q.rules(swap=False, tightness={}))
    assert packer.busy_at_least(devices_of(q.offers, (count,))) <= found.work + 1e-9
    for name in q.needs:
        placed = [p for p in found.placed if p.portion.sized.model == name]
        assert sum(p.portion.share for p in placed) == pytest.approx(1.0)
        assert len({p.devices[0].id for p in placed}) == len(placed)
    for device in {p.devices[0].id for p in found.placed}:
        here = [p for p in found.placed if p.devices[0].id == device]
        weights = sum(p.portion.sized.profile.weight_bytes for p in here)
        workspace = max(p.portion.sized.profile.workspace(p.batch_size_max) for p in here)
        assert 800_000_000 + weights + workspace <= V100.memory_bytes


def test_all_gpus_are_busy_alike_at_least() -> None:
    """One model on two T4 and a V100: all three together do what comes in this part of their time."""
    offers = [offer(T4, 0.5), offer(V100, 3.06)]
    both = shelf(profile("a", T4, 0.01, 0.004, 100_000_000), profile("a", V100, 0.004, 0.001, 100_000_000))
    q = question(scenario([model("a", 0.2)], {"a": (10, 20.0)}), offers, both)
    packer, work = Packer(["a"], q.sized, q.rules(swap=False, tightness={})), {}
    for (_, kind), sized in q.sized.items():
        work[kind.gpu.name] = least_load(Portion(sized, 1.0))
    assert packer.busy_at_least(devices_of(q.offers, (2, 1))) == pytest.approx(1 / (2 / work["T4"] + 1 / work["V100"]))


def work_by_gpu(packing: Packing) -> dict[str, float]:
    work: dict[str, float] = {}
    for p in packing.placed:
        (device,) = p.devices
        work[device.id] = work.get(device.id, 0.0) + p.portion.share * p.portion.sized.least_work
    return work


@pytest.mark.parametrize("rps", [183, 190, 197])
def test_of_a_model_that_a_gpu_nearly_carries_just_what_must_go_is_elsewhere(rps: int) -> None:
    """At 5 ms a request a GPU does 200/s, and 180/s with 10 % of it kept free; all but 1 % must be in time."""
    beside = (0.0, 0.005, 120, 1.0)
    q = asked({"large": (0.0, 0.005, rps, 1.0), "b": beside, "c": beside})
    devices = devices_of(q.offers, (3,))
    packing = Packer(list(q.needs), q.sized, replace(q.rules(False, {}), headroom=0.1)).relieved(devices)
    assert isinstance(packing, Packing)
    assert max(work_by_gpu(packing).values()) == pytest.approx(0.9)
    large = sorted((p.portion for p in packing.placed if p.portion.sized.model == "large"), key=lambda p: p.share)
    assert [portion.share for portion in large] == pytest.approx([1 - large[1].share, 0.9 / large[1].sized.least_work])


@pytest.mark.parametrize(("rps", "gpus"), [(150, 3), (250, 3), (190, 1)])
def test_where_no_model_is_cut_for_what_is_kept_free_nothing_is_relieved(rps: int, gpus: int) -> None:
    q = asked({"large": (0.0, 0.005, rps, 1.0), "b": (0.0, 0.005, 20, 1.0)})
    packer = Packer(list(q.needs), q.sized, replace(q.rules(False, {}), headroom=0.1))
    assert packer.relieved(devices_of(q.offers, (gpus,))) is None


def test_what_no_other_gpu_can_run_is_not_relieved() -> None:
    names, profiles = ["large", "b"], [profile("large", V100, 0.0, 0.005), profile("b", V100, 0.0, 0.005)]
    offers = [offer(V100, 3.06), offer(T4, 0.5)]
    made = scenario([model(name, 1.0) for name in names], {"large": (10, 19), "b": (10, 0.5)}, headroom=0.1)
    q = question(made, offers, shelf(*profiles, profile("b", T4, 0.0, 0.005)))
    packed = Packer(names, q.sized, q.rules(False, {})).relieved(devices_of(q.offers, (1, 1)))
    assert packed is None


def test_models_apart_share_no_gpu_with_others() -> None:
    q = asked({"a": (0.002, 0.0001, 300, 0.003), "b": (0.02, 0.005, 60, 0.2), "c": (0.02, 0.005, 60, 0.2)})
    rules = q.rules(swap=False, tightness={})
    devices = devices_of(q.offers, (5,))
    packing = Packer(list(q.needs), q.sized, rules, apart=["a"]).pack(devices)
    assert isinstance(packing, Packing)
    held = {m: {c.id for p in packing.placed if p.portion.sized.model == m for c in p.devices} for m in q.needs}
    assert len(held["a"]) > 1
    assert not held["a"] & (held["b"] | held["c"])
    assert isinstance(Packer(list(q.needs), q.sized, rules, apart=["a"]).pack(devices[:1]), Misfit)


def test_host_memory_must_hold_all_its_weights() -> None:
    made = scenario([model("a", 1.0), model("b", 1.0)], {"a": (1, 1.0), "b": (1, 1.0)})
    library = shelf(*(profile(n, T4, 0.01, 0.001, 5_000_000_000) for n in "ab"))
    q = question(made, [offer(T4, 0.5, host_memory_bytes=8_000_000_000)], library)
    found = pack(q, 1, swap=True)
    assert isinstance(found, Misfit)
    assert (found.bottleneck, found.observed, found.limit) == (Bottleneck.HOST_MEMORY, 10_000_000_000, 8_000_000_000)


@pytest.mark.parametrize(("rules_max", "known_max"), [(2, 10**6), (12, 5)])
def test_what_is_known_of_fills_is_bounded_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, rules_max: int, known_max: int
) -> None:
    """Packed under four rules in turn, twice: with what is forgotten between them as with all that is known."""
    asked_of = asked(dict.fromkeys("abcd", (0.004, 0.002, 60, 0.1)))
    devices = devices_of((offer(V100, 3.06),), (2,))

    def packed() -> list[Packing | Misfit]:
        rules = [replace(asked_of.rules(False, {}), headroom=headroom) for headroom in (0.0, 0.1, 0.2, 0.3)]
        return [Packer(list(asked_of.needs), asked_of.sized, one).pack(devices) for one in 2 * rules]

    monkeypatch.setattr(fills, "_KNOWN", {})
    whole = packed()
    assert len(fills._KNOWN) == 4
    monkeypatch.setattr(fills, "_KNOWN", {})
    monkeypatch.setattr(fills, "RULES_MAX", rules_max)
    monkeypatch.setattr(fills, "KNOWN_MAX", known_max)
    for one, expected in zip(packed(), whole, strict=True):
        assert isinstance(one, Packing)
        assert one.placed == expected.placed
        assert one.strain == expected.strain
    assert len(fills._KNOWN) <= rules_max
    fills.known_of(list(asked_of.needs), asked_of.sized, asked_of.rules(False, {}))
    assert sum(known.size for known in fills._KNOWN.values()) <= known_max
