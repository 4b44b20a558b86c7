"""Spares: the cheapest machines with which every SLO is met whichever machine is away, against exhaustive search."""

from dataclasses import replace
from itertools import combinations, product
from random import Random

import pytest
from support.planning import A10G, T4, V100, model, offer, planned, profile, question, scenario, shelf

from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.plan import Bottleneck
from planner.model.progress import silent
from planner.model.scenario import Objective
from planner.placing.fleets import cost_usd_per_hour
from planner.replay.spares import covers, of_each_type, together, ways_left
from planner.search.fleets.search import FleetSearch
from planner.units.reading import whole_machines

LIBRARY = shelf(profile("a", T4, 0.005, 0.001))
SMALL, BIG = offer(T4, 1.0), offer(T4, 3.0, gpu_count=4)


def asked(cameras: int, **changes):
    return scenario([model("a")], {"a": (cameras, 10.0)}, **changes)


@pytest.mark.parametrize("cameras", [60, 130, 250])
def test_no_fleet_survives_for_less(cameras):
    """All fleets of up to two large and six small machines that cost no more than the answer."""
    q = question(asked(cameras, survive=1), (SMALL, BIG), LIBRARY)
    search = FleetSearch(q, silent)
    best = search.best(q.program(), Objective.COST)
    found = search.spares.ready([best])[0]

    def met(fleet):
        return any(fleet) and search.try_fleet(q.offers, fleet) is not None

    costs = {fleet: cost_usd_per_hour((SMALL, BIG), fleet) for fleet in product(range(7), range(3)) if sum(fleet) > 1}
    no_dearer = [fleet for fleet, cost in costs.items() if cost <= found.cost_usd_per_hour + 1e-9]
    least = min(costs[fleet] for fleet in no_dearer if all(met(left) for left in ways_left(fleet, 1)))
    assert not found.unready
    assert found.cost_usd_per_hour == pytest.approx(least)
    alone = question(asked(cameras), (SMALL, BIG), LIBRARY).lower_bound_usd_per_hour()
    assert alone < q.lower_bound_usd_per_hour() <= least


@pytest.mark.parametrize("seed", [*range(20), 47, 99, 186])
def test_of_machines_of_several_sizes_no_fleet_survives_for_less(seed):
    """Up to five of each of two or three types, at prices that no rule orders, against all fleets of them."""
    random = Random(seed)
    kinds = random.choices([T4, V100], k=random.randint(2, 3))
    sizes = random.choices([1, 1, 2, 4], k=len(kinds))
    own = tuple(
        OwnMachine(
            name=f"box-{i}",
            gpu=kind.name,
            gpu_count=size,
            price=round(random.uniform(0.5, 1.3) * size, 2),
            count=random.choice([1, 2, 5]),
        )
        for i, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
    )
    both = shelf(profile("a", T4, 0.005, 0.001), profile("a", V100, 0.004, 0.0008))
    wanted = asked(random.randint(40, 400), survive=1, buy=BuySpec(own=own))
    found = planned(wanted, both).recommendation
    bought = [
        offer(k, m.price, gpu_count=m.gpu_count, name=m.name, count_max=m.count)
        for k, m in zip(kinds, own, strict=True)
    ]
    search = FleetSearch(question(wanted, tuple(bought), both), silent)

    def survives(fleet):
        return all(any(left) and search.try_fleet(tuple(bought), left) for left in ways_left(fleet, 1))

    fleets = [fleet for fleet in product(*(range(m.count + 1) for m in own)) if sum(fleet) > 1]
    costs = {fleet: cost_usd_per_hour(bought, fleet) for fleet in fleets}
    least = next((costs[one] for one in sorted(fleets, key=costs.get) if survives(one)), None)
    assert found.feasible == (least is not None)
    assert not found.feasible or found.cost_usd_per_hour == pytest.approx(least)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("away", [1, 3])
