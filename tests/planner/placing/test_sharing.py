"""What models could share, what of it to share, and what that costs."""

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import planning

from calibrate.joint.curve import CurvePoint, SharedCurve, curve_document, read_curve
from planner.io.load import Loaded
from planner.io.store import to_json
from planner.model.parts.merging import Merging, RetrainingSpec, SharingRule, SharingSpec
from planner.placing.cutting import FleetGpu
from planner.placing.duty import Portion, Rules, duty_cycle, round_load_s
from planner.placing.merging.accuracy import GEMEL_SHARE, assumed_gemel, assumed_harmless, read_table, tabled
from planner.placing.merging.analysis import analyze, power_law
from planner.placing.merging.layers import MergeError, layers_of, named
from planner.placing.merging.options import Bill, best_point, bill, options
from planner.placing.packing.packed import Packing
from planner.placing.packing.packer import Packer
from planner.placing.sizing import Kind
from planner.show.terminal import terminal
from planner.show.text.merging import analysis_document, analysis_json
from planner.units.writing import Screen
from simulator.errors import InputError
from simulator.world.model import Layer, LayerFacts
from simulator.world.profile import Evidence, WeightSource
from simulator.world.sharing import (
    Group,
    Judge,
    Merged,
    Sharing,
    SharingError,
    bound_together,
    groups,
    merged_layers,
    saved_bytes,
    search,
    search_stem,
)
from simulator.world.signature import Signature, read_signature

SIZES = """models,total_mib,shareable_mib,stem_mib
resnet18+resnet34,127.64,44.56,0.60
resnet50+resnet101,266.83,97.29,32.47
resnet101+resnet152,398.58,169.54,5.47
vgg16+vgg19,1075.84,527.79,6.62
alexnet+vgg16,760.87,81.90,0
resnet50+vgg16,625.08,0,0
resnet50*4,389.16,291.87,291.87
resnet50+resnet101+resnet152,495.87,266.83,10.95
"""
"""MiB of torchvision's shapes with 1000 classes, norms left out; reckoned from the shapes alone."""
MIB = 2**20


@pytest.mark.parametrize("row", list(csv.DictReader(io.StringIO(SIZES))), ids=lambda row: row["models"])
def test_sizes_are_those_of_the_shapes(row: Mapping[str, str]) -> None:
    found = analyze(named(row["models"].split("+"), layers_of))
    assert found.total_bytes / MIB == pytest.approx(float(row["total_mib"]), abs=0.02)
    assert found.shareable_bytes / MIB == pytest.approx(float(row["shareable_mib"]), abs=0.02)
    assert found.stem_bytes / MIB == pytest.approx(float(row["stem_mib"]), abs=0.02)
    assert found.stem_bytes <= found.branching_stem_bytes <= found.shareable_bytes


def test_stems_branch_where_models_part() -> None:
    found = analyze(named(["resnet50", "resnet101", "resnet152"], layers_of))
    assert found.branching_stem_bytes / MIB == pytest.approx(32.47 + 5.47, abs=0.02)


def test_a_union_counts_every_layer_once() -> None:
    """An oracle that knows only multisets: of each signature, the most copies that any model has."""
    models = named(["resnet18", "resnet34", "resnet50", "alexnet", "vgg16*2"], layers_of)
    most: dict[Signature, int] = {}
    size: dict[Signature, int] = {}
    total = 0
    for layers in models.values():
        mine = [x for x in layers if x.weight_bytes and not x.type.startswith("BatchNorm")]
        total += sum(x.weight_bytes for x in mine)
        for x in mine:
            size[x.signature] = x.weight_bytes
            most[x.signature] = max(most.get(x.signature, 0), sum(y.signature == x.signature for y in mine))
    assert saved_bytes(groups(models)) == total - sum(size[s] * n for s, n in most.items())


