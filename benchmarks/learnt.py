"""How far the learnt predictor errs where a batch, a pair, a chip or a family was left out; for docs/prediction.md."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import expm1

import numpy as np

from planner.catalog.offers import load_catalog
from planner.prediction.learning import LEFT_OUT, HeldOut, figures, held_out, widening
from planner.prediction.learnt import SMALL_MAX
from planner.prediction.transfer import SPREAD_80

GROUP_MIN = 50
PAIR = "a model on a GPU"


def learnt_table() -> list[str]:
    """Markdown rows: what was left out, figures, errors, and the share that lies in the 80 % band."""
    gpus = load_catalog().gpus
    errors = list(held_out(figures(gpus), gpus))
    wider = widening(errors)
    rows = [row("all", errors, wider)]
    for what in LEFT_OUT:
        some = [e for e in errors if e.what == what]
        rows.append(row(f"left out: {what}", some, wider))
        rows.append(row(f"- batch up to {SMALL_MAX}", [e for e in some if e.figure.case.batch <= SMALL_MAX], wider))
        rows.append(row("- larger", [e for e in some if e.figure.case.batch > SMALL_MAX], wider))
    pairs = [e for e in errors if e.what == PAIR]
    for name, of in GROUPS.items():
        for value, count in Counter(map(of, pairs)).most_common():
            if count >= GROUP_MIN:
                rows.append(row(f"{PAIR}, {name} {value}", [e for e in pairs if of(e) == value], wider))
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


def row(name: str, some: Sequence[HeldOut], wider: dict[str, float]) -> str:
    """One line of the table."""
    sizes = np.abs([e.error for e in some])
    halves = [SPREAD_80 * e.sd * wider[key(e)] for e in some]
    inside = float(np.mean(sizes <= halves))
    median, p90 = (expm1(float(np.quantile(sizes, q))) for q in (0.5, 0.9))
    return f"| {name} | {len(some):,} | {median:.1%} | {p90:.0%} | {inside:.0%} |".replace("%", " %")


def key(error: HeldOut) -> str:
    """Of the widening that applies."""
    return f"{error.nearness} {'small' if error.figure.case.batch <= SMALL_MAX else 'large'}"
