"""Accuracy: what published models lose at a lower precision, each figure with its source."""

from dataclasses import dataclass
from functools import cache

from calibrate.io.tables import table
from calibrate.published import names
from calibrate.published.points import DATA, sources

EXACT = ("fp32", "tf32", "torch")
"""Precisions at which models are published: what they cost is in every figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAccuracy:
    """One model at one precision, beside the same at fp32."""

    architecture: str
    metric: str
    """`top-1`, `F1`, `COCO mAP`, in percent."""
    precision: str
    runtime: str
    method: str
    """`quantized after training`, `trained quantized`, or a bound: `at least by MLPerf's rules`."""
    reference: float
    """At fp32."""
    value: float
    source: str
    as_of: str

    @property
    def lost(self) -> float:
        """Points. 76.15 % at fp32 and 75.98 %: 0.17."""
        return self.reference - self.value


def accuracies(model: str, precision: str = "") -> tuple[PublishedAccuracy, ...]:
    """All that is published of a model, at one precision or any; those that lose most first."""
    architecture = names.architecture(model)
    found = (a for a in _all() if a.architecture == architecture and precision in ("", a.precision))
    return tuple(sorted(found, key=lambda a: -a.lost))


def accuracy(model: str, precision: str, runtime: str) -> PublishedAccuracy | None:
    """The one to expect: in that runtime if there is any, not trained for it, of those the one that loses most."""
    found = accuracies(model, precision)
    plain = [a for a in found if a.method != "trained quantized"] or found
    return next((a for a in plain if a.runtime == runtime), plain[0] if plain else None)


@cache
def _all() -> tuple[PublishedAccuracy, ...]:
    return tuple(map(_read, table(DATA / "accuracy.csv")))


def _read(row: dict[str, str]) -> PublishedAccuracy:
    source = sources()[row["source"]]
    return PublishedAccuracy(
        architecture=row["architecture"],
        metric=row["metric"],
        precision=row["precision"],
        runtime=row["runtime"],
        method=row["method"],
        reference=float(row["reference"]),
        value=float(row["value"]),
        source=source.title,
        as_of=source.as_of,
    )
