"""The scenario of what another tool serves: YAML with a comment for all that a scenario does not hold.

The file says neither how often most models are asked nor their SLOs: whoever imports it says that.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrate.io.files import printable
from calibrate.layers.facts import known, named, shipped
from calibrate.library.lookup import Library
from calibrate.library.reading import PRECISIONS
from calibrate.zoo.sources import ZooError, contents, is_sourced, without_owner
from planner.imports.serving.found import TODO, Found, FoundModel, FoundStream
from planner.io.store import StoreError
from planner.show.document import Column, Document, Items, Rows, Section, Table, Text
from planner.units.writing import counted, names
from simulator.near import near_names

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*")
SCHEMA = "# yaml-language-server: $schema=scenario.schema.json"
STREAMS = (
    "# Of each model all that is asked together; `poisson` for people, `rate` and `count` for cameras.",
    "streams:",
)
BUY = (
    "# What may be rented; for machines of your own write `own`, and nothing is rented.",
    "buy:",
    "  price: on-demand # or spot, reserved-1y, reserved-3y",
    "  # own: [{name: server, gpu: A10G, gpu_count: 2, price: $1.20/h}]",
)


@dataclass(frozen=True, slots=True)
class Import:
    """What was found, with what the library knows of it."""

    found: Found
    library: Library

    @property
    def missing(self) -> str:
        """Facts that only the reader knows: `the rate of bert, the latency of bert`."""
        rates = [stream.model for stream in self.found.streams if stream.rate == TODO]
        latencies = [model.name for model in self.found.models]
        facts = (("rate", list(dict.fromkeys(rates))), ("latency", latencies))
        return ", ".join(f"the {kind} of {names(models)}" for kind, models in facts if models)

    @property
    def unknown(self) -> list[str]:
        """Models whose name stands for none that is known here."""
        return [model.name for model in self.found.models if ":" not in model.source and not self.is_known(model)]

    def is_known(self, model: FoundModel) -> bool:
        """True where its name is one of a package or a file, or of a profile or layers that are here."""
        return is_known(model.source, self.library)

    def text(self) -> str:
        """A commented scenario."""
        found = self.found
        said = [
            f"Made by `planner init --from` of {counted(len(found.models), 'model')} in {found.path.name},"
            f" {found.tool}.",
            f"Write what you know where {TODO} stands: {self.missing}.",
            *(f"Left out: {line}" for line in found.left_out),
        ]
        return commented(
            [*said, *found.warnings],
            found.path.stem,
            [line for model in found.models for line in self._model(model)],
            [line for stream in found.streams for line in _stream(stream)],
        )

    def _model(self, model: FoundModel) -> Iterator[str]:
        for note in model.notes:
            yield f"  # {comment(note)}."
        yield f"  - name: {quoted(model.name)}"
        if not self.is_known(model) and ":" not in model.source:
            yield f"    # model: {self._perhaps(model)} # what it is: docs/models.md has names, also of files"
        elif model.source != model.name:
            yield f"    model: {quoted(model.source)}"
        if model.input_shape:
            yield f"    input: {'x'.join(map(str, model.input_shape))}"
        if model.precision in PRECISIONS:
            yield f"    precision: {model.precision}"
        yield f"    slo: {{latency: {TODO}, attainment: 99 %}}"
        if model.max_queue_delay_s:
            yield f"    max_queue_delay: {wait(model.max_queue_delay_s)}"

    def _perhaps(self, model: FoundModel) -> str:
        """A known name that is like its own."""
        plain = (name.partition(":")[2] for name in named())
        close = near_names(model.source or model.name, [*known(), *plain, *self.library.models()])
        return close[0] if close else "NAME"

    def document(self) -> Document:
        """Models, what was left out, and what is still to be written."""
        found = self.found
        return overview(
            found.path.name,
            f"{counted(len(found.models), 'model')} of {found.path}, {found.tool}",
            self._columns(),
            (found.left_out, found.warnings),
            (f"Still to be written where {TODO} stands: {self.missing}.", self._unknown_text, *self._not_here),
        )

    def _columns(self) -> list[Column]:
        rows = Rows(self.found.models)
        asked = {
            model.name: ", ".join(_asked(one) for one in self.found.streams if one.model == model.name)
            for model in self.found.models
        }
        return [
            rows.words("model", lambda m: m.name),
            rows.words("known as", lambda m: m.source if self.is_known(m) or ":" in m.source else "-"),
            rows.words("precision", lambda m: m.precision or "-"),
            rows.figures("batch", lambda m: str(m.batch_size or "-")),
            rows.figures("wait", lambda m: wait(m.max_queue_delay_s)),
            rows.words("asked by", lambda m: asked[m.name]),
        ]

    @property
    def _not_here(self) -> list[str]:
        """What stands between a model of a package or a file and a plan."""
        return list(filter(None, (why_not(model.source) for model in self.found.models)))

    @property
    def _unknown_text(self) -> str:
        """Models that stand between the scenario and a plan; empty where there are none."""
        if not self.unknown:
            return ""
        return unknown_text(self.unknown)


def is_known(name: str, library: Library) -> bool:
    """True of a name that a plan can use as it is."""
    if ":" in name or not name:
        return bool(name) and not why_not(name)
    return bool(name in known() or shipped(name) or library.for_model(name) or library.published_of(name))


def why_not(source: str) -> str:
    """Why layers of a package's or a file's model cannot be had here; empty where they can, and of other names."""
    if not is_sourced(source) or without_owner(source) in named():
        return ""
    try:
        contents(source)
    except ZooError as error:
        return str(error)
    return ""


def unknown_text(models: Sequence[str]) -> str:
    """What to do of models whose names stand for none."""
    return (
        f"It is not known what {names(models)} may be: before `planner plan` write it as `model:` (names: "
        "docs/models.md), or measure it with `planner calibrate` and name the folder with --profiles."
    )


def commented(said: Sequence[str], name: str, models: Sequence[str], streams: Sequence[str]) -> str:
    """A scenario below comments."""
    lines = [SCHEMA, "#", *(f"# {comment(line)}" for line in said)]
    lines += ["", f"name: {quoted(name)}"]
    lines += ["", "models:", *models]
    lines += ["", *STREAMS, *streams]
    return "\n".join([*lines, "", *BUY, ""])


def overview(
    name: str,
    headline: str,
    columns: list[Column],
    apart: tuple[Sequence[str], Sequence[str]],
    still: Sequence[str],
) -> Document:
    """Models as a table; below it what was left out, what a scenario cannot hold, and what is still to be done."""
    left_out, warnings = apart
    return Document(
        name=name,
        headline=headline,
        lead=[Table(columns)],
        sections=[
            Section("Left out", [Items([f"{reason}." for reason in left_out])]),
            Section("Not in the scenario", [Items([f"{warning}." for warning in warnings])]),
            *(Section("", [Text(text)]) for text in still),
        ],
    )


def _stream(stream: FoundStream) -> Iterator[str]:
    for note in stream.notes:
        yield f"  # {comment(note)}."
    count = f", count: {stream.count}" if stream.count > 1 else ""
    yield f"  - {{model: {quoted(stream.model)}{count}, {stream.kind}: {stream.rate}}}"


def _asked(stream: FoundStream) -> str:
    each = "" if stream.rate == TODO else f" at {stream.rate}"
    return f"{counted(stream.count, 'source')}{each}" if stream.kind == "rate" else "requests"


def wait(seconds: float) -> str:
    """A wait in whole microseconds or more: `5 ms`, `100 us`."""
    micro = round(seconds * 1e6)
    if micro % 1_000_000 == 0:
        return f"{micro / 1e6:g} s"
    if micro % 1000 == 0:
        return f"{micro / 1e3:g} ms"
    return f"{micro} us"


def quoted(text: str) -> str:
    """A word as YAML takes it for a text."""
    plain = PLAIN.fullmatch(text) and text.lower() not in ("true", "false", "null")
    return text if plain else json.dumps(text, ensure_ascii=True)


def comment(text: str) -> str:
    """A text that cannot break its line."""
    return printable(text)


def check_free(path: Path) -> None:
    """StoreError where a file stands already."""
    if path.exists():
        raise StoreError(f"{path}: exists already. Name another file.")
