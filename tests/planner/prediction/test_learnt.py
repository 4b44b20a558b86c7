"""What was learnt from published points: that the shipped file follows from them, and what it answers."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from math import exp, hypot, log
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from support.planning import CATALOG

from benchmarks.making.fitting import DesignMatrices, Figure, Spreads, figures, fit
from benchmarks.making.learning import PUBLICATION, HeldOut, digest, parts, thinned, widening
from calibrate.published import names
from calibrate.published.points import points
from planner.api import modelling
from planner.prediction.effects import (
    UNKNOWN,
    EffectPart,
    PredictedCase,
    effects_of_any_batch,
    family,
    is_repository,
    least_s,
    roofline,
    source_effects,
    style,
)
from planner.prediction.learnt import (
    MOST_REACHED,
    OWN_SOFTWARE_SD,
    Learnt,
    Nearness,
    Regime,
    Seen,
    Software,
    Told,
    learnt,
    seen,
    series_of,
    traits,
)
from planner.prediction.queries import answers
from planner.prediction.rules.bands import SPREAD_80
from planner.show.spreadsheet import answers_csv, answers_json
from simulator.errors import InputError
from simulator.world.hardware import GPU

STATIONARY = ("series", "work model gpu", "work model input")
"""Groups of little spread, so that digits that the file leaves out matter little."""


@cache
def known() -> Sequence[Figure]:
    """All published figures."""
    return figures(CATALOG.gpus)


def asked(path: Path, *rows: str) -> list[dict[str, str]]:
    """Answers to rows of gpu, model, input, precision, runtime, batch, as CSV has them."""
    file = path / "asked.csv"
    file.write_text("\n".join(("gpu,model,input,precision,runtime,batch", *rows)), encoding="utf-8")
    return list(csv.DictReader(io.StringIO(answers_csv(modelling.predict(file)))))


def test_the_shipped_effects_were_learnt_from_the_shipped_points() -> None:
    assert learnt().points_sha256 == digest()


def test_the_shipped_effects_solve_the_equations_of_the_mixed_model() -> None:
    """At the solution an effect is its variance, times the sum of what it leaves unexplained over the noise's."""
    told = learnt()
    some = known()
    design = DesignMatrices(some)
    means = {
        group: np.array([told.effects[group][key][0] for key in columns]) for group, columns in design.columns.items()
    }
    linear = design.around(means)
    left = linear.left - sum(matrix @ means[group] for group, matrix in linear.matrices.items())
    left /= Spreads(told.spreads, told.noise).of_figures(some) ** 2
    for group in STATIONARY:
        expected = told.spreads[group] ** 2 * (linear.matrices[group].T @ left)
        assert np.quantile(np.abs(means[group] - expected), 0.95) < 0.02, group


def test_what_is_summed_once_for_all_batches_is_the_same_for_each() -> None:
    """Of one figure in fifty."""
    for figure in known()[::50]:
        one, many = (replace(figure.case, batch=batch) for batch in (1.0, 64.0))
        of_one, of_many = (
            list(effects_of_any_batch(case, roofline(case, figure.gpu), figure.gpu)) for case in (one, many)
        )
        assert of_one == of_many


def test_times_are_told_as_publications_find_them_and_as_repositories_do_where_none_did() -> None:
    case = PredictedCase(gpu="T4", architecture="resnet50", input="224", precision="fp32", runtime="pytorch", batch=8.0)
    of = {
        source: {
            effect.group: {effect.key: (level, 0.01)}
            for effect in source_effects(case, source)
            if effect.part is EffectPart.WHOLE
        }
        for source, level in (("paper", 0.1), ("owner/name", 0.5))
    }

    def level(*sources: str) -> float:
        effects = {
            group: {key: value for source in sources for key, value in of[source][group].items()}
            for group in of[sources[0]]
        }
        told = Learnt(effects, {}, {}).log_time(case, CATALOG.gpus["T4"])
        return told.mean - Learnt({}, {}, {}).log_time(case, CATALOG.gpus["T4"]).mean

    assert level("paper") == pytest.approx(0.3)  # by the source, its runtime and its GPU
    assert level("paper", "owner/name") == pytest.approx(0.3)
    assert level("owner/name") == pytest.approx(1.5)