def test_what_is_proposed_with_a_spare_of_each_type_costs_as_little_as_of_any_choice_of_types(seed, away):
    """Three models, each fastest on a GPU of its own, against the bounds of all seven choices of types."""
    random = Random(seed)
    kinds = (T4, V100, A10G)
    bought = tuple(offer(kind, round(random.uniform(0.5, 1.5), 2)) for kind in kinds)
    known = shelf(
        *(
            profile(name, kind, 0.003, 0.002 if i == j else random.uniform(0.002, 0.008))
            for i, name in enumerate("abc")
            for j, kind in enumerate(kinds)
        )
    )
    loads = {name: (random.randint(5, 200), 10.0) for name in "abc"}
    program = question(scenario([model(name) for name in "abc"], loads), bought, known).program()

    def least(offered):
        bound = replace(program, offers=offered).lower_bound_usd_per_hour()
        return bound + away * sum(one.usd_per_hour for one in offered)

    found = replace(program, spares=away).propose()
    paid = together(found.fleet, of_each_type(found.fleet, away))
    choices = (chosen for n in (1, 2, 3) for chosen in combinations(bought, n))
    assert cost_usd_per_hour(bought, paid) == pytest.approx(min(map(least, choices)))


def test_a_spare_counts_at_the_price_of_what_can_serve():
    """`b` runs on the dearer GPU alone: two of those are bought whatever `a` runs on."""
    both = scenario([model("a"), model("b")], {"a": (1, 1.0), "b": (1, 1.0)}, survive=1)
    known = shelf(profile("a", T4, 0.005, 0.001), *(profile(n, V100, 0.005, 0.001) for n in "ab"))
    q = question(both, (SMALL, offer(V100, 3.0)), known)
    assert q.lower_bound_usd_per_hour() == pytest.approx(6.0)


def test_where_no_spare_may_be_bought_the_answer_says_what_keeps_it_out():
    own = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.5, count=1),))
    plan = planned(asked(40, survive=1, buy=own), LIBRARY)
    assert planned(asked(40, buy=own), LIBRARY).recommendation.feasible
    assert not plan.recommendation.feasible
    assert plan.recommendation.unready
    assert any(no.bottleneck is Bottleneck.GPU_COUNT and no.observed == 2 for no in plan.rejections)


@pytest.mark.parametrize(
    ("gpus", "survive", "count"),
    [(("T4", "T4"), 1, 2), (("T4", "V100"), 1, 2), (("T4", "T4", "T4"), 2, 3), (("T4", "T4", "T4"), 1, 2)],
)
def test_machines_of_other_names_stand_in_for_each_other(gpus, survive, count):
    both = shelf(profile("a", T4, 0.005, 0.001), profile("a", V100, 0.002, 0.0005))
    own = tuple(OwnMachine(name=f"box-{i}", gpu=gpu, price=0.5) for i, gpu in enumerate(gpus))
    plan = planned(asked(40, survive=survive, buy=BuySpec(own=own)), both)
    assert plan.recommendation.feasible
    assert [(one.count, one.spares) for one in plan.recommendation.instances] == [(1, 0)] * count
    assert {kind.gpu: kind.gpu_count for kind in plan.by_gpu} == ({"T4": count} if len(set(gpus)) == 1 else {})
    too_few = planned(asked(40, survive=len(gpus), buy=BuySpec(own=own)), both)
    assert too_few.recommendation.unready


def test_a_rented_machine_stands_in_for_ones_own_where_that_costs_less_than_renting_all():
    """One box at $0.10 beside one machine at $0.526: either carries all. Two rented ones cost $1.052."""
    own = (OwnMachine(name="box", gpu="T4", price=0.1),)
    aws = BuySpec(own=own, providers=("aws",), gpus=("T4",), instances=("g4dn.xlarge",), regions=("us-east-1",))
    best = planned(asked(40, survive=1, buy=aws), LIBRARY).recommendation
    assert best.feasible
    assert sorted((one.instance, one.count, one.spares) for one in best.instances) == [
        ("box", 1, 0),
        ("g4dn.xlarge", 1, 0),
    ]
    assert best.cost_usd_per_hour == pytest.approx(0.626)


