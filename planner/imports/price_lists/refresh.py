"""Refreshing: public price lists, fetched only when somebody asks."""

from datetime import UTC, datetime
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from calibrate.io.files import LARGEST_BYTES, printable
from planner.imports.price_lists.lists import SourceFile
from planner.model.choices import PublicList
from simulator.errors import InputError

SKYPILOT = "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v8"
URLS = {name: f"{SKYPILOT}/{name}/vms.csv" for name in PublicList}
"""Address of each list: SkyPilot's, which is made anew every few hours and needs no account."""
PATIENCE_S = 60


def fetch(url: str) -> bytes:
    """What lies at an address; InputError, in one line, where nothing can be had."""
    if not url.startswith(("https://", "http://")):
        raise InputError(f"{printable(url)}: is no web address. Write one that begins with https://.")
    try:
        with urlopen(Request(url, headers={"User-Agent": "gpu-capacity-planner"}), timeout=PATIENCE_S) as answer:
            raw: bytes = answer.read(LARGEST_BYTES + 1)
    except (HTTPException, URLError, OSError, ValueError) as error:
        if isinstance(error, HTTPError):  # an answer, which holds its connection
            error.close()
        why = " ".join(str(getattr(error, "reason", error)).split())[:200]
        remedy = "Download it, and `planner prices import` it"
        raise InputError(f"{printable(url)}: cannot be fetched: {why}. {remedy}.") from None
    if len(raw) > LARGEST_BYTES:
        raise InputError(f"{url}: holds more than {LARGEST_BYTES // 1_000_000} MB. Name the list of one region.")
    return raw


def fetched(name: PublicList, url: str | None) -> SourceFile:
    """A public list as it is today, from its own address or another."""
    address = url or URLS[name]
    return SourceFile(address, fetch(address), None, name, None, datetime.now(UTC).date().isoformat())