def test_what_one_source_alone_published_is_told_at_its_level() -> None:
    """Where a single source has a runtime on a GPU, its figures lie above and below what is told: no share is left out.

    The median lies within 3 %, for groups of 50 figures and more, where the sampling error of a median is below that.
    """
    groups: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    for figure in known():
        groups[figure.case.gpu, figure.case.runtime].append(figure)
    alone = [some for some in groups.values() if len(some) >= 50 and len({f.source for f in some}) == 1]
    assert len(alone) >= 5
    for some in alone:
        errors = [learnt().log_time(f.case, f.gpu).mean - f.log_s for f in some]
        assert abs(np.median(errors)) < 0.03, (some[0].source, some[0].case.gpu)


@pytest.mark.parametrize("what", ["a model on a GPU", "a chip"])
def test_what_is_left_out_is_left_out_as_if_it_had_never_been_seen(what: str) -> None:
    """Effects without some figures are those of a second fit to the others.

    To the last digits where figures are work alone, for such a model is linear; elsewhere the tangent differs.
    """
    rng = np.random.default_rng(1)
    some = [f for f in thinned(known(), rng, 900) if f.case.full or f.case.batch >= 256]
    some = [replace(f, case=replace(f.case, full=True)) for f in some]
    spreads = Spreads(learnt().spreads, learnt().noise)
    fitted = fit(some, spreads)
    for left in list(parts(what, some, 5))[:2]:
        told = fitted.without(left, left)
        again = fit([f for at, f in enumerate(some) if at not in set(left)], spreads).learnt()
        for figure in (some[at] for at in left):
            one, other = told.log_time(figure.case, figure.gpu), again.log_time(figure.case, figure.gpu)
            assert one == pytest.approx(other, abs=1e-6)
            assert told.nearness(figure.case, figure.gpu) is again.nearness(figure.case, figure.gpu)
            assert told.software(figure.case) is again.software(figure.case)


def test_bands_are_widened_where_errors_are_large() -> None:
    """Errors of twice the told spread on one GPU, of half of it on another: four in five lie in the band of each."""
    rng = np.random.default_rng(5)
    case = {"architecture": "resnet50", "input": "224", "precision": "fp32", "runtime": "pytorch", "batch": 8.0}
    cases = {gpu: PredictedCase(gpu=gpu, **case) for gpu in ("T4", "L4")}  # type: ignore[arg-type]
    of = {gpu: tuple(traits(one, Nearness.PAIR, Software.HERE, Regime.WORK)) for gpu, one in cases.items()}
    errors = [
        HeldOut("", Figure(cases[gpu], CATALOG.gpus[gpu], "x", 0.0), of[gpu], error, Told(0.0, 0.1, 1.0), learnt())
        for gpu, spread in (("T4", 0.2), ("L4", 0.05))
        for error in rng.normal(0.0, spread, 2000)
    ]
    told = Learnt({}, {}, {}, widening(errors))
    for gpu in ("T4", "L4"):
        some = [e for e in errors if e.figure.case.gpu == gpu]
        wide = SPREAD_80 * exp(sum(told.widening.get(t, 0.0) for t in of[gpu]))
        assert np.mean([abs(e.error) <= wide * e.sd for e in some]) == pytest.approx(0.8, abs=0.04)


def test_a_published_case_is_what_was_published(tmp_path: Path) -> None:
    point = next(
        p for p in points("resnet50", "T4") if p.batch == 8 and p.precision == "fp32" and p.runtime == "pytorch"
    )
    (row,) = asked(tmp_path, "Tesla T4,resnet50,,,,8")
    assert row["evidence"] == "published"
    assert point.source in row["sources"]
    assert float(row["latency_low_s"]) <= point.latency_s <= float(row["latency_high_s"])


def test_a_batch_between_published_ones_lies_between_them(tmp_path: Path) -> None:
    low, between, high = asked(tmp_path, "T4,resnet50,,,,16", "T4,resnet50,,,,23", "T4,resnet50,,,,32")
    assert between["evidence"] == "fitted"
    assert between["rule"] == "profile"
    assert float(low["latency_s"]) < float(between["latency_s"]) < float(high["latency_s"])


