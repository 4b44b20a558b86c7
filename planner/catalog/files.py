"""Files of the catalog: gpus.yaml and prices.yaml as they stand on disk, checked, each error at its line."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from calibrate.io.files import printable
from calibrate.io.reader import is_date
from planner.io.schemas import kind_of
from planner.io.strict_yaml import EmptyYaml, YamlDocument, YamlError, parse, read_text
from planner.model.checked import adapter
from planner.model.choices import PriceKind
from planner.model.parts.fields import Name
from planner.units.errors import UNKNOWN_KEY, dotted, message, shown
from planner.units.reading import did_you_mean
from simulator.near import known_ones
from simulator.world.hardware import GPU

Place = tuple[str | int, ...]
"""Where something stands in a document: keys and indices, outermost first."""


class SaleStatus(StrEnum):
    """Availability of an instance."""

    ACTIVE = "active"
    RETIRED = "retired"
    """Still in the price list, no longer sold."""
    UNCLEAR = "unclear"
    """Nobody says for sure that it can be had at this price: shown, and offered only where it is named."""


def _iso(value: object) -> str:
    """A date as it stands in the file."""
    if isinstance(value, str) and is_date(value):
        return value
    raise ValueError(f"must be a date, got {shown(value)}. Write it as 2026-07-20.")


SHIPPED = Path(__file__).parent / "data"
KINDS_LISTED = "`planner gpus show`"
"""What lists all kinds of GPU."""
FORBID = {"extra": "forbid"}
IsoDate = Annotated[str, BeforeValidator(_iso)]
Text = Annotated[str, Field(min_length=1, max_length=500)]
Count = Annotated[int, Field(ge=1, le=64)]
Usd = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
# Ends a factor of ten or so beyond all that is made, from one core to a superchip: another unit is seen.
Gigabytes = Annotated[float, Field(ge=0.1, le=1e5, allow_inf_nan=False)]
GigabytesPerSecond = Annotated[float, Field(ge=0.1, le=1e5, allow_inf_nan=False)]
Tflops = Annotated[float, Field(ge=0.01, le=1e5, allow_inf_nan=False)]
VectorTflops = Annotated[float, Field(ge=0.01, le=2e3, allow_inf_nan=False)]
Watts = Annotated[float, Field(ge=0.1, le=1e4, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEntry:
    """A kind of GPU as it stands in gpus.yaml."""

    __pydantic_config__ = FORBID
    chip: Name | None = None
    """Where other kinds have the same one."""
    memory_gb: Gigabytes
    memory_bandwidth_gb_per_s: GigabytesPerSecond
    fp32_tflops: VectorTflops
    tensor_fp16_tflops: Tflops | None = None
    """With sums in fp32, as PyTorch has them."""
    tensor_tf32_tflops: Tflops | None = None
    tensor_int8_tops: Tflops | None = None
    tensor_fp8_tflops: Tflops | None = None
    l2_mb: Annotated[float, Field(ge=0.01, le=1e4)] | None = None
    sm_count: Annotated[int, Field(ge=1, le=10_000)] | None = None
    decoders: Annotated[int, Field(ge=0, le=64)] | None = None
    """NVDEC engines."""
    encoders: Annotated[int, Field(ge=0, le=64)] | None = None
    """NVENC engines."""
    encode_sessions: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Most streams that the driver encodes at once in a machine; None: as many as fit."""
    cores: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Of a processor: those of one process, a thread on each; all other figures are its share."""
    assumed: tuple[str, ...] = ()
    """Figures that were recalled, not looked up."""
    tdp_w: Watts
    idle_w: Watts | None = None
    pcie_gb_per_s: GigabytesPerSecond
    nvlink_gb_per_s: GigabytesPerSecond | None = None
    compute_capability: str = ""
    source: Text | None = None
    """The file's, where not given."""
    note: Text | None = None

    def __post_init__(self) -> None:
        if self.idle_w is not None and self.idle_w >= self.tdp_w:
            raise ValueError("idle_w must be below tdp_w. Write both in watts.")
        if unknown := [name for name in self.assumed if getattr(self, name, None) is None]:
            raise ValueError(f"assumed names {unknown[0]}, which has no figure here. Leave it out.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFile:
    """gpus.yaml."""

    __pydantic_config__ = FORBID
    source: Text
    assumed_idle_share_of_tdp: Annotated[float, Field(gt=0, lt=1)] | None = None
    gpus: dict[Name, GpuEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEntry:
    """Where prices were read, and when."""

    __pydantic_config__ = FORBID
    title: Text
    as_of: IsoDate


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceEntry:
    """A price: by the hour, a range by the hour, or for the whole term of a reservation."""

    __pydantic_config__ = FORBID
    usd_per_hour: Usd | None = None
    usd_per_hour_low: Usd | None = None
    usd_per_hour_high: Usd | None = None
    usd_in_all: Usd | None = None
    source: str
    """One of the file's sources."""

    @property
    def usd_per_hour_range(self) -> tuple[float, float] | None:
        """Its ends; None where it is one price."""
        low, high = self.usd_per_hour_low, self.usd_per_hour_high
        return None if low is None or high is None else (low, high)

    def __post_init__(self) -> None:
        low, high = self.usd_per_hour_low, self.usd_per_hour_high
        if (low is None) != (high is None) or (low is not None and high is not None and low > high):
            raise ValueError("needs usd_per_hour_low and usd_per_hour_high, the low one first. Write both.")
        if sum(value is not None for value in (self.usd_per_hour, low, self.usd_in_all)) != 1:
            raise ValueError(
                "needs exactly one of usd_per_hour, usd_per_hour_low with usd_per_hour_high, and usd_in_all. Write one."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEntry:
    """An instance as it stands in prices.yaml."""

    __pydantic_config__ = FORBID
    provider: Name
    region: Name
    instance: Name
    gpu: Name
    gpu_count: Count
    host_memory_gb: Gigabytes | None = None
    status: SaleStatus = SaleStatus.ACTIVE
    prices: Annotated[dict[PriceKind, PriceEntry], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseEntry:
    """A machine that can be bought, as it stands in prices.yaml."""

    __pydantic_config__ = FORBID
    machine: Name
    gpu: Name
    gpu_count: Count
    usd: Usd
    power_w: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    """Most that the whole machine draws; the limits of its GPUs where not given."""
    status: SaleStatus = SaleStatus.ACTIVE
    """`retired`: no longer made."""
    source: str
    """One of the file's sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFile:
    """prices.yaml."""

    __pydantic_config__ = FORBID
    sources: dict[Name, SourceEntry]
    instances: tuple[InstanceEntry, ...] = ()
    purchases: tuple[PurchaseEntry, ...] = ()


WRITTEN = {GpuFile: "the shipped gpus.yaml", PriceFile: "the shipped prices.yaml"}
ENTRIES = (GpuFile, GpuEntry, PriceFile, SourceEntry, PriceEntry, InstanceEntry, PurchaseEntry)


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """A file of the catalog that has been read, and all that is wrong with it."""

    path: Path
    document: YamlDocument
    entries: Any
    errors: list[str]

    def say(self, where: Place, message: str) -> None:
        """Notes an error at that path of the document."""
        self.errors.append(_line(self.path, self.document, where, message))

    def expect(self, where: Place, name: str, known: set[str]) -> None:
        """Notes an error where a name is none of those known."""
        if name not in known:
            self.say(where, f"`{name}` is not known.{instead(name, known, 'name one of them')}")

    def expect_gpus(self, gpus: Mapping[str, GPU]) -> None:
        """Notes an error for each machine whose kind of GPU is not known; whole kinds are hinted at."""
        whole = {kind for kind, gpu in gpus.items() if not gpu.mig_profile}
        for part in ("instances", "purchases"):
            for i, entry in enumerate(getattr(self.entries, part)):
                if entry.gpu not in gpus:
                    self.say((part, i, "gpu"), f"`{entry.gpu}` is not known.{instead(entry.gpu, whole, KINDS_LISTED)}")

    def source(self, where: Place, name: str) -> SourceEntry | None:
        """The source of that name; where there is none an error is noted."""
        self.expect((*where, "source"), name, set(self.entries.sources))
        found: SourceEntry | None = self.entries.sources.get(name)
        return found


def read_all(paths: Sequence[Path], schema: type, errors: list[str]) -> list[CatalogFile]:
    """Those of the files that exist and are well formed; `errors` takes a line for each thing that is wrong."""
    return [file for path in paths if path.exists() and (file := _read(path, schema, errors))]


def _read(path: Path, schema: type, errors: list[str]) -> CatalogFile | None:
    try:
        document = parse(read_text(path))
        if document.data is None:
            raise EmptyYaml
    except EmptyYaml:
        errors.append(f"{path}: is empty. Write it like {WRITTEN[schema]}, or leave it out.")
        return None
    except YamlError as error:
        errors.extend(f"{path}:{p.line}:{p.column}: {p.message}" for p in error.problems)
        return None
    except ValueError as error:
        errors.append(f"{path}: {error}")
        return None
    if what := another_kind(document.data):
        errors.append(f"{path}: is {what}. Name a file like {WRITTEN[schema]}.")
        return None
    errors.extend(f"{path}:{p.line}:{p.column}: {p.message}" for p in document.problems)
    try:
        entries = adapter(schema).validate_json(json.dumps(document.data), strict=True)
        return CatalogFile(path, document, entries, errors)
    except ValidationError as error:
        errors.extend(_explain(path, document, problem, schema) for problem in error.errors())
        return None


def another_kind(data: object) -> str:
    """The kind of a document that was named by mistake: an answer or a scenario; empty where it is neither."""
    if not isinstance(data, dict):
        return ""
    if kind_of(data) is not None:
        return f"an answer (`{data['schema']}`)"
    return "a scenario" if "models" in data or "streams" in data else ""


def _line(path: Path, document: YamlDocument, where: Place, text: str, at_key: bool = False) -> str:
    """`prices.yaml:12:6: instances[3].gpu_count: must be ...`, at the nearest place that stands in the file."""
    where = tuple(part for part in where if part != "[key]")
    line, column = document.place(where, at_key=at_key)
    sentence = f"{dotted(where)}: {text}" if where else text
    # Texts of the file may hold line breaks; an error is one line.
    return f"{path}:{line}:{column}: {printable(sentence)}"


def _explain(path: Path, document: YamlDocument, problem: Any, schema: type) -> str:
    """One error of pydantic as a line."""
    kind, where = problem["type"], problem["loc"]
    if kind != UNKNOWN_KEY:
        return _line(path, document, where, message(where, kind, problem, schema), at_key=where[-1:] == ("[key]",))
    key, known = str(where[-1]), {field.name for entry in ENTRIES for field in fields(entry)}
    if key in known:
        return _line(path, document, where, f"unknown key here. Write the file like {WRITTEN[schema]}.", at_key=True)
    hint = did_you_mean(key, sorted(known)) or " Leave it out."
    return _line(path, document, where, f"unknown key.{hint}", at_key=True)


def instead(name: str, known: set[str], listing: str) -> str:
    """A hint at what was meant, or at what is known; `A100` may be the beginning of two names."""
    if longer := [f"`{word}`" for word in sorted(known) if word.startswith(name)]:
        return f" Did you mean {' or '.join(longer[:4])}?"
    return did_you_mean(name, sorted(known)) or known_ones(name, sorted(known), listing)
