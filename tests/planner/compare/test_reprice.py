"""A plan at other prices: sums that anyone can check, nothing simulated, and nothing believed that was not replayed."""

import json
import re
from dataclasses import replace
from math import isnan

import pytest
from support.answers import BEST, DEARER, ONE_GPU, PLAN
from typer.testing import CliRunner

from planner import cli
from planner.catalog.catalog import CatalogError
from planner.catalog.files import SHIPPED
from planner.catalog.price_table import COLUMNS
from planner.compare.price_list import RepriceError, read_prices
from planner.compare.report import reprice_notes
from planner.compare.reprice import reprice
from planner.io.store import read_plan, write_answer
from planner.model.candidate import Candidate, MachineType, Memory
from planner.model.choices import PriceKind
from planner.model.plan import (
    NOTHING_TRIED,
    Bottleneck,
    KindLeftOut,
    Measurement,
    OfOneKind,
    PlanWarning,
    Searched,
)
from planner.model.statement import Code, Statement
from planner.show.kept import render
from planner.show.text.plan import or_more
from planner.show.text.reasons import stale_prices
from planner.units.writing import Format, Screen
from planner.words.candidates import candidate_name
from simulator.world.profile import Evidence

NOW = "2026-11-22T08:00:00+00:00"
PRICES = """sources: {{quote: {{title: A quote, as_of: {as_of}}}}}
instances:
  - {{provider: azure, region: eastus, instance: NC6s_v3, gpu: V100, gpu_count: 1, status: {status},
     prices: {{on-demand: {{usd_per_hour: {azure}, source: quote}}, spot: {{usd_per_hour: 1.1, source: quote}}}}}}
  - {{provider: aws, region: us-east-1, instance: g5.xlarge, gpu: A10G, gpu_count: 1,
     prices: {{on-demand: {{usd_per_hour: {aws}, source: quote}}}}}}
"""
ASKED = """models: [{{name: a, slo: {{latency: 1 s}}}}]
streams: [{{model: a, rate: 1 fps}}]
buy: {{{buy}}}
"""
AZURE = replace(BEST.instances[0], price_kind=PriceKind.ON_DEMAND)
AWS = replace(AZURE, provider="aws", region="us-east-1", instance="g5.xlarge", gpu="A10G", usd_per_hour=4.0, count=3)
RIVAL = replace(DEARER, instances=(AWS,), cost_usd_per_hour=12.0)
THREE = replace(DEARER, instances=(replace(AZURE, count=3),))
RENTED = replace(PLAN, recommendation=replace(BEST, instances=(AZURE,)), alternatives=(THREE, RIVAL))


def prices(folder, azure=2.5, aws=4.0, as_of="2026-11-01", status="active", kind=None):
    path = folder / "p.yaml"
    path.write_text(PRICES.format(azure=azure, aws=aws, as_of=as_of, status=status), encoding="utf-8")
    return read_prices(path, kind)


def codes(plan):
    return {warning.what.code for warning in plan.warnings}


def test_costs_are_counts_times_prices_and_the_rest_stays(tmp_path):
    new, found = reprice(RENTED, "plan.json", prices(tmp_path), NOW)
    best = new.recommendation
    assert best.cost_usd_per_hour == pytest.approx(2 * 2.5)
    assert best.cost_usd_per_month == pytest.approx(2 * 2.5 * 730)
    assert [a.cost_usd_per_hour for a in new.alternatives] == pytest.approx([7.5, 12.0])
    assert (best.models, best.gpus, best.candidate) == (BEST.models, BEST.gpus, BEST.candidate)
    assert new.prices_as_of == best.instances[0].price_as_of == "2026-11-01"
    assert new.created_at == NOW
    assert not stale_prices(new)
    assert Statement(code=Code.REPRICED, subjects=(PLAN.created_at, NOW, "p.yaml")) in new.assumptions
    assert (found.old_usd_per_hour, found.new_usd_per_hour, found.cheaper) == (6.12, 5.0, None)