def test_names_are_understood_as_published_tables_write_them(tmp_path: Path) -> None:
    rows = asked(
        tmp_path,
        "NVIDIA A100-SXM4-80GB,ResNeXt50_32x4d,224x224,half,TensorRT 8.4.2,8",
        "A100-80GB,resnext50_32x4d,224,fp16,tensorrt,8",
    )
    assert rows[0] == rows[1]


def test_a_shape_says_what_its_pixels_say(tmp_path: Path) -> None:
    shape, pixels = asked(tmp_path, "T4,resnet50,3x448x448,,,2", "T4,resnet50,448,,,2")
    assert shape == pixels


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("Riva128,resnet50,,,,", "Riva128"),
        ("A100,resnet50,,,,", "Did you mean `A100-40GB` or"),
        ("T4,nonesuch,,,,", "nonesuch"),
        ("T4,resnet50,,fp5,,", "fp5"),
        ("T4,resnet50,,,abacus,", "abacus"),
        ("T4,resnet50,banana,,,", "banana"),
        ("T4,resnet50,0,,,", "pixels"),
        ("T4,resnet50,seq128,,,", "resnet50 reads"),
        ("T4,bert_base,640x480,,,", "bert_base reads"),
        ("T4,resnet50,,,,0", "batch"),
        ("T4,resnet50,,,,many", "batch"),
        (",resnet50", "gpu"),
        ("T4,resnet50,,fp8,", "fp8"),
        ("T4,os:getcwd,3x8x8,,,1", "os:getcwd"),
        ("T4,onnx:~nosuch/x,,,,1", "~nosuch/x"),
        ("T4,hf:~nosuch/x,,,,1", "~nosuch/x"),
        (f"T4,onnx:x,{'9' * 5_000}x8x8,,,1", "too large"),
        ("T4,resnet50,,fp16,fastertransformer,", "fastertransformer runs BERT"),
        ("T4,mobilenet_v2,,fp16,EFF-FT,", "mobilenet_v2 is none of them. Write one of"),
        ("T4,resnet50,,int8,pytorch,", "pytorch does not compute in int8"),
        ("T4,resnet50,,torch,tensorrt,", "tensorrt does not compute in torch. Write one of cuda-graphs, pytorch"),
        ("A10G,resnet50,,mixed,tensorrt,", "tensorrt does not compute in amp. Write one of"),
        ("T4,resnet50,,int8,triton-onnxruntime,", "triton-onnxruntime does not compute in int8"),
        ("MI300X,resnet50,,fp16,tensorrt,", "tensorrt does not run on MI300X"),
        ("T4,resnet50,,fp16,openvino,", "openvino does not run on T4"),
    ],
)
def test_what_cannot_be_predicted_has_a_reason_and_no_figures(tmp_path: Path, row: str, said: str) -> None:
    before, told, after = asked(tmp_path, "T4,resnet50,,,,1", row, "T4,resnet50,,,,1")
    assert said in told["reason"]
    assert not any(value for name, value in told.items() if name != "reason")
    assert before == after


def test_int8_means_tensorrt_where_no_runtime_is_named(tmp_path: Path) -> None:
    """PyTorch computes nothing in int8 on a GPU."""
    unnamed, named = asked(tmp_path, "T4,resnet50,,int8,,64", "T4,resnet50,,int8,tensorrt,64")
    assert unnamed == named
    assert unnamed["latency_s"]


