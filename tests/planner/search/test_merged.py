"""Swap, merge or buy: plans that weigh the ways, what they say of it, and where the ways break even."""

import json
import shlex
from datetime import date
from pathlib import Path

import pytest
from support.commands import planner
from support.paths import SCENARIOS
from support.shown import WEIGHED_IN_TEST_MERGED

from calibrate.joint.curve import CurvePoint, SharedCurve, curve_document
from calibrate.library.lookup import find_profiles
from planner.catalog.catalog import load_catalog
from planner.io.load import load_scenario
from planner.io.store import read_plan, to_json, write_answer
from planner.model.candidate import Memory
from planner.model.parts.merging import Merging
from planner.model.plan import Plan, WayOfServing
from planner.model.statement import Code
from planner.placing.merging.layers import MergeError, layers_of
from planner.questions.merging.breakeven import Breakeven, at_load, breakeven
from planner.search.plan import plan
from planner.search.question import NothingToPlanError
from planner.search.simulation import PlanMisfitError, simulate_named, simulate_plan
from planner.show.document import Items, Table
from planner.show.kept import document_of
from planner.show.terminal import terminal
from planner.show.text.merging import breakeven_document, breakeven_json
from planner.units.writing import Screen
from simulator.world.profile import Evidence
from simulator.world.sharing import groups

CATALOG = load_catalog()
LIBRARY = find_profiles((), CATALOG.gpus)
DAY = date(2026, 8, 1)
QUICK = ("replications=2", "horizon=8", "confidence=0.5")


def answer(name: str, *overrides: str) -> Plan:
    loaded = load_scenario(SCENARIOS / f"{name}.yaml", (*QUICK, *overrides))
    return plan(loaded, CATALOG, LIBRARY, created_at="2026-08-01T12:00:00+00:00")


@pytest.fixture(scope="module")
def city() -> Plan:
    """Of 15 models x 20 fps x 2 replays of 4 s, the share processed is known to 0.6 % (95 %: 1.2 %)."""
    return answer("city", "horizon=4")


def by(found: Plan, merging: Merging, more: int = 0) -> WayOfServing:
    return next(w for w in found.merging if w.merging is merging and w.gpus_added == more)


def test_a_city_with_much_in_common_merges(city: Plan) -> None:
    chosen = next(way for way in city.merging if way.chosen)
    swapped, bought = by(city, Merging.NONE), by(city, Merging.NONE, 1)
    assert city.recommendation.feasible
    assert chosen.merging in (Merging.STEM, Merging.LAYERS)
    assert (swapped.feasible, bought.feasible) == (False, True)
    assert swapped.processed_fraction < 0.95 < chosen.processed_fraction
    assert bought.cost_usd_per_hour == pytest.approx(2 * chosen.cost_usd_per_hour)
    assert chosen.total_usd_per_month < bought.total_usd_per_month
    assert city.recommendation.candidate.merging is chosen.merging


def test_memory_shrinks_as_more_is_shared(city: Plan) -> None:
    none, stem, layers = (by(city, m).weights_bytes for m in (Merging.NONE, Merging.STEM, Merging.LAYERS))
    assert none > stem > layers
    for way in city.merging:
        assert way.weights_bytes == pytest.approx(none - way.saved_bytes, abs=20)
        assert [x.saved_bytes for x in way.live] == sorted(x.saved_bytes for x in way.live)
        assert way.live == () or way.live[-1].saved_bytes == way.saved_bytes


def test_merged_models_lose_accuracy_and_say_on_what_that_rests(city: Plan) -> None:
    assert all(
        0.95 <= m.accuracy.lost_is_wrong <= 0.97 for m in city.recommendation.models if m.slo_attainment.mean == 1
    )
    assert {m.evidence for m in city.recommendation.models} == {Evidence.ASSUMED}
    assert Code.ACCURACY_ASSUMED in {w.what.code for w in city.warnings}
    assert Code.OF_MERGING in {one.code for one in city.assumptions}


def test_the_document_has_a_row_for_each_way_and_a_reason(city: Plan) -> None:
    (section,) = (one for one in document_of(city).sections if one.id == "merging")
    why, table, _ = section.blocks
    assert isinstance(why, Items)
    assert isinstance(table, Table)
    assert len(why.texts) == len(city.merging) + 1  # the chosen way, and when its saving is live
    assert {len(column.cells) for column in table.columns} == {len(city.merging)}


def test_a_plan_with_ways_is_kept(city: Plan, tmp_path: Path) -> None:
    write_answer(city, tmp_path / "plan.json")
    assert json.loads(to_json(read_plan(tmp_path / "plan.json"))) == json.loads(to_json(city))


def test_a_city_with_less_in_common_takes_turns() -> None:
    found = answer("city-low", "horizon=3")
    chosen = next(way for way in found.merging if way.chosen)
    assert (chosen.merging, chosen.candidate.memory, chosen.gpus_added) == (Merging.NONE, Memory.SWAPPED, 0)
    assert all(w.total_usd_per_month > chosen.total_usd_per_month for w in found.merging if not w.chosen)
    saved = {w.merging: w.saved_bytes / w.weights_bytes for w in found.merging}
    assert saved[Merging.LAYERS] < 0.1