def test_a_power_law_is_found_again() -> None:
    found = power_law([round(4e8 / rank**1.5) for rank in range(1, 40)])
    assert found is not None
    assert (found.exponent, found.scale_bytes, found.r2) == pytest.approx((1.5, 4e8, 1.0), rel=1e-4)
    assert found(4) == pytest.approx(4e8 / 8, rel=1e-3)
    assert power_law([3, 2, 1]) is None
    level = power_law([7] * 10)
    assert level is not None
    assert (level.exponent, level.r2, level(5)) == (0.0, 1.0, 7.0)


def test_heavy_hitters() -> None:
    strength = {h.model: h.strength for h in analyze(named(["vgg16", "alexnet", "resnet152"], layers_of)).heavy_hitters}
    assert strength == {"vgg16": "strong", "alexnet": "strong", "resnet152": "weak"}
    vgg = analyze(named(["vgg16"], layers_of)).heavy_hitters[0]
    assert (vgg.largest, vgg.top_layers) == ("classifier.0", 2)
    assert vgg.top_share == pytest.approx(0.86, abs=0.005)


def test_json_has_the_keys_and_the_table_says_so_per_model() -> None:
    found = analyze(named(["vgg16", "vgg19", "resnet50"], layers_of))
    data = json.loads(to_json(analysis_json(found)))
    assert {"total_bytes", "shareable_bytes", "stem_bytes", "groups", "heavy_hitters"} <= data.keys()
    assert sum(g["saved_bytes"] for g in data["groups"]) == data["shareable_bytes"]
    text = terminal(analysis_document(found), Screen())
    assert "553.43 MB of 1,230.11 MB" in text
    assert "In resnet50 no few layers hold most of the memory" in text


def layer(signature: str, size: int = 4, name: str = "") -> LayerFacts:
    return LayerFacts(
        name=name or signature,
        type=read_signature(signature).kind,
        signature=read_signature(signature),
        params=1,
        weight_bytes=size,
        flops=0,
        input_bytes=0,
        output_bytes=0,
    )


LINEAR = "Linear weight=1x1"


def test_norms_are_never_shared() -> None:
    models = {m: [layer(LINEAR), layer("BatchNorm2d weight=64"), layer("LayerNorm weight=64")] for m in "ab"}
    assert [str(g.signature) for g in groups(models)] == [LINEAR]


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ({"a": [layer(LINEAR)], "b": [layer("ReLU", 0)]}, "b: has no layers with weights"),
        ({"a": [layer(LINEAR)], "b": [layer(f"{LINEAR}:float16")]}, "b: its weights are float16, those of a float32"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(models: dict[str, list[LayerFacts]], said: str) -> None:
    with pytest.raises(MergeError, match=said) as caught:
        analyze(models)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resnt50"], "Did you mean resnet50"),
        (["resnet50*0"], "must be a name or `name"),
        (["resnet50*x"], "must be a name or `name"),
    ],
)
def test_names_nobody_knows(words: list[str], said: str) -> None:
    with pytest.raises(MergeError, match=said):
        named(words, layers_of)


def test_a_model_of_ones_own_needs_a_shape() -> None:
    with pytest.raises(MergeError, match=r"mine:make: the shape of its input is not known"):
        layers_of("mine:make")


# What to share


def group(name: str, size: int, models: str) -> Group:
    return Group(Signature(name), 0, size, tuple(models))


def judge_by(bad: Mapping[str, set[str]]) -> Judge:
    """A model loses half of its accuracy where it shares a layer that it does not bear."""

    def judge(sharing: Sharing) -> dict[str, float]:
        held: dict[str, set[str]] = {}
        for g in sharing:
            for m in g.models:
                held.setdefault(m, set()).add(g.signature.kind)
        return {m: 0.5 if names & bad.get(m, set()) else 1.0 for m, names in held.items()}

    return judge


TARGETS = dict.fromkeys("abcd", 0.95)


def test_the_search_takes_what_saves_most_first() -> None:
    offered = (group("small", 1, "abcd"), group("large", 5, "ab"))
    found = search(offered, judge_by({}), TARGETS)
    assert [x.group.signature.kind for x in found.attempts] == ["large", "small"]
    assert [x.saved_bytes for x in found.attempts] == [5, 8]