def test_json_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "asked.csv"
    file.write_text("model,gpu\nresnet50,T4\nnonesuch,T4\n", encoding="utf-8")
    found = json.loads(answers_json(modelling.predict(file)))
    assert found[0]["latency_low_s"] < found[0]["latency_s"] < found[0]["latency_high_s"]
    assert found[1]["latency_s"] is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ":1:"),
        ("gpu,precision\nT4,fp32\n", ":1:"),
        ("gpu,model\nT4,resnet50,8\n", ":2:"),
        (f"gpu,model\nT4,{'x' * 140_000}\n", ":2:"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_by_line(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "asked.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=place):
        list(answers(file, CATALOG.gpus))


def test_less_is_surer_the_nearer_something_was_measured() -> None:
    def width(**changes: object) -> float:
        case = {"gpu": "T4", "architecture": "resnet50", "input": "224", "precision": "fp32", "runtime": "pytorch"}
        estimate = learnt().predict(PredictedCase(**{**case, "batch": 12.0, **changes}), CATALOG.gpus["T4"])  # type: ignore[arg-type]
        return log(estimate.high / estimate.low)

    assert width() < width(architecture="tf_efficientnet_l2")


def test_a_runtime_that_nobody_published_on_a_gpu_has_a_wider_band() -> None:
    """Of TensorFlow nobody published on an L40S, and at bf16 nowhere."""
    known = learnt()

    def software(gpu: str, precision: str, runtime: str) -> Software:
        one = PredictedCase(
            gpu=gpu, architecture="resnet50", input="224", precision=precision, runtime=runtime, batch=8.0
        )
        return known.software(one)

    assert software("T4", "int8", "tensorrt") is Software.HERE
    assert software("L40S", "fp32", "tensorflow") is Software.PRECISION
    assert software("L40S", "bf16", "tensorflow") is Software.RUNTIME
    assert software("T4", "fp32", "no such runtime") is Software.UNKNOWN


def test_a_runtime_known_with_another_style_of_network_narrows_no_band() -> None:
    """TensorFlow with XLA was timed with BERT alone: of ResNet-50 in it nobody knows more than of its like at large."""

    def width(architecture: str, known: Learnt) -> float:
        case = PredictedCase(
            gpu="T4", architecture=architecture, input="224", precision="fp16", runtime="tensorflow-xla", batch=32.0
        )
        estimate = known.predict(case, CATALOG.gpus["T4"])
        return log(estimate.high / estimate.low)

    plain = replace(learnt(), widening={})
    assert width("resnet50", learnt()) >= width("resnet50", plain)
    assert width("bert_base", learnt()) < width("bert_base", plain)


@pytest.mark.parametrize(("batch", "is_seen"), [(1.0, False), (8.0, False), (256.0, True)])
def test_large_batches_narrow_no_band_of_what_launching_takes(batch: float, is_seen: bool) -> None:
    """PyTorch on an RTX 3090 was published in batches that fill it, and in no other."""
    case = PredictedCase(
        gpu="RTX3090", architecture="resnet34", input="224", precision="fp16", runtime="pytorch", batch=batch
    )
    told = learnt().log_time(case, CATALOG.gpus["RTX3090"])
    assert told.regime is (Regime.WORK if is_seen else Regime.OVERHEAD)
    assert (learnt().wider(case, CATALOG.gpus["RTX3090"], told.regime) < 1) is is_seen


@pytest.mark.parametrize("runtime", ["pytorch", "tensorrt"])
@pytest.mark.parametrize("precision", ["fp32", "amp", "fp16"])
@pytest.mark.parametrize("batch", [1.0, 8.0, 64.0])
@pytest.mark.parametrize("architecture", ["resnet50", "yolov8s", "bert_base", "vit_b_16"])
def test_no_band_is_wider_for_what_is_known_of_a_gpu(
    architecture: str, batch: float, precision: str, runtime: str
) -> None:
    """Beside a GPU like it of which nothing was published."""
    case = PredictedCase(
        gpu="", architecture=architecture, input="224", precision=precision, runtime=runtime, batch=batch
    )

    def spread(here: PredictedCase, gpu: GPU) -> float:
        """Upwards from the middle, which the GPU's peak may have raised."""
        series = seen(series_of(here)) if here.gpu else []
        estimate = learnt().predict(here, gpu, series)
        return log(estimate.high) - max(learnt().beside(here, gpu, series).mean, log(estimate.value))

    for name in ("T4", "V100", "A100-80GB", "H100", "H200", "RTX3090", "RTX4090", "L4"):
        gpu = CATALOG.gpus[name]
        assert spread(replace(case, gpu=name), gpu) <= spread(case, replace(gpu, name="", chip="")) + 1e-9


@pytest.mark.parametrize("gpu", ["T4", "V100", "H200"])
@pytest.mark.parametrize("batch", [1.0, 8.0, 128.0])
def test_a_band_is_at_most_that_of_a_copy_of_which_nothing_was_published(gpu: str, batch: float) -> None:
    """To the last digit, of a series that was published, were its errors as wide as can be."""
    wide = dict.fromkeys((f"{Nearness.SERIES} small", f"{Nearness.SERIES} large"), 9.0)
    known = replace(learnt(), widening={**learnt().widening, **wide})
    here = PredictedCase(
        gpu=gpu, architecture="resnet50", input="224", precision="fp32", runtime="pytorch", batch=batch
    )
    copy, copied = replace(here, gpu=""), replace(CATALOG.gpus[gpu], name="", chip="")
    assert known.nearness(here, CATALOG.gpus[gpu]) is Nearness.SERIES
    assert known.sd(here, CATALOG.gpus[gpu], known.log_time(here, CATALOG.gpus[gpu])) == pytest.approx(
        known.sd(copy, copied, known.log_time(copy, copied)), rel=1e-9
    )


def test_of_a_model_known_at_other_precisions_alone_no_band_is_narrower_on_a_new_gpu() -> None:
    """Nobody published YOLOv8s at fp16 in PyTorch, on any GPU, and ResNet-50 is."""

    def width(architecture: str, nearness: Nearness) -> float:
        known = replace(learnt(), widening={f"{nearness} large": 1.0})
        case = PredictedCase(
            gpu="", architecture=architecture, input="224", precision="fp16", runtime="pytorch", batch=8.0
        )
        return known.wider(case, replace(CATALOG.gpus["T4"], name="", chip=""), Regime.WORK)

    assert width("resnet50", Nearness.NEW_GPU) == pytest.approx(exp(1.0))
    assert width("resnet50", Nearness.OTHERWISE) == 1.0
    assert width("yolov8s", Nearness.NEW_GPU) == width("yolov8s", Nearness.OTHERWISE) == pytest.approx(exp(1.0))


def test_a_band_holds_software_that_nobody_published() -> None:
    """Wherever somebody published of the runtime: of others nothing is known of any software."""
    here = PredictedCase(
        gpu="T4", architecture="densenet121", input="224", precision="fp16", runtime="tensorrt", batch=16.0
    )
    on_others = (replace(here, gpu=name) for name in CATALOG.gpus)
    elsewhere = next(case for case in on_others if learnt().software(case) is Software.PRECISION)
    alike = replace(learnt(), own_software_sd=0.0)

    def spread(known: Learnt, case: PredictedCase, series: Sequence[Seen] = ()) -> float:
        estimate = known.predict(case, CATALOG.gpus[case.gpu], series)
        return log(estimate.high / estimate.value) / SPREAD_80

    assert spread(learnt(), here) == pytest.approx(hypot(spread(alike, here), OWN_SOFTWARE_SD))
    series = [Seen(1.0, log(0.003))]
    assert spread(learnt(), here, series) == pytest.approx(hypot(spread(alike, here, series), OWN_SOFTWARE_SD))
    assert spread(learnt(), elsewhere) == pytest.approx(hypot(spread(alike, elsewhere), OWN_SOFTWARE_SD))
    nowhere = replace(here, runtime="own")
    assert learnt().software(nowhere) is Software.UNKNOWN
    assert spread(learnt(), nowhere) == spread(alike, nowhere)


def test_a_publication_left_out_counts_as_ones_own_software_does() -> None:
    """Errors of a publication left out are twice those of a pair: its own trait has the wider band."""
    rng = np.random.default_rng(6)
    case = PredictedCase(gpu="T4", architecture="resnet50", input="224", precision="fp32", runtime="tvm", batch=8.0)
    figure = Figure(case, CATALOG.gpus["T4"], "x", 0.0)
    of = {one: tuple(traits(case, Nearness.ELSEWHERE, one, Regime.WORK)) for one in Software}
    errors = [
        HeldOut(what, figure, of[software], error, Told(0.0, 0.1, 1.0), learnt())
        for what, software, spread in (("a pair", Software.HERE, 0.1), (PUBLICATION, Software.PRECISION, 0.2))
        for error in rng.normal(0.0, spread, 2000)
    ]
    wider = widening(errors)

    def width(software: Software) -> float:
        return exp(sum(wider.get(t, 0.0) for t in of[software]))

    for software, spread in ((Software.HERE, 0.1), (Software.PRECISION, 0.2)):
        assert width(software) * 0.1 == pytest.approx(spread, rel=0.1)


def test_what_nobody_has_seen_spreads_as_its_group_does() -> None:
    case = PredictedCase(gpu="T4", architecture="resnet50", input="224", precision="fp32", runtime="pytorch", batch=8.0)
    nothing = Learnt({}, learnt().spreads, learnt().noise)
    assert nothing.nearness(case, CATALOG.gpus["T4"]) is Nearness.NEW_MODEL
    assert nothing.log_time(case, CATALOG.gpus["T4"]).sd > learnt().log_time(case, CATALOG.gpus["T4"]).sd


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_power_slows_no_gpu_that_has_enough_of_it(precision: str) -> None:
    """Less of it makes a GPU slower; beyond 10 W for each TFLOP/s more changes nothing, and none told is no error."""
    case, gpu = (
        PredictedCase(
            gpu="A new one", architecture="resnet50", input="224", precision=precision, runtime="pytorch", batch=64
        ),
        replace(CATALOG.gpus["A10"], name="A new one", chip="New"),
    )
    peak = gpu.peak_flops(precision)

    def told_s(watts: float) -> float:
        return exp(learnt().log_time(case, replace(gpu, tdp_w=watts)).mean)

    assert told_s(1e-12 * peak) > told_s(5e-12 * peak) > told_s(1e-11 * peak) == told_s(3e-11 * peak)
    assert told_s(1e-12 * peak) > told_s(0) > told_s(1e-11 * peak)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("roberta-base", "bert_base"),
        ("BAAI/bge-base-en-v1.5", "bert_base"),
        ("roberta-large", "bert_large"),
        ("deit_small_patch16_224", "vit_small_patch16_224"),
    ],
)
@pytest.mark.parametrize("way", ["V100,fp16,tensorrt,1", "T4,fp16,tensorrt,8", "L4,fp32,pytorch,16"])
def test_networks_that_are_alike_are_predicted_as_one(tmp_path: Path, one: str, other: str, way: str) -> None:
    """But for what was published of either there: each is within the other's band."""
    gpu, precision, runtime, batch = way.split(",")
    first, second = asked(tmp_path, *(f"{gpu},{name},,{precision},{runtime},{batch}" for name in (one, other)))
    for here, there in ((first, second), (second, first)):
        assert float(there["latency_low_s"]) <= float(here["latency_s"]) <= float(there["latency_high_s"])
    assert float(first["latency_s"]) == pytest.approx(float(second["latency_s"]), rel=0.25)