def test_rejected_fleets_get_their_new_cost(tmp_path):
    offer = MachineType(provider="azure", region="eastus", instance="NC12s_v3", gpu="V100", gpu_count=2)
    dominated = replace(ONE_GPU, bottleneck=Bottleneck.COST, subject=offer)
    one, two = (replace(AZURE.machines, count=count) for count in (1, 2))
    elsewhere = replace(ONE_GPU, subject=Candidate(machines=(replace(one, region="westus"),)))
    both = replace(ONE_GPU, subject=Candidate(machines=(two, replace(AWS.machines, count=1)), memory=Memory.SWAPPED))
    plan = replace(RENTED, rejections=(ONE_GPU, dominated, elsewhere, both))
    new, found = reprice(plan, "plan.json", prices(tmp_path), NOW)
    assert [no.cost_usd_per_hour for no in new.rejections] == [2.5, None, pytest.approx(9.0)]
    assert [f.role for f in found.fleets] == ["recommended", "alternative", "alternative", "rejected", "rejected"]


def test_an_alternative_that_is_cheaper_now_is_said_and_not_taken(tmp_path):
    new, found = reprice(RENTED, "plan.json", prices(tmp_path, aws=1.0), NOW)
    assert found.cheaper == candidate_name(RIVAL.candidate)
    assert new.recommendation.candidate == BEST.candidate
    place = next(i for i, one in enumerate(new.alternatives, 1) if one.candidate == RIVAL.candidate)
    assert Code.CHEAPER_NOW in codes(new)
    assert place in new.pareto


def test_a_plan_that_costs_more_than_its_scenario_allows_says_so(tmp_path):
    allowed = replace(RENTED, scenario_text=ASKED.format(buy="max_cost: $6/h"), scenario_overrides=())
    dear, found = reprice(allowed, "plan.json", prices(tmp_path, azure=3.5), NOW)
    (warning,) = [one for one in dear.warnings if one.what.code is Code.OVER_MAX_COST]
    assert warning.what.figures == {"cost_usd_per_hour": 7.0, "cost_max_usd_per_hour": 6.0}
    assert warning in found.warnings
    assert "It costs $7.00/h now, and `buy.max_cost` allows $6.00/h" in " ".join(reprice_notes(found))
    overridden = replace(allowed, scenario_overrides=("buy.max_cost=$7/h",))
    assert Code.OVER_MAX_COST not in codes(reprice(overridden, "plan.json", prices(tmp_path, azure=3.5), NOW)[0])


def test_what_is_said_of_prices_is_not_carried_on_to_the_next(tmp_path):
    allowed = replace(RENTED, scenario_text=ASKED.format(buy="max_cost: $6/h, retired: true"), scenario_overrides=())
    dear, _ = reprice(allowed, "plan.json", prices(tmp_path, azure=3.5, aws=1.0, status="retired"), NOW)
    of_prices = {Code.OVER_MAX_COST, Code.CHEAPER_NOW, Code.RETIRED}
    assert of_prices <= codes(dear)
    again, _ = reprice(dear, "plan.json", prices(tmp_path, azure=2.5), NOW)
    assert not of_prices & codes(again)


def test_nothing_is_said_of_a_bound(tmp_path):
    bounded = replace(RENTED, recommendation=replace(RENTED.recommendation, lower_bound_full_usd_per_hour=1.0))
    new, _ = reprice(bounded, "plan.json", prices(tmp_path), NOW)
    write_answer(new, tmp_path / "new.json")
    kept = json.loads((tmp_path / "new.json").read_text())["recommendation"]
    assert kept["lower_bound_usd_per_hour"] is kept["lower_bound_full_usd_per_hour"] is None
    text = render(read_plan(tmp_path / "new.json"), Format.TABLE, Screen())
    assert "nan" not in text.lower()


def of_kind(machines, cost, searched=Searched.SCREENED):
    """One kind of GPU alone, as a plan has it at its own prices."""
    candidate = Candidate(machines=machines, memory=Memory.RESIDENT)
    return OfOneKind(
        gpu=machines[0].gpu,
        candidate=candidate,
        gpu_count=candidate.gpu_count,
        cost_usd_per_hour=cost,
        usd_per_hour_by_price={"on-demand": cost},
        prices_as_of="2026-07-20",
        prices_as_of_by_price={"on-demand": "2026-07-20"},
        utilization=0.5,
        power_w=100.0,
        slo_held=None,
        evidence=Evidence.MEASURED,
        predicted=False,
        searched=searched,
    )


