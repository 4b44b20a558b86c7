"""How far the learnt predictor errs where a batch, a pair, a chip or a family was left out; for docs/prediction.md."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, expm1, log
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.making.fitting import Figure, Fit, Floats, Integers, Spreads, figures, fit
from benchmarks.making.learning import LEFT_OUT, PUBLICATION, HeldOut, errors_of, held_out, widening
from planner.catalog.catalog import load_catalog
from planner.prediction.effects import chip
from planner.prediction.learnt import OWN_SOFTWARE_SD, SMALL_MAX, Software, learnt
from planner.prediction.rules.bands import SPREAD_80

GROUP_MIN = 50
HEAD = ("| what | figures | median error | p90 | in the 80 % band |", "|---|---:|---:|---:|---:|")
PAIR = "a model on a GPU"
FOLDS = 3
"""Widths of bands are those that errors of two thirds of the pairs of model and GPU ask for, judged by the rest."""
REFERENCE = "A100-80GB-PCIe"
MLPERF_GPUS = ("T4", "A10", "L4", "A30", "L40S", "H100", "H200")
MLPERF_MODELS = ("resnet50", "bert_large")
RATIO_RUNTIME = "tensorrt"
LARGE_BATCH = 32
PROBES = 5
PAIRS_MIN = 20
"""Figures of a chip in a runtime from which their errors say something."""


def whole_fit() -> Fit:
    """All published points, at the spreads that are shipped."""
    return fit(figures(load_catalog().gpus), Spreads(learnt().spreads, learnt().noise), learnt())


def learnt_table(fitted: Fit) -> list[str]:
    """Markdown rows: what was left out, figures, errors, and the share that lies in the 80 % band."""
    errors = held_out_with_bands(list(held_out(fitted)))
    rows = [row("all", errors)]
    for what in LEFT_OUT:
        some = [e for e in errors if e.what == what]
        rows.append(row(f"left out: {what}", some))
        rows.append(row(f"- batch up to {SMALL_MAX}", [e for e in some if e.figure.case.batch <= SMALL_MAX]))
        rows.append(row("- larger", [e for e in some if e.figure.case.batch > SMALL_MAX]))
    here, elsewhere = other_software(fitted)
    rows.append(row("left out: a publisher, where others published of the runtime on the GPU", here))
    rows.append(row("left out: a publisher and the chip, where others published of the runtime", elsewhere))
    pairs = [e for e in errors if e.what == PAIR]
    for name, of in GROUPS.items():
        for value, count in Counter(map(of, pairs)).most_common():
            if count >= GROUP_MIN:
                rows.append(row(f"{PAIR}, {name} {value}", [e for e in pairs if of(e) == value]))
    return [*HEAD, *rows]


def other_software(fitted: Fit) -> tuple[list[HeldOut], list[HeldOut]]:
    """Errors beside figures of a publisher that is left out, and where the chip is left out with it, in bands as
    `planner predict` tells them where others published of the runtime: on the GPU, and elsewhere.

    All rounds of MLPerf are one publisher: the same submit again what they did before.
    """
    publishers = np.array([figure.source.partition("-v")[0] for figure in fitted.figures])
    chips = np.array([chip(figure.gpu) for figure in fitted.figures])
    here: list[HeldOut] = []
    elsewhere: list[HeldOut] = []
    for publisher in sorted(set(publishers)):
        own = publishers == publisher
        here += [e for e in errors_of(publisher, fitted, np.flatnonzero(own)) if _software(e) is Software.HERE]
        for name in sorted(set(chips[own])):
            there = chips == name
            left, judged = np.flatnonzero(own | there), np.flatnonzero(own & there)
            errors = errors_of(publisher, fitted, left, judged)
            elsewhere += [e for e in errors if _software(e) is not Software.UNKNOWN]
    shipped = learnt().widening
    return in_bands(here, shipped, OWN_SOFTWARE_SD), in_bands(elsewhere, shipped, OWN_SOFTWARE_SD)


def _software(error: HeldOut) -> Software:
    return error.by.software(error.figure.case)


def in_bands(errors: Iterable[HeldOut], widening: Mapping[str, float], own_software_sd: float = 0.0) -> list[HeldOut]:
    """With the spreads of bands that are told of them."""
    found, known = [], {}
    for error in errors:
        if id(error.by) not in known:
            known[id(error.by)] = replace(error.by, widening=widening, own_software_sd=own_software_sd)
        sd = known[id(error.by)].sd(error.figure.case, error.figure.gpu, error.told)
        found.append(replace(error, told=error.told._replace(sd=sd)))
    return found


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
        judged = [e for e in errors if fold[_pair(e)] == part]
        found += in_bands([e for e in judged if e.what != PUBLICATION], wider)
        found += in_bands([e for e in judged if e.what == PUBLICATION], wider, OWN_SOFTWARE_SD)
    return found


def _pair(error: HeldOut) -> str:
    return f"{error.figure.case.architecture} {error.figure.case.gpu}"


def row(name: str, some: Sequence[HeldOut]) -> str:
    """One line of the table."""
    sizes = [abs(e.error) for e in some]
    return line(name, sizes, [size <= SPREAD_80 * e.sd for size, e in zip(sizes, some, strict=True)])


def line(name: str, sizes: Sequence[float], inside: Sequence[bool]) -> str:
    """One line: how many, how far off in logarithms, and the share that lies in the band."""
    middle, p90 = (expm1(float(np.quantile(sizes, q))) for q in (0.5, 0.9))
    return f"| {name} | {len(sizes):,} | {middle:.1%} | {p90:.0%} | {np.mean(inside):.0%} |".replace("%", " %")


def ratios_table(fitted: Fit) -> list[str]:
    """Markdown rows: times of MLPerf's full batches over the A100's, as published and as told from all other points."""
    known = fitted.figures
    base = {model: _sample_s(_full_batches(known, model, REFERENCE)) for model in MLPERF_MODELS}
    rows = []
    for gpu in MLPERF_GPUS:
        left = _places(fitted, lambda f, on=gpu: f.case.gpu == on and f.case.architecture in MLPERF_MODELS)
        told = fitted.without(left, left)
        for model in MLPERF_MODELS:
            some = _full_batches(known, model, gpu)
            if not some:
                continue
            published = _sample_s(some) / base[model]
            sample_s = median(exp(told.log_time(f.case, f.gpu).mean) / f.case.batch for f in some)
            apart = exp(abs(log(sample_s / base[model] / published)))
            rows.append(
                f"| {model} | {gpu} | {len(some)} | {published:.2f} | {sample_s / base[model]:.2f} | {apart:.2f} |"
            )
    return ["| model | GPU | figures | published | told | times apart |", "|---|---|---:|---:|---:|---:|", *rows]


class Probed(NamedTuple):
    """Errors on a chip that is left out, all but so many of its models."""

    chip: str
    runtime: str
    probes: int
    errors: Floats

    @property
    def row(self) -> str:
        """One line of the table."""
        return _plain_row(f"{self.chip}, {self.runtime}, {self.probes} probes", self.errors)


def new_gpus_table(fitted: Fit) -> list[str]:
    """Markdown rows: a chip of which nothing was published, or only the five models that most others have; of models
    that the same publisher timed on another chip."""
    on = _chips_of_series(fitted)
    found = [one for name in sorted({chip(f.gpu) for f in fitted.figures}) for one in _new_chip(fitted, name, on)]
    together = [
        _plain_row(
            f"all of these, {probes} probes", np.concatenate([one.errors for one in found if one.probes == probes])
        )
        for probes in (0, PROBES)
    ]
    head = ["| what | figures | median error | p90 |", "|---|---:|---:|---:|"]
    return [*head, *together, *(one.row for one in found), *_paddle_rows(fitted)]


def _chips_of_series(fitted: Fit) -> list[set[str]]:
    """The chips on which whoever published a figure timed its model at that precision and runtime, by figure."""
    keys = [
        (f.source.partition("-v")[0], f.case.architecture, f.case.input, f.case.precision, f.case.runtime)
        for f in fitted.figures
    ]
    on: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for key, figure in zip(keys, fitted.figures, strict=True):
        on[key].add(chip(figure.gpu))
    return [on[key] for key in keys]


def _new_chip(fitted: Fit, name: str, on: Sequence[set[str]]) -> Iterator[Probed]:
    """In each runtime of the chip that has enough figures."""
    count = Counter(model for model, _ in {(f.case.architecture, f.case.gpu) for f in fitted.figures})
    on_chip = _places(fitted, lambda f: chip(f.gpu) == name)
    for runtime in sorted({fitted.figures[at].case.runtime for at in on_chip}):
        models = {
            at: fitted.figures[at].case.architecture for at in on_chip if fitted.figures[at].case.runtime == runtime
        }
        probes = sorted(set(models.values()), key=lambda model: (-count[model], model))[:PROBES]
        probed = [at for at, model in models.items() if model in probes]
        judged = np.array([at for at, model in models.items() if model not in probes and len(on[at]) > 1], int)
        if len(judged) < PAIRS_MIN:
            continue
        yield Probed(name, runtime, 0, _sizes(fitted, on_chip, judged))
        yield Probed(name, runtime, PROBES, _sizes(fitted, np.setdiff1d(on_chip, probed), judged))


def _paddle_rows(fitted: Fit) -> Iterator[str]:
    """PaddleClas on a T4 at fp32, of which nothing was seen there, or only what others published there."""
    on_t4 = _places(fitted, lambda f: f.case.gpu == "T4")
    of_paddle = _places(fitted, lambda f: f.case.gpu == "T4" and f.source == "paddleclas")
    judged = np.array([at for at in of_paddle if fitted.figures[at].case.precision == "fp32"])
    what = "T4, PaddleClas at fp32 from its V100 and of"
    yield _plain_row(f"{what} nothing on a T4", _sizes(fitted, on_t4, judged))
    yield _plain_row(f"{what} what others published on a T4", _sizes(fitted, of_paddle, judged))


def _sizes(fitted: Fit, left: Integers, judged: Integers) -> Floats:
    """How far those that are judged are off, in logarithms."""
    told = fitted.without(left, judged)
    some = [fitted.figures[at] for at in judged]
    return np.abs([told.log_time(f.case, f.gpu).mean - f.log_s for f in some])


def _plain_row(name: str, sizes: Floats) -> str:
    """One line: how many, and how far off in logarithms."""
    middle, p90 = (expm1(float(np.quantile(sizes, q))) for q in (0.5, 0.9))
    return f"| {name} | {len(sizes):,} | {middle:.1%} | {p90:.0%} |".replace("%", " %")


def _places(fitted: Fit, chosen: Callable[[Figure], bool]) -> Integers:
    return np.flatnonzero([chosen(figure) for figure in fitted.figures])


def _sample_s(some: Sequence[Figure]) -> float:
    return median(exp(figure.log_s) / figure.case.batch for figure in some)


def _full_batches(known: Sequence[Figure], model: str, gpu: str) -> list[Figure]:
    return [
        figure
        for figure in known
        if (figure.case.architecture, figure.case.gpu) == (model, gpu)
        if (figure.case.precision, figure.case.runtime) == ("int8", RATIO_RUNTIME)
        if figure.source.startswith("mlperf")
        if figure.case.full or figure.case.batch >= LARGE_BATCH
    ]