@pytest.mark.parametrize("way", ["V100,{},,fp16,tensorrt,1", "T4,{},,fp16,tensorrt,1", "A10,{},,fp32,pytorch,8"])
def test_a_reader_of_tokens_with_fewer_layers_is_no_slower_than_a_quarter_more(tmp_path: Path, way: str) -> None:
    """DistilBERT has half of BERT's layers, MiniLM-L6 has as many of a third of their size."""
    names = ("bert-base-uncased", "distilbert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2")
    whole, half, small = (float(row["latency_s"]) for row in asked(tmp_path, *map(way.format, names)))
    assert half < 1.25 * whole
    assert small < whole


def test_names_of_packages_do_not_hide_how_a_network_is_made() -> None:
    for package, bare in (
        ("torchvision:regnet_y_800mf", "regnet_y_800mf"),
        ("hf:microsoft/deberta-v3-base", "deberta"),
    ):
        assert (style(package), family(package)) == (style(bare), family(bare))
    assert style("hf:BAAI/bge-base-en-v1.5") == style("hf:openai/whisper-tiny") == "transformer"


def test_no_middle_of_what_is_learnt_reaches_more_of_the_peak_than_published_figures_do() -> None:
    shares = []
    for gpu, batch in product(("T4", "A100-80GB", "H100", "L4", "RTX4090"), (8.0, 128.0)):
        for model, size in (
            ("bert_base", "seq128"),
            ("bert_large", "seq256"),
            ("vit_l_16", "224"),
            ("resnet152", "224"),
        ):
            for precision, runtime in (("int8", "tensorrt"), ("fp16", "tensorrt"), ("fp16", "fastertransformer")):
                case = PredictedCase(
                    gpu=gpu, architecture=model, input=size, precision=precision, runtime=runtime, batch=batch
                )
                told = learnt().predict(case, CATALOG.gpus[gpu])
                at_peak_s = least_s(case, CATALOG.gpus[gpu])
                assert at_peak_s <= told.low * (1 + 1e-9)
                shares.append(at_peak_s / told.value)
    assert max(shares) <= MOST_REACHED * (1 + 1e-9)


