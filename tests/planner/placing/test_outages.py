"""Machines that fail: what no luck of a replay makes better, against long replays of the same deployment."""

from dataclasses import replace

import pytest
from support.planning import T4, model, offer, planned, profile, question, scenario, shelf

from planner.model.parts.machines import BuySpec, FailureSpec, OwnMachine
from planner.model.scenario import Scenario
from planner.model.statement import Code
from planner.placing.outages import attainment_max
from planner.search.even import evaluate
from simulator.world.deployment import Failures, Routing

KNOWN = shelf(profile("a", T4, 0.001, 0.001))
BOXES = BuySpec(own=(OwnMachine(name="t4", gpu="T4", price=0.5, count=3),))
OFTEN = FailureSpec(mean_time_between="60 s", recovery=6.0)  # type: ignore[arg-type]


def asked(attainment: float, routing: Routing, failures: FailureSpec, **changes: object) -> Scenario:
    """Ten requests a second, for which one GPU is enough."""
    made = scenario([model("a", 0.1, attainment)], {"a": (1, 10.0)}, routing=routing, failures=failures, buy=BOXES)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hosts", "routing"), [(1, Routing.ROUND_ROBIN), (2, Routing.ROUND_ROBIN), (2, Routing.LEAST_OUTSTANDING)]
)
def test_no_more_is_in_time_than_outages_leave(hosts: int, routing: Routing) -> None:
    """A T4 that is up for 60 s and away for 6 is away 8.9 % of the time, but for the last 0.1 s."""
    long = asked(0.9, routing, OFTEN, horizon=400.0, replications=4)
    trial = evaluate(question(long, [offer(T4, 0.5)], KNOWN), offer(T4, 0.5), hosts)
    dealt_to = 1 if routing is Routing.ROUND_ROBIN else hosts
    most = attainment_max(Failures(mean_time_between_s=60.0, recovery_s=6.0), 0.1, dealt_to)
    assert most == pytest.approx(1 - (5.9 / 66) ** dealt_to)
    seen = trial.replay.attainment["a"]
    assert seen.low <= most
    if dealt_to == 1:
        assert seen.low <= most <= seen.high, "nothing but outages makes any late"


RARE = FailureSpec(mean_time_between=600 * 3600.0, recovery=3600.0)
"""Away 0.17 % of the time: an outage is seen in one of 60 plans."""


@pytest.mark.parametrize(
    ("routing", "gpus", "remedy"),
    [(Routing.ROUND_ROBIN, None, Code.ROUTE_AROUND), (Routing.LEAST_OUTSTANDING, 2, Code.MORE_GPUS)],
)
def test_what_outages_break_is_not_met_however_lucky_its_replays_are(
    routing: Routing, gpus: int | None, remedy: Code
) -> None:
    plan = planned(asked(0.999, routing, RARE), KNOWN)
    found = plan.recommendation
    assert found.feasible is (gpus is not None)
    assert gpus is None or found.gpu_count == gpus
    alone = plan.rejections[0]
    assert alone.why.code is Code.OFTEN_AWAY
    assert alone.observed == pytest.approx(1 - 3599.9 / (601 * 3600))
    assert remedy in {one.code for one in alone.remedies}
    assert planned(asked(0.99, routing, RARE), KNOWN).recommendation.gpu_count == 1


def test_models_that_cannot_share_a_gpu_each_get_two_hosts() -> None:
    """A request of `slow` takes 0.3 s, three SLOs of `a`: on one GPU of its own each is away too often, and replicas of
    both on all GPUs are late."""
    known = shelf(profile("a", T4, 0.001, 0.001), profile("slow", T4, 0.3, 0.001))
    given = scenario(
        [model("a", 0.1, 0.95), model("slow", 1.0, 0.93)],
        {"a": (1, 10.0), "slow": (1, 2.0)},
        routing=Routing.LEAST_OUTSTANDING,
        failures=OFTEN,
        buy=BuySpec(own=(OwnMachine(name="t4", gpu="T4", price=0.5, count=6),)),
        horizon=120.0,
    )
    found = planned(given, known).recommendation
    assert found.feasible
    hosts = {gpu.id: gpu.host for gpu in found.gpus}
    assert all(len({hosts[gpu] for gpu in one.gpus}) == 2 for one in found.models)
