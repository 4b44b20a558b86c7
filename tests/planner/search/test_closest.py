"""Which miss is the closest where machines change nothing, and what is advised then."""

from dataclasses import replace

from support.planning import T4, Shelf, model, planned, profile, scenario, shelf

from planner.model.parts.machines import BuySpec, FailureSpec, OwnMachine
from planner.model.parts.streams import StreamSpec
from planner.model.plan import Plan
from planner.model.scenario import Scenario
from planner.model.statement import Code

QUICK = profile("a", T4, 0.005, 0.005)
OWN = OwnMachine(name="box", gpu="T4", price=0.4, count=64)


def asked(**changes: object) -> Scenario:
    made = replace(
        scenario([model("a", 1.0)], {"a": (1, 1.0)}, buy=BuySpec(own=(OWN,))),
        streams=(StreamSpec(model="a", poisson=50.0),),
        horizon=100.0,
        replications=10,
        confidence=0.95,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def closest(given: Scenario, library: Shelf) -> Plan:
    found = planned(given, library)
    assert not found.recommendation.feasible
    return found


def test_where_outages_leave_too_little_to_prove_one_fleet_is_tried() -> None:
    """Away for 14 of 1,454 minutes, 99.04 % can be in time on however many machines: 196,000 requests do not tell that
    from 99 %, 430,000 would."""
    found = closest(asked(failures=FailureSpec(mean_time_between=86_400.0, recovery=840.0)), shelf(QUICK))
    assert found.recommendation.gpu_count == 1
    assert [(no.subject.gpu_count, no.why.code) for no in found.rejections] == [(1, Code.NOT_PROVEN)]  # type: ignore[union-attr]


def test_fleets_are_not_tried_one_by_one_where_twice_the_machines_came_no_nearer() -> None:
    given = asked(models=(model("a", 0.02),), horizon=20.0)
    found = closest(given, shelf(replace(QUICK, latency_cv=0.5)))
    counts = {no.subject.gpu_count for no in found.rejections}  # type: ignore[union-attr]
    assert {*range(1, 13), 64} <= counts
    assert len(counts) < 20


def test_of_misses_that_come_as_near_the_cheapest_is_the_closest_and_more_machines_are_not_advised() -> None:
    """Run times that vary break the SLO of some requests on any number of machines: on three boxes 95.4 % are in time,
    on four 95.8 %, and neither is sure to a quarter of a percent."""
    given = asked(models=(model("a", 0.02),), buy=BuySpec(own=(replace(OWN, count=4),)))
    found = closest(given, shelf(replace(QUICK, latency_cv=0.5)))
    assert found.recommendation.gpu_count == 3
    assert not [no for no in found.rejections if no.why.code in (Code.TOO_MANY_GPUS, Code.TOO_FEW_MACHINES)]