def test_as_few_published_figures_pass_that_share_of_the_peak() -> None:
    """But for one in a hundred, and repositories."""
    some = [figure for figure in known() if figure.roofline.known and not is_repository(figure.source)]
    shares = np.array([least_s(figure.case, figure.gpu) / exp(figure.log_s) for figure in some])
    assert np.quantile(shares, 0.985) < MOST_REACHED < np.quantile(shares, 0.995)


@pytest.mark.parametrize(("gpu", "batch"), [("A100-80GB", 64), ("T4", 8), ("L4", 16), ("H100", 64)])
@pytest.mark.parametrize("model", ["bert_large", "roberta-large"])
def test_texts_without_their_padding_say_nothing_of_others(tmp_path: Path, model: str, gpu: str, batch: int) -> None:
    """MLPerf's texts fill 54 % of 384 tokens: an input of its own. Time and memory of others grow with the length."""
    lengths = (128, 256, 383, 384, 385, 512)
    rows = asked(tmp_path, *(f"{gpu},{model},{length},int8,tensorrt,{batch}" for length in lengths))
    times_s = [float(row["latency_s"]) for row in rows]
    memory = [int(row["memory_bytes"]) for row in rows]
    assert times_s == sorted(times_s)
    assert memory == sorted(memory)
    assert times_s[4] < 1.02 * times_s[2]
    (squad,) = asked(tmp_path, f"{gpu},bert-99,,int8,tensorrt,{batch}")
    assert float(squad["latency_s"]) < 0.8 * times_s[3]


