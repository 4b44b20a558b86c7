"""Lists: which tool wrote a price list, what it changes, and the prices.csv that plans take."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from calibrate.io.files import FileError, named, parse_json, put, quoted, read_bytes, read_text
from calibrate.io.tables import csv_text
from planner.catalog.catalog import Catalog
from planner.catalog.price_table import COLUMNS
from planner.catalog.sold import OWN
from planner.imports.price_lists import documents, readers
from planner.imports.price_lists.rows import Key, ListedPrice, ListFile, apart, dearer, instance_name, joined
from planner.imports.texts import decoded
from planner.model.choices import PriceKind, PriceListFormat
from simulator.errors import InputError

Reader = Callable[..., Iterable[ListedPrice | str]]
"""Gives prices, and names of what the catalog does not have."""


def _newest_of(rows: Callable[[ListFile], Iterable[tuple[int, ListedPrice | str]]]) -> Reader:
    return lambda file: readers.newest(file, rows(file))


TABLES: Mapping[PriceListFormat, tuple[Sequence[str], Reader]] = {
    PriceListFormat.PRICES: (COLUMNS, _newest_of(readers.ours)),
    PriceListFormat.SKYPILOT: (readers.SKYPILOT, lambda file: apart(readers.skypilot(file))),
    PriceListFormat.GPUHUNT: (readers.GPUHUNT, lambda file: apart(readers.gpuhunt(file))),
    PriceListFormat.CSV: (readers.PLAIN, _newest_of(readers.plain)),
}
"""By the columns that tell them."""
DOCUMENTS: Mapping[PriceListFormat, tuple[Set[str], Reader]] = {
    PriceListFormat.AWS: ({"products", "terms"}, documents.aws),
    PriceListFormat.AZURE: ({"Items"}, documents.azure),
    PriceListFormat.INFRACOST: ({"projects"}, documents.infracost),
}
"""By the keys that tell them."""
Said = tuple[ListFile, list[ListedPrice | str]]
"""A list and its rows."""
PROVIDERS = {PriceListFormat.AWS: "aws", PriceListFormat.AZURE: "azure"}
GENERIC = ("vms", "prices", "catalog", "index")
"""Names of files that say no provider; their folder does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceDifference:
    """A price that a list adds or changes."""

    provider: str
    region: str
    instance: str
    price_kind: PriceKind
    old_usd_per_hour: float | None
    """Upper end; None: there was none."""
    new_usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceDoubt:
    """A price of a GPU that is far from all others of its kind."""

    instance: str
    gpu: str
    usd_per_hour: float
    """Of one GPU, as are the others."""
    usual: float
    """The middle of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceImport:
    """What lists say beside what was known."""

    path: Path
    prices: int
    """How many they hold of known kinds of GPU."""
    changes: tuple[PriceDifference, ...]
    unknown: tuple[str, ...]
    """GPUs or instances that the catalog does not have."""
    doubtful: tuple[PriceDoubt, ...] = ()
    free: int = 0
    """How many prices of 0 were left out."""
    ranges: tuple[ListedPrice, ...] = ()
    """Prices of one thing of which the dearest counts."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A list as it came: its bytes, its name, and what a person or a source says of it."""

    name: str
    raw: bytes
    form: PriceListFormat | None = None
    provider: str | None = None
    region: str | None = None
    as_of: str | None = None
    """The day of its prices, as somebody says."""
    written_on: str | None = None
    """The day of the file, for lists that do not say theirs."""


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files; of folders, the CSV and JSON files in them."""
    found: list[Path] = []
    for path in paths:
        inside = (file for file in path.rglob("*") if file.suffix in (".csv", ".json"))
        found += sorted(inside) if path.is_dir() else [path]
    if not found:
        raise InputError(f"{paths[0]}: holds no .csv or .json. Name a folder of price lists.")
    return found


def read_source(
    path: Path, form: PriceListFormat | None, provider: str | None, region: str | None, as_of: str | None
) -> SourceFile:
    """A file of this machine."""
    with named(path, "Name a price list"):
        raw = read_bytes(path)
    written_on = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    stem = path.stem if path.stem.lower() not in GENERIC else path.resolve().parent.name
    seller = instance_name(stem).lower() if provider is None else _cleaned("--provider", provider)
    return SourceFile(str(path), raw, form, seller, region and _cleaned("--region", region), as_of, written_on)


def _cleaned(option: str, written: str) -> str:
    if name := instance_name(written):
        return name
    raise InputError(f"{option} {quoted(written)}: has no letter and no digit. Write a name that has.")


def _sourced(prices: Mapping[Key, ListedPrice], source: SourceFile, file: ListFile) -> dict[Key, ListedPrice]:
    """Prices with their day and the list that they come from, where they do not name another."""
    digest = sha256(source.raw).hexdigest()[:16]
    text = f"{Path(source.name).name} (sha256 {digest})"
    day = file.day(source.as_of or file.as_of or source.written_on or "", "Write --as-of 2026-07-20")
    return {key: replace(price, as_of=price.as_of or day, source=price.source or text) for key, price in prices.items()}


def _put(found: dict[Key, ListedPrice], prices: Mapping[Key, ListedPrice]) -> None:
    """Prices of one more list: of each thing the newest counts, of one day the dearer."""
    for key, price in prices.items():
        known = found.get(key)
        if known is None or price.as_of > known.as_of:
            found[key] = price
        elif price.as_of == known.as_of:
            found[key] = dearer(known, price)


def import_prices(sources: Sequence[SourceFile], out: Path, catalog: Catalog) -> PriceImport:
    """Prices of lists put into `out`/prices.csv, in place of older ones of the same thing; others there stay."""
    target = out / "prices.csv"
    kept = _rows_of(target)
    found: dict[Key, ListedPrice] = {}
    unknown: dict[str, None] = {}
    free = 0
    for source in sources:
        file, rows_read = _read(source, catalog)
        prices = joined(file, (one for one in rows_read if isinstance(one, ListedPrice)))
        _demand_named(file, prices.values())
        unknown |= dict.fromkeys(one for one in rows_read if isinstance(one, str))
        free += len(file.free)
        _put(found, _sourced(prices, source, file))
    if not found:
        listed = f" that the catalog has; unknown: {', '.join([*unknown][:6])}" if unknown else ""
        remedy = "Add kinds with `planner gpus add`, and name their folder with `--catalog`, or name another list"
        raise InputError(f"{sources[0].name}: no price of a GPU{listed}. {remedy}.")
    changes = _changes(found, kept, catalog)
    rows = kept | {key: price.as_row() for key, price in found.items()}
    text = csv_text(COLUMNS, sorted(rows.values()))
    put(target, text.encode(), InputError, "Name another folder with --out")
    doubtful = tuple(_doubtful(found, catalog))
    return PriceImport(
        path=target,
        prices=len(found),
        changes=changes,
        unknown=tuple(unknown),
        doubtful=doubtful,
        free=free,
        ranges=tuple(price for _, price in sorted(found.items()) if price.cheapest),
    )


def _demand_named(file: ListFile, prices: Iterable[ListedPrice]) -> None:
    """InputError where a price is of nobody, or of nothing."""
    nameless = next((one for one in prices if not (one.provider and one.instance)), None)
    if nameless:
        wrong = f"names no {'instance' if nameless.provider else 'provider'} by letters or digits"
        raise file.refuse(wrong, "Mend the file, or write --provider")
    if any(one.provider == OWN for one in prices):
        raise file.refuse(
            "names the provider `own`, which means machines of your own", "Mend the file, or write another --provider"
        )


def _read(source: SourceFile, catalog: Catalog) -> Said:
    with named(source.name, "Save it as UTF-8, or name another file"):
        text = decoded(source.raw)
    file = ListFile(
        source.name,
        text,
        source.provider or "",
        source.region or "any",
        catalog.gpus,
        catalog.instances,
        seen_on=source.as_of or source.written_on or "",
    )
    if not text.strip():
        raise file.refuse("is empty", "Name a price list")
    return (_document if text.lstrip()[:1] in ("{", "[") else _table)(file, source.form)


def _table(file: ListFile, form: PriceListFormat | None) -> Said:
    file.demand_commas()
    found = form or next((name for name, (needed, _) in TABLES.items() if {*needed} <= {*file.columns}), None)
    if found is None:
        raise file.refuse("is of no format that is known by its content", KNOWN)
    if found not in TABLES:
        raise file.refuse(f"is no JSON, and lists of {found} are", OTHER)
    return file, list(TABLES[found][1](file))


OTHER = "Name another file, or leave out --format"
KNOWN = f"Name its format with --format, one of {', '.join(PriceListFormat)}"


def _document(file: ListFile, form: PriceListFormat | None) -> Said:
    data = _parsed(file)
    keys = data.keys() if isinstance(data, dict) else set()
    found = form or next((name for name, (needed, _) in DOCUMENTS.items() if needed <= keys), None)
    if found is None:
        raise file.refuse("is of no format that is known by its content", KNOWN)
    if found not in DOCUMENTS:
        raise file.refuse(f"is JSON, and lists of {found} are tables", OTHER)
    if lacking := sorted(DOCUMENTS[found][0] - keys):
        raise file.refuse(f"has no `{lacking[0]}`, as lists of {found} have", OTHER)
    named = replace(file, provider=PROVIDERS.get(found, file.provider), as_of=documents.day(data))
    try:
        return named, list(DOCUMENTS[found][1](named, data))
    except (KeyError, TypeError, AttributeError) as error:
        raise file.refuse(f"is no {found} list: {type(error).__name__} at {error}", "Download it again") from None


def _parsed(file: ListFile) -> Any:
    try:
        with named(file.path, "Name another file"):
            return documents.whole(parse_json(file.text.encode()))
    except (KeyError, TypeError, AttributeError):
        raise file.refuse("has products without `product` and `terms`", "Save all that get-products prints") from None


def _rows_of(path: Path) -> dict[Key, tuple[str, ...]]:
    """Rows of a prices.csv that is there."""
    if not path.exists():
        return {}
    try:
        file = ListFile(str(path), read_text(path))
    except FileError:
        raise InputError(f"{path}: is no prices.csv. Name another folder with --out.") from None
    found = {}
    for line, row in file.table(COLUMNS):
        if file.usd(row["usd_per_hour_high"], line) is None:
            raise file.refuse("has no usd_per_hour_high", "Mend the line, or name another folder with --out", line)
        key = (row["provider"], row["region"], row["instance"], row["price_kind"])
        found[key] = tuple(row[column] for column in COLUMNS)
    return found


def _changes(
    found: Mapping[Key, ListedPrice], kept: Mapping[Key, Sequence[str]], catalog: Catalog
) -> tuple[PriceDifference, ...]:
    """Prices that are not as they were in the folder, else in the catalog."""
    known = {
        (one.provider, one.region, one.name, kind.value): price.usd_per_hour
        for one in catalog.instances
        for kind, price in one.prices.items()
    }
    high = COLUMNS.index("usd_per_hour_high")
    known |= {key: float(row[high]) for key, row in kept.items()}
    return tuple(
        PriceDifference(
            provider=price.provider,
            region=price.region,
            instance=price.instance,
            price_kind=price.price_kind,
            old_usd_per_hour=known.get(key),
            new_usd_per_hour=price.high,
        )
        for key, price in sorted(found.items())
        if key not in known or abs(known[key] / price.high - 1) > UNCHANGED
    )


def _doubtful(found: Mapping[Key, ListedPrice], catalog: Catalog) -> Iterator[PriceDoubt]:
    """Prices for each GPU that are `FAR` times, or one in so many, of the middle of all others of its kind."""
    by_kind: dict[tuple[str, PriceKind], dict[Key, float]] = {}
    for one in catalog.instances:
        for kind, price in one.prices.items():
            key = (one.provider, one.region, one.name, kind.value)
            by_kind.setdefault((one.gpu, kind), {})[key] = price.usd_per_hour / one.gpu_count
    for key, listed in found.items():
        by_kind.setdefault((listed.gpu, listed.price_kind), {})[key] = listed.high / listed.gpu_count
    middle = {kind: median(each.values()) for kind, each in by_kind.items()}
    for key, listed in found.items():
        each = by_kind[listed.gpu, listed.price_kind]
        if not 1 / FAR < each[key] / middle[listed.gpu, listed.price_kind] < FAR:
            usual = median(usd for other, usd in each.items() if other != key)
            yield PriceDoubt(instance=listed.instance, gpu=listed.gpu, usd_per_hour=each[key], usual=usual)


FAR = 10.0
"""Times the middle price of a kind of GPU: the dearest that is shipped is 4.5 times it (T4)."""
UNCHANGED = 1e-5
"""Share by which a price may differ and be the same, for lists are written with six digits."""