def test_the_edge_box_need_not_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As README asks it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(SCENARIOS)
    code, out, err = planner(*shlex.split(WEIGHED_IN_TEST_MERGED)[1:])
    assert (code, err) == (0, "")
    assert out
    found = read_plan(tmp_path / "shop.json")
    chosen = next(way for way in found.merging if way.chosen)
    assert (chosen.candidate.merging, chosen.candidate.memory) == (Merging.NONE, Memory.SWAPPED)
    assert {w.merging for w in found.merging} == {Merging.NONE, Merging.STEM, Merging.LAYERS}
    bought = by(found, Merging.NONE, 1)
    assert bought.feasible
    assert bought.cost_usd_per_hour == pytest.approx(0.60)
    assert any("hygiene, returns: layers are not known" in one.text for one in found.assumptions)
    assert Code.TRAINING_COST_UNKNOWN not in {w.what.code for w in found.warnings}  # for nothing is trained


def small(tmp_path: Path, text: str = "") -> Path:
    """Three networks in the memory of two."""
    path = tmp_path / "small.yaml"
    models = "".join(
        f"  - {{name: {m}, profile: resnet50_v2, layers: resnet50, slo: {{latency: 100 ms, attainment: 95 %}}}}\n"
        for m in "abc"
    )
    streams = "".join(f"  - {{model: {m}, count: 2, rate: 20 fps}}\n" for m in "abc")
    box = "{name: box, gpu: V100, memory: 1.05 GB, price: $1/h, count: 3}"
    path.write_text(f"models:\n{models}streams:\n{streams}buy: {{own: [{box}]}}\nreplications: 2\nhorizon: 6\n{text}")
    return path


def test_what_was_measured_counts_before_what_is_assumed(tmp_path: Path) -> None:
    """A curve with one point of which c bears nothing: only a and b share."""
    largest = groups({m: layers_of("resnet50") for m in "ab"})[0]
    curve = SharedCurve(
        dict.fromkeys("abc", 102_000_000), (CurvePoint((largest,), {"a": 0.99, "b": 0.97, "c": 1.0}, 9.0),)
    )
    (tmp_path / "curve.json").write_text(json.dumps(curve_document(curve, dict.fromkeys("abc", 0.9))))
    loaded = load_scenario(small(tmp_path, "merging: layers\nsharing: {curve: curve.json}\n"))
    found = plan(loaded, CATALOG, LIBRARY, created_at="2026-08-01T12:00:00+00:00")
    way = by(found, Merging.LAYERS)
    assert (way.saved_bytes, way.merged_accuracy, way.evidence) == (largest.layer_bytes, 0.97, Evidence.MEASURED)


@pytest.mark.parametrize("merging", ["stem", "layers", "auto"])
def test_gpus_that_one_names_merge_too(tmp_path: Path, merging: str) -> None:
    """Three networks in the memory of two do not stand side by side; merged, they do, as the plan of that way says."""
    asked = small(tmp_path, f"merging: {merging}\nmemory: resident\n")
    alone = load_scenario(asked, ("merging=none",))
    with pytest.raises(NothingToPlanError):
        simulate_named(alone, CATALOG, LIBRARY, "V100", 1, DAY)
    run = simulate_named(load_scenario(asked), CATALOG, LIBRARY, "V100", 1, DAY)
    way = Merging.STEM if merging == "auto" else Merging(merging)
    found = plan(load_scenario(asked, (f"merging={way}",)), CATALOG, LIBRARY, created_at=str(DAY))
    best = found.recommendation
    assert (run.merging, len(best.gpus)) == (way, 1)
    assert run.gpus[0].peak_memory_bytes == best.gpus[0].peak_memory_bytes
    assert [(m.mode, m.evidence) for m in run.models] == [(m.mode, m.evidence) for m in best.models]
    again = simulate_plan(load_scenario(asked), CATALOG, LIBRARY, found, DAY)
    assert again.merging is way
    assert [m.p99_s for m in again.models] == [m.p99_s for m in best.models]
    assert {Code.OF_MERGING} <= {one.code for one in run.assumptions} & {one.code for one in again.assumptions}