def kinds_of(recommendation=BEST, **policies):
    """A plan with three kinds of GPU side by side, of which the file of prices has two, and two that were left out."""
    unsold = replace(AWS.machines, instance="g6.xlarge", gpu="L4", count=4)
    dear = KindLeftOut(gpu="B200", why=Statement(code=Code.KIND_TOO_DEAR), usd_per_hour_at_least=113.9)
    unable = KindLeftOut(gpu="T4", why=Statement(code=Code.NO_FLEET_OF_KIND), usd_per_hour_at_least=5.0)
    return replace(
        RENTED,
        policies=replace(PLAN.policies, **policies),
        by_gpu=(
            of_kind((AZURE.machines,), 6.12, Searched.CONFIRMED),
            of_kind((replace(AWS.machines, count=5),), 20.0),
            of_kind((unsold,), 30.0),
        ),
        by_gpu_left_out=(dear, unable),
    )


def test_kinds_of_gpu_side_by_side_have_the_new_prices(tmp_path):
    new, _ = reprice(kinds_of(), "plan.json", prices(tmp_path, aws=0.5), NOW)
    a10g, v100 = new.by_gpu
    assert (a10g.gpu, v100.gpu) == ("A10G", "V100")
    assert v100.cost_usd_per_hour == new.recommendation.cost_usd_per_hour == 2 * 2.5
    assert v100.usd_per_hour_by_price == pytest.approx({"on-demand": 5.0, "spot": 2.2})
    assert (a10g.cost_usd_per_hour, a10g.usd_per_hour_by_price) == (2.5, {"on-demand": 2.5})
    dates = {*a10g.prices_as_of_by_price.values(), *v100.prices_as_of_by_price.values()}
    assert dates == {a10g.prices_as_of, v100.prices_as_of} == {"2026-11-01"}
    left = {one.gpu: (one.why.code, one.usd_per_hour_at_least) for one in new.by_gpu_left_out}
    assert left == {
        "T4": (Code.NO_FLEET_OF_KIND, None),
        "L4": (Code.NOT_REPRICED, None),
        "B200": (Code.NOT_REPRICED, None),
    }
    text = render(new, Format.MD, Screen())
    assert "$6.12/h" not in text
    assert "$20.00" not in text


def test_spares_of_a_kind_alone_are_counted_or_it_has_no_price(tmp_path):
    spare = replace(AZURE, spares=1)
    plan = replace(kinds_of(survive=1), recommendation=replace(BEST, instances=(spare,)))
    new, _ = reprice(plan, "plan.json", prices(tmp_path, aws=0.5), NOW)
    assert [(one.gpu, one.cost_usd_per_hour) for one in new.by_gpu] == [("V100", 3 * 2.5)]
    assert {one.gpu for one in new.by_gpu_left_out} == {"T4", "A10G", "L4", "B200"}


def test_what_a_measurement_costs_and_brings_is_not_of_the_old_prices(tmp_path):
    one = Measurement(
        model="a",
        gpu=BEST.gpus[0].kind,
        why=Statement(code=Code.LEAST_ROOM, subjects=("predicted",)),
        command="planner calibrate",
        minutes=10.0,
        usd=12.34,
        worth_usd_per_month=56.78,
    )
    new, _ = reprice(replace(RENTED, measure_next=(one,)), "plan.json", prices(tmp_path), NOW)
    (kept,) = new.measure_next
    assert kept.command == one.command
    assert isnan(kept.usd)
    assert isnan(kept.worth_usd_per_month)


def test_another_kind_of_price(tmp_path):
    new, _ = reprice(replace(RENTED, alternatives=()), "plan.json", prices(tmp_path, kind=PriceKind.SPOT), NOW)
    assert new.recommendation.cost_usd_per_hour == pytest.approx(2.2)
    assert new.recommendation.instances[0].price_kind is PriceKind.SPOT


def test_spot_machines_are_warned_of_as_in_a_plan(tmp_path):
    spot, _ = reprice(replace(RENTED, alternatives=()), "plan.json", prices(tmp_path, kind=PriceKind.SPOT), NOW)
    (said,) = [warning for warning in spot.warnings if warning.what.code is Code.SPOT]
    assert said.what.subjects == ("NC6s_v3",)
    again, _ = reprice(spot, "plan.json", prices(tmp_path, kind=PriceKind.SPOT), NOW)
    assert [warning for warning in again.warnings if warning.what.code is Code.SPOT] == [said]
    back, _ = reprice(spot, "plan.json", prices(tmp_path, kind=PriceKind.ON_DEMAND), NOW)
    assert Code.SPOT not in codes(back)