def test_no_machine_is_tried_beside_a_fleet_that_costs_more_than_one_with_a_stand_in_found_before():
    """Of three boxes two do for $0.60: the third with the first, at $0.80, costs less than two rented ones."""
    boxes = tuple(offer(T4, usd, name=f"box-{usd}", count_max=1) for usd in (0.1, 0.5, 0.7))
    q = question(asked(40, survive=1), (*boxes, offer(T4, 2.0)), LIBRARY)
    search = FleetSearch(q, silent)
    tried = []

    def anew(offered, fleet):
        tried.append((sum(fleet), cost_usd_per_hour(offered, fleet)))
        return search.anew(offered, fleet)

    found = replace(search.spares, anew=anew).ready([search.best(q.program(), Objective.COST)])[0]
    assert found.cost_usd_per_hour == pytest.approx(0.6)
    assert max(usd for machines, usd in tried if machines > 1) == pytest.approx(0.6)


def test_without_the_rule_nothing_is_spared():
    plan = planned(asked(190, buy=BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.5, count=8),))), LIBRARY)
    assert [one.spares for one in plan.recommendation.instances] == [0]


def test_kinds_of_gpu_stand_in_the_order_of_their_prices_with_spares():
    """Two T4 cost $2.00 and with a spare $3.00, one V100 $1.80 and $3.60: with less to spend, none."""
    both = shelf(profile("a", T4, 0.005, 0.001), profile("a", V100, 0.0005, 0.0001))
    own = OwnMachine(name="box", gpu="T4", price=1.0, count=8), OwnMachine(name="large", gpu="V100", price=1.8, count=8)
    spared, limited = (
        planned(asked(100, survive=1, buy=BuySpec(own=own, max_cost=most)), both) for most in (None, 3.2)
    )
    assert [(kind.gpu, kind.cost_usd_per_hour) for kind in spared.by_gpu] == [("T4", 3.0), ("V100", 3.6)]
    (left,) = limited.by_gpu_left_out
    assert (left.gpu, left.why.subjects, left.gpus_tried) == ("V100", ("buy.max_cost",), ())
    assert left.usd_per_hour_at_least == pytest.approx(3.6)


def test_the_same_machines_are_priced_at_every_kind_of_price():
    """A spot machine of two costs half of two, not of one."""
    aws = BuySpec(providers=("aws",), gpus=("T4",), instances=("g4dn.xlarge",), regions=("us-east-1",))
    alone, spared = (planned(asked(40, survive=n, buy=aws), LIBRARY).by_gpu[0] for n in (0, 1))
    assert len(alone.usd_per_hour_by_price) > 1
    assert spared.usd_per_hour_by_price == pytest.approx(
        {kind: 2 * usd for kind, usd in alone.usd_per_hour_by_price.items()}
    )
    assert spared.usd_per_hour_by_price["on-demand"] == pytest.approx(spared.cost_usd_per_hour)


def test_ways_left_are_all_fleets_with_one_machine_less():
    assert sorted(ways_left((2, 1), 1)) == [(1, 1), (2, 0)]
    assert sorted(ways_left((2, 1), 2)) == [(0, 1), (1, 0)]
    assert ways_left((1, 0), 1) == [(0, 0)]
    assert covers((2, 1), (2, 0))
    assert not covers((1, 1), (2, 0))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("1.5 machines", "must be a whole number of machines, got 1.5 machines. Write e.g. `1 machine`."),
        ("4 machines", "must be at most 3 machines, got 4 machines."),
        ("1 box", "unknown unit `box` for a number of machines."),
        (-1, "must not be negative, got -1."),
    ],
)
def test_numbers_of_machines_that_cannot_be_are_refused(written, said):
    with pytest.raises(ValueError, match="machine") as error:
        whole_machines(written)
    assert str(error.value).startswith(said)


def test_a_number_of_machines_is_read_with_its_unit_or_without():
    assert [whole_machines(written) for written in ("1 machine", "2 machines", 0)] == [1, 2, 0]