def test_a_group_that_fails_is_halved_and_waits_its_turn() -> None:
    """d does not bear `wide` (12 saved); its half saves 4, less than `next` (6), so that one goes first."""
    offered = (group("wide", 4, "abcd"), group("next", 6, "ab"))
    found = search(offered, judge_by({"d": {"wide"}}), TARGETS)
    assert [(x.group.signature.kind, len(x.group.models), x.accepted) for x in found.attempts] == [
        ("wide", 4, False),
        ("next", 2, True),
        ("wide", 2, True),
    ]
    assert found.saved_bytes == 6 + 4
    assert all("d" not in g.models for g in found.sharing)


def test_both_sides_count_a_saving_as_copies_less_one() -> None:
    """A half of three models that saves 2 x 4 goes before a whole group that saves 7, though that has more bytes."""
    offered = (Group(Signature("wide"), 0, 4, tuple("abcdef")), Group(Signature("whole"), 0, 7, ("a", "b")))
    found = search(offered, judge_by({"f": {"wide"}}), dict.fromkeys("abcdef", 0.95))
    assert [(x.group.signature.kind, len(x.group.models)) for x in found.attempts] == [
        ("wide", 6),
        ("wide", 3),
        ("whole", 2),
    ]


def test_the_end_counts_the_same_way() -> None:
    offered = (group("a", 4, "abc"), group("b", 7, "ab"))
    assert [str(g.signature) for g in search(offered, judge_by({}), TARGETS, least_bytes=8).sharing] == ["a"]


def test_a_metric_that_is_no_number_is_refused() -> None:
    with pytest.raises(SharingError, match="a: its accuracy came out as nan"):
        search((group("x", 1, "ab"),), lambda _: {"a": math.nan, "b": 1.0}, TARGETS)


def test_stems_go_as_deep_as_every_model_bears() -> None:
    run = (*(group(f"{i}", 1, "abc") for i in range(8)), group("branch", 1, "ab"))
    whole = search_stem(run, judge_by({}), TARGETS)
    assert whole.sharing == run
    part = search_stem(run, judge_by({"c": {"5", "6", "7"}}), TARGETS)
    assert part.sharing == run[:5]
    assert len(part.attempts) <= 5


def test_who_is_trained_together() -> None:
    assert bound_together((group("x", 1, "ab"), group("y", 1, "bc"), group("z", 1, "de")), ["a"]) == ("a", "b", "c")


def test_the_rule_of_gemel() -> None:
    judge = assumed_gemel({"a": 1000})
    shares = (0.0, GEMEL_SHARE / 2, GEMEL_SHARE)
    at = [judge((Group(Signature("x"), 0, round(1000 * share), ("a",)),))["a"] for share in shares]
    assert at == pytest.approx([1, 0.975, 0.95], abs=1e-4)
    assert assumed_harmless((group("x", 1, "ab"),)) == {"a": 1.0, "b": 1.0}


def test_a_table_is_read_between_its_points_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("model,shared_fraction,accuracy\na,0.5,0.98\na,0.8,0.90\n*,0.4,0.99\n")
    judge = tabled(read_table(path), {"a": 100, "b": 100, "c": 100})
    assert judge((Group(Signature("x"), 0, 25, ("a", "b")),)) == pytest.approx({"a": 0.99, "b": 0.99375})
    assert judge((Group(Signature("x"), 0, 65, ("a", "b")),)) == pytest.approx({"a": 0.94, "b": 0.0})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model,share\na,1\n", "must have the columns accuracy, model, shared_fraction"),
        ("model,shared_fraction,accuracy\na,0.5,nan\n", "row 2: a share from 0 to 1 and an accuracy"),
        ("model,shared_fraction,accuracy\na,50,0.9\n", "row 2"),
        ("model,shared_fraction,accuracy\n", "holds no row"),
    ],
)
def test_tables_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(MergeError, match=said):
        read_table(path)


X, Y = group("x", 10, "ab"), group("y", 4, "ab")
CURVE = SharedCurve(
    {"a": 20, "b": 20},
    (CurvePoint((X,), {"a": 0.99, "b": 0.98}, 5.0), CurvePoint((X, Y), {"a": 0.96, "b": 0.93}, 6.0)),
)