def test_the_same_gpus_elsewhere_need_no_replay(tmp_path):
    cheap = prices(tmp_path)
    text = cheap.path.read_text(encoding="utf-8")
    text += """  - {provider: gcp, region: us-central1, instance: n1-v100, gpu: V100, gpu_count: 1,
     prices: {on-demand: {usd_per_hour: 1.5, source: quote}}}
  - {provider: gcp, region: us-west1, instance: n1-v100, gpu: V100, gpu_count: 1, status: retired,
     prices: {on-demand: {usd_per_hour: 0.5, source: quote}}}
"""
    cheap.path.write_text(text, encoding="utf-8")
    new, found = reprice(RENTED, "plan.json", read_prices(cheap.path), NOW)
    moved = [fleet for fleet in found.fleets if fleet.role == "same GPUs elsewhere"]
    assert [fleet.new_usd_per_hour for fleet in moved] == pytest.approx([3.0, 4.5])
    assert found.cheaper == "2 x n1-v100 (V100, gcp us-central1), resident"
    assert found.cheaper in [one.what.subjects[0] for one in new.warnings if one.what.code is Code.CHEAPER_NOW]
    assert new.recommendation.instances[0].provider == "azure"  # what its figures were checked for
    azure = replace(RENTED, scenario_text=ASKED.format(buy="providers: [azure]"))
    assert reprice(azure, "plan.json", read_prices(cheap.path), NOW)[1].cheaper is None


def test_an_unclear_price_is_offered_only_to_those_who_name_the_instance(tmp_path):
    cheap = prices(tmp_path, aws=3.0)
    text = cheap.path.read_text(encoding="utf-8")
    text += """  - {provider: gcp, region: any, instance: from-V100, gpu: V100, gpu_count: 1, status: unclear,
     prices: {on-demand: {usd_per_hour: 0.5, source: quote}}}
"""
    cheap.path.write_text(text, encoding="utf-8")
    listed = read_prices(cheap.path)
    assert reprice(RENTED, "plan.json", listed, NOW)[1].cheaper is None
    named = replace(RENTED, scenario_text=ASKED.format(buy="instances: [NC6s_v3, from-V100]"))
    assert reprice(named, "plan.json", listed, NOW)[1].cheaper == "2 x from-V100 (V100, gcp any), resident"
    with pytest.raises(RepriceError, match="NC6s_v3, azure eastus: its price is `unclear` there"):
        reprice(RENTED, "plan.json", prices(tmp_path, status="unclear"), NOW)


def test_what_is_less_sure_is_never_said_to_meet_every_slo(tmp_path):
    fewer = replace(RIVAL, searched=Searched.RANKED, replications=BEST.replications - 1)
    ranked = replace(RENTED, alternatives=(THREE, fewer))
    new, found = reprice(ranked, "plan.json", prices(tmp_path, aws=1.0, as_of="2025-11-27"), NOW)
    assert (found.cheaper, found.cheaper_ranked) == (None, candidate_name(RIVAL.candidate))
    assert Code.CHEAPER_NOW not in codes(new)
    assert {warning.what.subjects[0] for warning in found.warnings} == {"NC6s_v3", "g5.xlarge"}
    lines = "\n".join(reprice_notes(found))
    assert "meets every SLO" not in lines
    assert "$3.00/h (oldest price of 2025-11-27, 360 days old)" in lines
    refused = replace(ONE_GPU, subject=replace(RIVAL.candidate, machines=(replace(AWS.machines, provider="gcp"),)))
    _, without = reprice(replace(ranked, rejections=(refused,)), "plan.json", prices(tmp_path, aws=1.0), NOW)
    assert without.cheaper_ranked is None


def test_what_is_ranked_as_surely_as_the_answer_counts_as_in_its_tables(tmp_path):
    as_sure = replace(RIVAL, searched=Searched.RANKED)
    assert not or_more(as_sure, RENTED.recommendation)
    ranked = replace(RENTED, alternatives=(THREE, as_sure))
    new, found = reprice(ranked, "plan.json", prices(tmp_path, aws=1.0), NOW)
    assert (found.cheaper, found.cheaper_ranked) == (candidate_name(RIVAL.candidate), None)
    assert Code.CHEAPER_NOW in codes(new)
    assert [fleet.role for fleet in found.fleets][:3] == ["recommended", "alternative", "alternative"]


