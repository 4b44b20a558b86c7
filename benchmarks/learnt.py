"""How far the learnt predictor errs where a batch, a pair, a chip or a family was left out; for docs/prediction.md."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp, expm1, log
from statistics import median

import numpy as np

from planner.catalog.offers import load_catalog
from planner.prediction.effects import chip
from planner.prediction.learning import LEFT_OUT, Figure, HeldOut, Spreads, figures, fit, held_out, thinned, widening
from planner.prediction.learnt import SMALL_MAX, learnt, traits
from planner.prediction.transfer import SPREAD_80

GROUP_MIN = 50
PAIR = "a model on a GPU"
FOLDS = 3
"""Widths of bands are those that errors of two thirds of the pairs of model and GPU ask for, judged by the rest."""
REFERENCE = "A100-80GB-PCIe"
MLPERF_GPUS = ("T4", "A10", "L4", "A30", "L40S", "H100", "H200")
MLPERF_MODELS = ("resnet50", "bert_large")
RATIO_RUNTIME = "tensorrt"
LARGE_BATCH = 32
PROBED = ("RTX4090", "RTX3090", "T4")
PROBES = 5
FEW = 1500
"""Figures of other chips that a fit for one of them is made of: all take minutes."""


def learnt_table() -> list[str]:
    """Markdown rows: what was left out, figures, errors, and the share that lies in the 80 % band."""
    known = figures(load_catalog().gpus)
    spreads = Spreads(learnt().spreads, learnt().noise)
    errors = held_out_with_bands(list(held_out(known, spreads)))
    rows = [row("all", errors)]
    for what in LEFT_OUT:
        some = [e for e in errors if e.what == what]
        rows.append(row(f"left out: {what}", some))
        rows.append(row(f"- batch up to {SMALL_MAX}", [e for e in some if e.figure.case.batch <= SMALL_MAX]))
        rows.append(row("- larger", [e for e in some if e.figure.case.batch > SMALL_MAX]))
    pairs = [e for e in errors if e.what == PAIR]
    for name, of in GROUPS.items():
        for value, count in Counter(map(of, pairs)).most_common():
            if count >= GROUP_MIN:
                rows.append(row(f"{PAIR}, {name} {value}", [e for e in pairs if of(e) == value]))
    return [
        "| what | figures | median error | p90 | in the 80 % band |",
        "|---|---:|---:|---:|---:|",
        *rows,
    ]


GROUPS: dict[str, Callable[[HeldOut], str]] = {
    "source": lambda e: e.figure.source,
    "GPU": lambda e: e.figure.case.gpu,
    "runtime": lambda e: e.figure.case.runtime,
    "precision": lambda e: e.figure.case.precision,
}


def held_out_with_bands(errors: Sequence[HeldOut]) -> list[HeldOut]:
    """Spreads widened as errors of other pairs ask for: no band is judged by what it is made of."""
    names = sorted({_pair(error) for error in errors})
    fold = dict(zip(names, np.random.default_rng(1).permutation(len(names)) % FOLDS, strict=True))
    found = []
    for part in range(FOLDS):
        wider = widening([e for e in errors if fold[_pair(e)] != part])
        for error in errors:
            if fold[_pair(error)] == part:
                raised = sum(wider.get(trait, 0.0) for trait in traits(error.figure.case, error.nearness))
                found.append(replace(error, sd=error.sd * exp(raised)))
    return found


def _pair(error: HeldOut) -> str:
    return f"{error.figure.case.architecture} {error.figure.case.gpu}"


def row(name: str, some: Sequence[HeldOut]) -> str:
    """One line of the table."""
    sizes = np.abs([e.error for e in some])
    inside = float(np.mean(sizes <= [SPREAD_80 * e.sd for e in some]))
    middle, p90 = (expm1(float(np.quantile(sizes, q))) for q in (0.5, 0.9))
    return f"| {name} | {len(some):,} | {middle:.1%} | {p90:.0%} | {inside:.0%} |".replace("%", " %")


def ratios_table() -> list[str]:
    """Markdown rows: times of MLPerf's full batches over the A100's, as published and as told from all other points.

    Points that share neither network nor runtime with those say next to nothing of them, and are left aside: a fit of
    all takes minutes, and there is one for each GPU.
    """
    every = figures(load_catalog().gpus)
    near = [f for f in every if f.case.architecture in MLPERF_MODELS or f.case.runtime == RATIO_RUNTIME]
    spreads = Spreads(learnt().spreads, learnt().noise)
    base = {model: _sample_s(_full_batches(near, model, REFERENCE)) for model in MLPERF_MODELS}
    rows = []
    for gpu in MLPERF_GPUS:
        left = {model: _full_batches(near, model, gpu) for model in MLPERF_MODELS}
        told = fit([f for f in near if f.case.gpu != gpu or f.case.architecture not in MLPERF_MODELS], spreads)
        for model, some in left.items():
            if not some:
                continue
            published = _sample_s(some) / base[model]
            sample_s = median(exp(told.log_time(f.case, f.gpu).mean) / f.case.batch for f in some)
            apart = exp(abs(log(sample_s / base[model] / published)))
            rows.append(
                f"| {model} | {gpu} | {len(some)} | {published:.2f} | {sample_s / base[model]:.2f} | {apart:.2f} |"
            )
    return ["| model | GPU | figures | published | told | times apart |", "|---|---|---:|---:|---:|---:|", *rows]


def new_gpus_table() -> list[str]:
    """Markdown rows: a chip of which only the five models were published that most others have, at all batch sizes;
    and PaddleClas on a T4 at fp32, of which nothing else was seen there."""
    every = figures(load_catalog().gpus)
    spreads = Spreads(learnt().spreads, learnt().noise)
    count = Counter(model for model, _ in {(f.case.architecture, f.case.gpu) for f in every})
    found = []
    for name in PROBED:
        on_chip = [f for f in every if chip(f.gpu) == name]
        runtime = Counter(f.case.runtime for f in on_chip).most_common(1)[0][0]
        of_runtime = [f for f in on_chip if f.case.runtime == runtime]
        probes = sorted({f.case.architecture for f in of_runtime}, key=lambda model: -count[model])[:PROBES]
        some = thinned([f for f in every if chip(f.gpu) != name], np.random.default_rng(0), FEW)
        seen = [*some, *(f for f in of_runtime if f.case.architecture in probes)]
        left = [f for f in of_runtime if f.case.architecture not in probes]
        found += [
            _plain_row(f"{name}, {runtime}, {n} probes", s, left, spreads) for n, s in ((0, some), (PROBES, seen))
        ]
    paddle = [f for f in every if f.source == "paddleclas"]
    left = [f for f in paddle if (f.case.gpu, f.case.precision) == ("T4", "fp32")]
    others = thinned([f for f in every if f.source != "paddleclas"], np.random.default_rng(0), FEW)
    on_t4 = [f for f in every if f.case.gpu == "T4" and f.source != "paddleclas"]
    on_v100 = [f for f in paddle if f.case.gpu != "T4"]
    for what, seen in {
        "of nothing on a T4": [f for f in (*on_v100, *others) if f.case.gpu != "T4"],
        "of what others published on a T4": list(dict.fromkeys([*on_v100, *others, *on_t4])),
    }.items():
        found.append(_plain_row(f"T4, PaddleClas at fp32 from its V100 and {what}", seen, left, spreads))
    return ["| what | figures | median error | p90 |", "|---|---:|---:|---:|", *found]


def _plain_row(name: str, seen: Sequence[Figure], left: Sequence[Figure], spreads: Spreads) -> str:
    told = fit(seen, spreads)
    errors = np.abs([told.log_time(f.case, f.gpu).mean - f.log_s for f in left])
    middle, p90 = (expm1(float(np.quantile(errors, q))) for q in (0.5, 0.9))
    return f"| {name} | {len(left):,} | {middle:.1%} | {p90:.0%} |".replace("%", " %")


def _sample_s(some: Sequence[Figure]) -> float:
    return median(exp(figure.log_s) / figure.case.batch for figure in some)


def _full_batches(known: Sequence[Figure], model: str, gpu: str) -> list[Figure]:
    return [
        figure
        for figure in known
        if (figure.case.architecture, figure.case.gpu) == (model, gpu)
        if (figure.case.precision, figure.case.runtime) == ("int8", RATIO_RUNTIME)
        if figure.case.full or figure.case.batch >= LARGE_BATCH
    ]