def written(path: Path, **changes: object) -> Path:
    document = curve_document(CURVE, {"a": 0.9, "b": 0.8}) | changes
    path.write_text(json.dumps(document))
    return path


def test_curves_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_curve(written(tmp_path / "c.json")) == CURVE


def test_of_a_curve_the_most_saved_within_targets_counts() -> None:
    assert best_point(CURVE, (X, Y), {"a": 0.95, "b": 0.95}).sharing == (X,)
    assert best_point(CURVE, (X, Y), {"a": 0.95, "b": 0.90}).sharing == (X, Y)
    assert best_point(CURVE, (Y,), {"a": 0.9, "b": 0.9}).sharing == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": "x"}, "is no curve of schema"),
        ({"groups": []}, "is not as planner.sharing/v1 has it"),
        ({"models": {"a": {"weight_bytes": 1, "accuracy": 1}}}, "shares layers of b"),
        (
            {"points": [{"groups": [0], "saved_bytes": 20, "accuracy": {"a": 1}, "wall_s": 1}]},
            "must be .models - 1. x layer_bytes",
        ),
        (
            {"points": [{"groups": [0], "saved_bytes": 10, "accuracy": {"a": math.nan}, "wall_s": 1}]},
            "NaN is not a finite number",
        ),
    ],
)
def test_curves_that_contradict_themselves(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_curve(written(tmp_path / "c.json", **changes))
    assert "\n" not in str(caught.value)


# What it costs


RETRAINING = RetrainingSpec(step=0.3, steps=100, epochs=5, price=3.6, every=730 * 3600 / 2)


def test_the_bill_of_the_docstring() -> None:
    offered = (group("x", 3, "abcd"), group("y", 2, "abcd"), group("z", 1, "abcd"))
    merged = search(offered, judge_by({}), TARGETS)
    made = bill(merged, RETRAINING)
    assert made.training_usd == pytest.approx(1.80)
    assert made.retraining_usd_per_month == pytest.approx(2 * 4 * 150 * 3.6 / 3600)
    assert [x.saved_bytes for x in made.live] == [9, 15, 18]
    assert [x.after_s for x in made.live] == pytest.approx([600, 1200, 1800])


def test_a_bill_nobody_can_know_is_no_number() -> None:
    merged = search((group("x", 1, "ab"),), judge_by({}), TARGETS)
    assert math.isnan(bill(merged, None).training_usd)
    assert bill(merged, None).usd_per_month == 0
    assert bill(Merged(()), RETRAINING) == Bill()


def test_the_first_training_is_written_off() -> None:
    assert Bill(365.0, 0.0, 365 * 86400.0).usd_per_month == pytest.approx(30.42, abs=0.01)


# In scenarios


def asked(merging: Merging, **sharing: Any) -> Loaded:
    models = [replace(planning.model(m, 0.2), layers=n) for m, n in (("a", "resnet18"), ("b", "resnet34"))]
    made = planning.scenario(models, {"a": (1, 5), "b": (1, 5)}, merging=merging, sharing=SharingSpec(**sharing))
    return planning.loaded(made)


def test_options_of_a_scenario() -> None:
    found = options(asked(Merging.AUTO, rule=SharingRule.HARMLESS), None)
    assert [o.merging for o in found] == [Merging.NONE, Merging.STEM, Merging.LAYERS]
    assert found[2].merged.saved_bytes == pytest.approx(44.56 * MIB, rel=0.005)  # groups under a thousandth are left
    assert found[1].merged.saved_bytes == pytest.approx(0.60 * MIB, rel=0.01)
    assert found[2].evidence is Evidence.ASSUMED


def test_merged_models_are_as_accurate_as_they_then_are() -> None:
    loaded = asked(Merging.LAYERS)
    (found,) = options(loaded, None)
    accuracy = {spec.name: spec.accuracy for spec in found.of(loaded).scenario.models}
    assert accuracy == dict(found.merged.accuracy)
    assert min(accuracy.values()) >= 0.95


def test_a_curve_of_other_models_is_refused(tmp_path: Path) -> None:
    loaded = asked(
        Merging.LAYERS, curve=written(tmp_path / "c.json", models={"x": {"weight_bytes": 9, "accuracy": 1}}, points=[])
    )
    with pytest.raises(MergeError, match="has none of the scenario's models, only x"):
        options(loaded, None)


def test_layers_of_another_network_do_not_fit_its_weights() -> None:
    with pytest.raises(
        SharingError, match=r"^models\[a\]\.layers: 10\.0 MB of them are shared, but its profile has 5\.0"
    ):
        merged_layers("a", 5 * 10**6, (group("x", 10**7, "ab"),))


def test_a_published_size_is_rounded() -> None:
    """The weights of ResNet-152 are 240.2 MB, and published as 240 MB."""
    (layer,) = merged_layers("a", 240 * 10**6, (group("x", 240_200_000, "ab"),))
    assert layer.weight_bytes == 240_200_000


def test_narrow_weights_are_layers_of_their_own() -> None:
    wide, narrow = (merged_layers("a", 40, (group("x", 10, "ab"),), width) for width in (1.0, 0.5))
    assert [x.weight_bytes for x in wide] == [10, 30]
    assert [x.weight_bytes for x in narrow] == [5, 35]
    assert wide[0].key != narrow[0].key


def test_two_models_of_one_profile_have_weights_of_their_own() -> None:
    models = [replace(planning.model(m), profile="net") for m in "ab"]
    made = planning.scenario(models, {"a": (1, 5), "b": (1, 5)})
    question = planning.question(
        made, [planning.offer(planning.V100, 1.0)], planning.shelf(planning.profile("net", planning.V100, 0.01, 0.001))
    )
    assert len({x.key for s in question.sized.values() for x in s.profile.layers}) == 2


def portions(shared: int) -> tuple[list[Portion], Kind, Rules]:
    """Four models of 100 MB, of which 1 and 3, and 2 and 4, share some."""
    models = [planning.model(m, 0.5) for m in "abcd"]
    made = planning.scenario(models, dict.fromkeys("abcd", (1, 5.0)))
    held = {m: (Layer("ac" if m in "ac" else "bd", shared), Layer(m, 10**8 - shared)) for m in "abcd"}
    library = planning.shelf(
        *(replace(planning.profile(m, planning.V100, 0.01, 0.001), layers=held[m]) for m in "abcd")
    )
    offer = planning.offer(planning.V100, 1.0)
    question = planning.question(made, [offer], library)
    kind = Kind.of(offer)
    return [Portion(question.sized[m, kind], 1.0) for m in "abcd"], kind, question.rules(True, {})


def test_a_round_loads_what_the_one_before_lacks() -> None:
    alone, _, rules = portions(1)
    sharing, _, _ = portions(6 * 10**7)
    assert round_load_s(alone, rules) == pytest.approx(4 * 10**8 / 12e9, rel=1e-3)
    assert round_load_s(sharing, rules) == pytest.approx((4 * 10**8 - 2 * 6 * 10**7) / 12e9, rel=1e-3)


def test_placement_brings_sharers_together() -> None:
    """Two GPUs with room for two models that share 60 of their 100 MB, not for two that do not."""
    parts, kind, _ = portions(6 * 10**7)
    room = Kind(kind.gpu, 800_000_000 + 140_000_000 + 45_000_000)
    sized = {(p.sized.model, room): p.sized for p in parts}
    rules = Rules(0.1, False, True, WeightSource.PINNED, {})
    found = Packer(list("abcd"), sized, rules).pack([FleetGpu("g0", "h", room), FleetGpu("g1", "h", room)])
    assert isinstance(found, Packing)
    devices = {
        device: {p.portion.sized.model for p in found.placed if p.devices[0].id == device} for device in ("g0", "g1")
    }
    assert sorted(map(sorted, devices.values())) == [["a", "c"], ["b", "d"]]
    assert duty_cycle([parts[0], parts[1]], room, rules) is None