def test_machines_that_move_to_one_type_are_counted_together(tmp_path):
    both = replace(BEST, instances=(replace(AZURE, count=1), replace(AZURE, region="westus", count=1)))
    cheap = prices(tmp_path)
    text = cheap.path.read_text(encoding="utf-8")
    text += """  - {provider: azure, region: westus, instance: NC6s_v3, gpu: V100, gpu_count: 1,
     prices: {on-demand: {usd_per_hour: 3, source: quote}}}
"""
    cheap.path.write_text(text, encoding="utf-8")
    plan = replace(RENTED, recommendation=both, alternatives=())
    assert reprice(plan, "plan.json", read_prices(cheap.path), NOW)[1].cheaper == (
        "2 x NC6s_v3 (V100, azure eastus), resident"
    )


def test_what_is_no_longer_sold_is_refused_but_to_those_who_ask(tmp_path):
    retired = prices(tmp_path, status="retired")
    with pytest.raises(RepriceError, match="NC6s_v3, azure eastus: is no longer sold"):
        reprice(RENTED, "plan.json", retired, NOW)
    asked = replace(RENTED, scenario_text=ASKED.format(buy="retired: true"))
    new, _ = reprice(asked, "plan.json", retired, NOW)
    assert Statement(code=Code.RETIRED, subjects=("NC6s_v3",)) in [warning.what for warning in new.warnings]


def test_stale_prices_are_warned_of_and_old_ones_go(tmp_path):
    stale = PlanWarning(what=Statement(code=Code.STALE_PRICE, subjects=("NC6s_v3", "2026-06-18")))
    before = replace(RENTED, warnings=(stale,))
    new, _ = reprice(before, "plan.json", prices(tmp_path), NOW)
    assert new.warnings == ()
    again, found = reprice(before, "plan.json", prices(tmp_path, as_of="2026-01-01"), NOW)
    assert [warning.what.subjects for warning in again.warnings] == [("NC6s_v3", "2026-01-01")]
    assert stale_prices(again)
    assert found.warnings == again.warnings


def test_machines_of_ones_own_keep_their_price(tmp_path):
    own = replace(AZURE, provider="own", region="", price_as_of="", price_kind=None, usd_per_hour=0.3)
    new, _ = reprice(
        replace(RENTED, recommendation=replace(BEST, instances=(own,))), "plan.json", prices(tmp_path), NOW
    )
    assert new.recommendation.cost_usd_per_hour == pytest.approx(0.6)


def without(plan, **changes):
    return replace(plan, recommendation=replace(BEST, instances=(replace(AZURE, **changes),)), alternatives=())


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (without(RENTED, instance="NC6_v3"), "p.yaml: has no price of NC6_v3, azure eastus. Did you mean `NC6s_v3`?"),
        (without(RENTED, region="westus"), "p.yaml: has no price of NC6s_v3, azure westus."),
        (without(RENTED, gpu_count=2), "has 1 x V100, and the plan 2 x V100. Mend `gpu` and `gpu_count` there."),
        (without(RENTED, price_kind=PriceKind.RESERVED_1Y), "has no reserved-1y price of NC6s_v3, azure eastus, only"),
        (without(RENTED, price_kind=None), "plan.json: does not say which kind of price it took for NC6s_v3"),
        (replace(PLAN, recommendation=NOTHING_TRIED), "plan.json: recommends nothing, so nothing has a price."),
    ],
)
def test_what_has_no_price_is_named_with_the_remedy(tmp_path, plan, said):
    with pytest.raises(RepriceError) as error:
        reprice(plan, "plan.json", prices(tmp_path), NOW)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_alternative_without_a_price_is_left_out(tmp_path):
    unknown = replace(RIVAL, instances=(replace(AWS, instance="g9.xlarge"),))
    new, found = reprice(replace(RENTED, alternatives=(THREE, unknown)), "plan.json", prices(tmp_path), NOW)
    assert [a.candidate for a in new.alternatives] == [THREE.candidate]
    left_out = candidate_name(unknown.candidate)
    assert (found.rivals, found.unpriced) == (1, (left_out,))