@pytest.mark.parametrize(("memory", "searched"), [("16 GB", False), ("1.05 GB", True)])
def test_ways_are_searched_only_where_memory_may_be_short(tmp_path: Path, memory: str, searched: bool) -> None:
    """Sharing layers saves memory alone: where all models fit at once, each way needs the GPUs of those unmerged."""
    path = small(tmp_path, "merging: auto\nmemory: resident\n")
    text = path.read_text().replace("memory: 1.05 GB", f"memory: {memory}")
    if not searched:  # tight SLOs: two boxes are needed, which the lower bound does not know
        text = text.replace("count: 2, rate: 20 fps", "poisson: 150 rps").replace("latency: 100 ms", "latency: 15 ms")
        text = text.replace("buy: {", "buy: {evidence: measured, ")  # nothing is drawn
    path.write_text(text)
    seen: list[str] = []

    def found(*overrides: str) -> Plan:
        loaded = load_scenario(path, overrides)
        return plan(loaded, CATALOG, LIBRARY, created_at=str(DAY), progress=lambda text, _done: seen.append(text))

    both = found()
    said = any("sharing layers saves memory alone" in one.text for one in both.assumptions)
    assert (any(text.startswith("merged ") for text in seen), said) == (searched, not searched)
    assert {way.merging for way in both.merging} == {Merging.NONE, Merging.STEM, Merging.LAYERS}
    alone, stem = (found(f"merging={way}").recommendation for way in ("none", "stem"))
    assert (stem.gpu_count < alone.gpu_count) is searched
    assert both.recommendation.gpu_count == min(alone.gpu_count, stem.gpu_count)


SLO = "{latency: 100 ms, attainment: 95 %}"


def test_ways_are_searched_where_the_memory_of_machines_is_short(tmp_path: Path) -> None:
    """A machine keeps a copy of every weight: where its own memory holds one model merged and no three, merging saves
    machines too."""
    path = tmp_path / "host.yaml"
    path.write_text(
        "models:\n"
        + "".join(f"  - {{name: {name}, profile: resnet50_v2, layers: resnet50, slo: {SLO}}}\n" for name in "abc")
        + "streams:\n"
        + "".join(f"  - {{model: {name}, count: 2, rate: 20 fps}}\n" for name in "abc")
        + "buy: {own: [{name: box, gpu: V100, memory: 16 GB, host_memory: 220 MB, price: $1/h, count: 3}]}\n"
        "replications: 2\nhorizon: 6\nmemory: resident\n"
    )
    counts = {
        way: plan(
            load_scenario(path, (f"merging={way}",)), CATALOG, LIBRARY, created_at=str(DAY)
        ).recommendation.gpu_count
        for way in ("none", "stem", "auto")
    }
    assert counts["stem"] < counts["none"]
    assert counts["auto"] == counts["stem"]


def test_a_plan_of_another_way_is_refused(tmp_path: Path) -> None:
    found = plan(load_scenario(small(tmp_path)), CATALOG, LIBRARY, created_at=str(DAY))
    other = load_scenario(small(tmp_path), ("merging=layers",))
    with pytest.raises(PlanMisfitError, match="stores no layers once, where the scenario says `merging: layers`"):
        simulate_plan(other, CATALOG, LIBRARY, found, DAY)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("merging: layers\nsharing: {curve: none.json}\n", "none.json: no such file"),
        ("merging: layers\nsharing: {table: none.csv}\n", "none.csv: no such file"),
    ],
)
def test_files_that_are_missing(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        plan(load_scenario(small(tmp_path, text)), CATALOG, LIBRARY, created_at="2026-08-01T12:00:00+00:00")
    assert "\n" not in str(caught.value)


def test_one_source_of_accuracy_is_enough(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"sharing\.curve: cannot stand beside `table`"):
        load_scenario(small(tmp_path, "sharing: {curve: a, table: b}\n"))


@pytest.fixture(scope="module")
def crossing(tmp_path_factory: pytest.TempPathFactory) -> Breakeven:
    path = small(tmp_path_factory.mktemp("crossing"), "merging: auto\n")
    shares: list[float] = []
    found = breakeven(load_scenario(path), CATALOG, LIBRARY, (0.1, 1.0), (1, 3), lambda _, share: shares.append(share))
    assert shares == sorted(shares), "the bar begins anew"
    return found


def test_break_even_against_load_and_models(crossing: Breakeven) -> None:
    assert [row.at for row in crossing.by_load] == [0.1, 1.0]
    assert [row.at for row in crossing.by_models] == [1, 3]
    assert crossing.by_models[0].wins == "resident"  # one model has nothing to share
    costs = {cell.way: cell.usd_per_month for cell in crossing.by_load[1].cells}
    assert costs["merged layers"] <= costs["resident"]
    assert list(costs) == ["resident", "swapped", "merged stem", "merged layers"]
    quiet, busy = ({c.way: c.usd_per_month for c in row.cells} for row in crossing.by_load)
    assert all(busy[way] >= quiet[way] for way in busy)


def test_break_even_for_people_and_machines(crossing: Breakeven) -> None:
    tables = terminal(breakeven_document(crossing), Screen())
    assert all(cell.way in tables for cell in crossing.by_load[0].cells)
    data = json.loads(to_json(breakeven_json(crossing)))
    assert [row["wins"] for row in data["by_load"]] == [row.wins for row in crossing.by_load]


def test_break_even_wants_numbers_that_can_be(tmp_path: Path) -> None:
    loaded = load_scenario(small(tmp_path))
    with pytest.raises(MergeError, match="the scenario has 3 models"):
        breakeven(loaded, CATALOG, LIBRARY, (1.0,), (4,))
    with pytest.raises(MergeError, match="must be above 0"):
        at_load(loaded, 0)