def test_one_published_batch_says_more_of_what_takes_most_of_it() -> None:
    """A batch of 1 in a fifth of the usual time, nine tenths of it overhead: large batches are quicker by less."""
    case = PredictedCase(
        gpu="T4", architecture="resnet50", input="224", precision="fp16", runtime="tensorflow", batch=1.0
    )
    t4, usual = CATALOG.gpus["T4"], learnt().log_time(case, CATALOG.gpus["T4"])
    assert usual.regime is Regime.OVERHEAD
    seen = [Seen(1.0, usual.mean - log(5))]

    def quicker(batch: float) -> float:
        at = replace(case, batch=batch)
        return learnt().log_time(at, t4).mean - learnt().beside(at, t4, seen).mean

    assert quicker(1.0) == pytest.approx(log(5))
    assert log(5) > quicker(4.0) > quicker(16.0) > quicker(64.0) > 0


def test_a_network_of_unknown_operations_takes_more_of_larger_pictures() -> None:
    """As those do whose operations are known: in proportion to pixels their median is within a half at each size."""
    one = PredictedCase(
        gpu="T4", architecture="no such network", input="224", precision="fp16", runtime="tensorrt", batch=1.0
    )
    known = [at for sizes in names.architectures().values() for at in sizes if at.macs]
    for size in ("224", "640"):
        told = roofline(replace(one, input=size), CATALOG.gpus["T4"])
        usual = median(at.macs for at in known if at.input == size and at.macs)
        assert not told.known
        assert 1 / 2 < (told.counted.macs or 0.0) / usual < 3 / 2
    assert roofline(replace(one, input="seq128"), CATALOG.gpus["T4"]).counted.macs == UNKNOWN.macs


@pytest.mark.parametrize(
    ("model", "least_flops"),
    [
        ("RT-DETRv2-R18", 60e9),
        ("RT-DETRv2-R50", 136e9),
        # Operations that the planner is not told of, as others count them: half as many as a Mask R-CNN at its size ...
        ("detectron2 Cascade R-CNN maskrcnn", 200e9),
        ("maskrcnn_resnet50_c4", 200e9),
        # ... and the backbone of STDC-Seg alone, which takes 0.8 billion at 224 pixels.
        ("stdc_1_seg75", 38e9),
    ],
)
@pytest.mark.parametrize("gpu", ["T4", "A100-40GB", "H100"])
@pytest.mark.parametrize("runtime", ["tensorrt", "pytorch"])
def test_batches_of_networks_of_one_published_batch_are_not_free(
    tmp_path: Path, model: str, least_flops: float, gpu: str, runtime: str
) -> None:
    [large] = asked(tmp_path, f"{gpu},{model},,fp16,{runtime},64")
    assert float(large["latency_s"]) > 64 * least_flops / CATALOG.gpus[gpu].peak_flops("fp16")
