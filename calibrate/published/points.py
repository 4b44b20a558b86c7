"""Points: public measurements of inference, read from the files that `benchmarks.making.points` writes."""

import csv
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from calibrate.io.tables import table
from simulator.grouping import grouped

DATA = Path(__file__).parent / "data"
FULL = "full"
"""Batch of a throughput that was published without saying at which batch."""
COLUMNS = (
    "architecture",
    "input",
    "gpu",
    "precision",
    "runtime",
    "batch",
    "latency_s",
    "statistic",
    "source",
    "place",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A publication at one state."""

    id: str
    repository: str
    commit: str
    as_of: str
    """ISO date, or year and month, on or before which it was published; empty: not known."""
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPoint:
    """A figure of one model on one GPU at one batch size."""

    architecture: str
    input: str
    gpu: str
    precision: str
    """At which it ran: where a source leaves software its own default, that default (`tf32` on Orin)."""
    runtime: str
    batch: int | None
    """None: a throughput at a batch that is not stated, the largest that paid."""
    latency_s: float
    """Of the batch; where that is None, of one sample."""
    statistic: str
    """`mean`, `p50`, `p90`; `throughput` where it is batch size over samples a second."""
    source: str
    """Id of a `Source`."""
    place: str
    """File and line in the source."""

    @property
    def sample_s(self) -> float:
        """Seconds for each sample. A batch of 8 in 40 ms: 5 ms."""
        return self.latency_s / (self.batch or 1)


def points(architecture: str = "", gpu: str = "") -> Iterator[PublishedPoint]:
    """Those of an architecture and a GPU, by the names of `calibrate.published.names`; empty: of all."""
    of_all = _points_of(architecture) if architecture else _read("", gpu)
    return (point for point in of_all if not gpu or point.gpu == gpu)


@lru_cache(maxsize=256)
def _points_of(architecture: str) -> tuple[PublishedPoint, ...]:
    """Those of an architecture, read once."""
    return tuple(_read(architecture))


def _read(architecture: str, gpu: str = "") -> Iterator[PublishedPoint]:
    """Those of an architecture, or of lines that name a GPU: to read every line takes long."""
    lines = _of_architectures().get(architecture, ()) if architecture else _lines()
    return map(_point, csv.reader(line for line in lines if gpu in line))


@cache
def sources() -> dict[str, Publication]:
    """Sources by id."""
    return {row["id"]: Publication(**row) for row in table(DATA / "sources.csv")}


@cache
def _lines() -> Sequence[str]:
    """All, without their columns; the last are those that only a publisher's page has, whose rows are by hand."""
    with gzip.open(DATA / "points.csv.gz", "rt", encoding="utf-8") as file:
        _, *collected = file.read().splitlines()
    _, *of_processors = (DATA / "processors.csv").read_text(encoding="utf-8").splitlines()
    return collected + of_processors


@cache
def _of_architectures() -> Mapping[str, Sequence[str]]:
    """The same by architecture, the first column."""
    return grouped((line.partition(",")[0], line) for line in _lines())


def _point(row: Sequence[str]) -> PublishedPoint:
    architecture, size, gpu, precision, runtime, batch, latency_s, statistic, source, place = row
    return PublishedPoint(
        architecture=architecture,
        input=size,
        gpu=gpu,
        precision=precision,
        runtime=runtime,
        batch=None if batch == FULL else int(batch),
        latency_s=float(latency_s),
        statistic=statistic,
        source=source,
        place=place,
    )