def test_files_of_prices_are_checked_like_a_catalog(tmp_path):
    assert {i.name for i in read_prices(SHIPPED).instances} >= {"NC6s_v3", "g4dn.xlarge"}
    with pytest.raises(CatalogError, match="no such file"):
        read_prices(tmp_path / "none.yaml")
    with pytest.raises(CatalogError, match=r"holds neither prices\.yaml nor prices\.csv"):
        read_prices(tmp_path)
    (tmp_path / "bad.yaml").write_text("sources: {}\ninstances: [{provider: x}]\n")
    with pytest.raises(CatalogError, match=r"bad\.yaml:2:13: instances\[0\]"):
        read_prices(tmp_path / "bad.yaml")


def test_prices_that_were_imported_are_read_by_folder_and_by_file(tmp_path):
    """A folder as `planner prices import` writes it; of a kind that no catalog has, for a plan names its own."""
    rows = [",".join(COLUMNS), "azure,eastus,NC6s_v3,V9,1,,active,on-demand,2.5,2.5,2026-01-01,quote,"]
    (tmp_path / "prices.csv").write_text("\n".join(rows), encoding="utf-8")
    for place in (tmp_path, tmp_path / "prices.csv"):
        (found,) = read_prices(place).instances
        assert (found.gpu, found.prices[PriceKind.ON_DEMAND].usd_per_hour) == ("V9", 2.5)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"schema": "planner.plan/v3", "x": {}}', "an answer (`planner.plan/v3`)"),
        ("models: []\nstreams: []\n", "a scenario"),
    ],
)
def test_another_kind_of_file_is_named_in_one_line(tmp_path, text, what):
    (tmp_path / "p").write_text(text)
    with pytest.raises(CatalogError) as error:
        read_prices(tmp_path / "p")
    assert str(error.value) == f"{tmp_path / 'p'}: is {what}. Name a file like the shipped prices.yaml."


def test_a_kind_of_price_that_was_just_named_is_not_asked_for(tmp_path):
    three_years = replace(prices(tmp_path), kind=PriceKind.RESERVED_3Y)
    with pytest.raises(
        RepriceError, match=r"has no reserved-3y price of .*, only .*\. Add it, or leave --price out\.$"
    ):
        reprice(RENTED, "plan.json", three_years, NOW)


def test_a_price_in_the_other_file_of_the_folder_is_said_to_be_there(tmp_path):
    """A folder counts as a whole; a file that is named counts alone."""
    alone = prices(tmp_path)
    three_years = replace(alone, kind=PriceKind.RESERVED_3Y)
    place = replace(alone, path=alone.path.rename(tmp_path / "prices.yaml"))
    rented = RENTED.recommendation.instances[0]
    table = (
        "provider,region,instance,gpu,gpu_count,host_memory_gb,status,price_kind,usd_per_hour_low,usd_per_hour_high,"
    )
    row = (
        f"{rented.provider},{rented.region},{rented.instance},{rented.gpu},{rented.gpu_count},,active,reserved-3y,1,1,"
    )
    (tmp_path / "prices.csv").write_text(f"{table}as_of,source,note\n{row}2026-11-02,made up,\n", encoding="utf-8")
    with pytest.raises(RepriceError, match=f"Its folder has one: name `{re.escape(str(tmp_path))}`"):
        reprice(RENTED, "plan.json", replace(three_years, path=place.path), NOW)
    other = replace(three_years, path=place.path.rename(tmp_path / "other.yaml"))
    with pytest.raises(RepriceError, match=r"only on-demand, spot\. Add it"):
        reprice(RENTED, "plan.json", other, NOW)


def test_the_command_writes_a_plan_that_other_commands_read(tmp_path):
    write_answer(RENTED, tmp_path / "plan.json")
    prices(tmp_path)
    words = ["reprice", tmp_path / "plan.json", "--prices", tmp_path / "p.yaml"]
    done, quiet = (
        CliRunner().invoke(cli.app, [*map(str, words), "-o", str(tmp_path / "new.json"), *more])
        for more in ((), ("--quiet",))
    )
    assert (done.exit_code, quiet.exit_code) == (0, 0)
    assert done.stderr.startswith("Plan kept in")
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")
    assert read_plan(tmp_path / "new.json").recommendation.cost_usd_per_hour == 5
    assert json.loads(CliRunner().invoke(cli.app, [*map(str, words), "--format", "json"]).stdout)["cheaper"] is None
    assert CliRunner().invoke(cli.app, [*map(str, words), "--format", "md"]).stdout.count("**2 x NC6s_v3") == 1
    assert CliRunner().invoke(cli.app, ["explain", str(tmp_path / "new.json")]).exit_code == 0
