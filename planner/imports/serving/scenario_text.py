"""The scenario of what another tool serves: YAML with a comment for all that a scenario does not hold.

The file says neither how often most models are asked nor their SLOs: whoever imports it says that.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from calibrate.io.files import printable
from calibrate.layers.facts import facts, has_layers, known, named, of_any_input, shipped
from calibrate.library.lookup import Library
from calibrate.library.reading import PRECISIONS
from calibrate.zoo.sources import ZooError, contents, is_sourced, without_owner
from planner.imports.serving.found import TENSORRT, TODO, Found, FoundModel, FoundStream
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
    columns: "Callable[[Import], list[Column]]" = field(default=lambda made: made.usual_columns)
    """The models as a table."""

    @property
    def missing(self) -> str:
        """Facts that only the reader knows: `the rate of bert, the latency of bert (--rate, --slo)`."""
        rates = [stream.model for stream in self.found.streams if stream.rate == TODO]
        latencies = [model.name for model in self.found.models if model.latency == TODO]
        asked = _facts({"rate": rates, "latency": latencies})
        engines = _facts({"precision": [model.name for model in self.found.models if _precision(model) == TODO]})
        return ", ".join(filter(None, [asked and f"{asked}{self.found.options}", engines]))

    @property
    def obstacles(self) -> list[str]:
        """What stands between the scenario and a plan: models of unknown names, those of a package or a file."""
        unknown = [one.name for one in self.found.models if ":" not in one.source and not self.is_known(one)]
        nameless = (
            f"It is not known what {names(unknown)} may be: before `planner plan` write it as `model:` (names: "
            "docs/models.md), or measure it with `planner calibrate --models MODEL` and name the folder with "
            "--profiles."
        )
        not_here = (why_not(model.source) for model in self.found.models)
        elsewhere = (self.in_other_runtimes(model) for model in self.found.models)
        return [*([nameless] if unknown else []), *filter(None, (*not_here, *elsewhere))]

    def is_known(self, model: FoundModel) -> bool:
        """True where its name is one of a package or a file, or of a profile or layers that are here."""
        if not model.profile:
            return is_known(self.meant(model), self.library)
        profiles = self.library.for_model(model.profile)
        fits = any(model.precision in ("", profile.precision) for profile in profiles)
        return fits or _is_predicted(model.profile, self.library)

    def in_other_runtimes(self, model: FoundModel) -> str:
        """That only profiles know a model, and none of them in its runtime; empty elsewhere."""
        name = model.profile or self.meant(model)
        known = {profile.runtime for profile in self.library.for_model(name)}
        if not known or model.runtime in {"", *known} or _is_predicted(name, self.library):
            return ""
        return (
            f"{name} is known in {names(sorted(known))}, not in {model.runtime}: before `planner plan` correct "
            "`runtime`, or measure it there and name the folder with --profiles."
        )

    def meant(self, model: FoundModel) -> str:
        """Its source; its name where only that is known, by which a plan takes it then."""
        by_name = ":" not in model.source and not is_known(model.source, self.library)
        return model.name if by_name and is_known(model.name, self.library) else model.source

    def known_as(self, model: FoundModel) -> str:
        """Its profile, its source or its name; `-` where none is known here."""
        return (model.profile or self.meant(model)) if self.is_known(model) or ":" in model.source else "-"

    @property
    def warnings(self) -> list[str]:
        """What a scenario cannot hold, as inputs of another size than that by which a plain name is known."""
        return [*self.found.warnings, *filter(None, map(self._other_size, self.found.models))]

    def _other_size(self, model: FoundModel) -> str:
        """Of a model that goes by a plain name; empty where its input is the usual one, or either is not known."""
        meant = self.meant(model)
        if not model.input_shape or model.profile or ":" in meant or len(shipped(meant)) > 1:
            return ""
        other = of_any_input(meant)
        layers = meant if has_layers(meant) else other
        usual = facts(layers).input_shape if layers else model.input_shape
        if sorted(usual) == sorted(model.input_shape):  # channels last, or first
            return ""
        tokens = f"`input: {_input(model.input_shape)}`" if len(model.input_shape) == 1 else "that `input`"
        remedy = f"write `model: {other}` with {tokens}" if other else "measure it"
        return f"{model.name}: takes {_sides(model.input_shape)}, a plan counts {meant} at {_sides(usual)}; {remedy}"

    def text(self) -> str:
        """A commented scenario."""
        found = self.found
        missing = [f"Write what you know where {TODO} stands: {self.missing}."] if self.missing else []
        models = counted(len(found.models), "model")
        comments = [
            f"Made by `planner {found.command}` of {models} in {found.path.name}{self._of}.",
            *found.says,
            *missing,
            *(f"Left out: {line}" for line in found.left_out),
            *self.warnings,
        ]
        lines = [SCHEMA, "#", *(f"# {printable(line)}" for line in comments)]
        lines += ["", f"name: {quoted(found.name)}"]
        lines += ["", "models:", *(line for model in found.models for line in self._model(model))]
        lines += ["", *STREAMS, *(line for stream in found.streams for line in _stream(stream))]
        return "\n".join([*lines, "", *BUY, ""])

    @property
    def _of(self) -> str:
        return f", {self.found.tool}" if self.found.tool else ""

    def _model(self, model: FoundModel) -> Iterator[str]:
        for note in model.notes:
            yield f"  # {printable(note)}."
        by_name = not model.profile and self.meant(model) != model.source
        why = f" # by which it is planned: `{printable(model.source)}` is not known" if by_name and model.source else ""
        yield f"  - name: {quoted(model.name)}{why}"
        known = self.is_known(model)
        if model.profile:
            unknown = "" if known else " # not known here: see `planner profiles list`, or name its folder: --profiles"
            yield f"    profile: {quoted(model.profile)}{unknown}"
        elif not known and ":" not in model.source:
            yield f"    # model: {self._perhaps(model)} # what it is: docs/models.md has names, also of files"
        elif self.meant(model) != model.name:
            yield f"    model: {quoted(model.source)}"
        if model.input_shape and ":" in model.source:
            yield f"    input: {_input(model.input_shape)}"
        if precision := _precision(model):
            yield f"    precision: {precision}"
        if model.runtime:
            yield f"    runtime: {model.runtime}"
        yield f"    slo: {{latency: {model.latency}, attainment: 99 %}}"
        if model.max_queue_delay_s:
            yield f"    max_queue_delay: {wait(model.max_queue_delay_s)}"

    def _perhaps(self, model: FoundModel) -> str:
        """A known name that is like its own."""
        plain = (name.partition(":")[2] for name in named())
        close = near_names(model.source or model.name, [*known(), *plain, *self.library.models()])
        return close[0] if close else "NAME"

    def document(self) -> Document:
        """Models as a table; below it what was left out, what a scenario cannot hold, and what is still to be done."""
        found, missing = self.found, self.missing
        still = f"Still to be written where {TODO} stands: {missing}." if missing else ""
        return Document(
            name=found.path.name,
            headline=f"{counted(len(found.models), 'model')} of {found.path}{self._of}",
            lead=[Table(self.columns(self))],
            sections=[
                Section("Left out", [Items([f"{reason}." for reason in found.left_out])]),
                Section("Not in the scenario", [Items([f"{warning}." for warning in self.warnings])]),
                *(Section("", [Text(text)]) for text in (still, *self.obstacles)),
            ],
        )

    @property
    def usual_columns(self) -> list[Column]:
        """Of any tool's models."""
        rows = Rows(self.found.models)
        asked = {
            model.name: ", ".join(_asked(one) for one in self.found.streams if one.model == model.name)
            for model in self.found.models
        }
        return [
            rows.words("model", lambda m: m.name),
            rows.words("known as", self.known_as),
            rows.words("precision", lambda m: m.precision or "-"),
            rows.words("runtime", lambda m: m.runtime or "-"),
            rows.figures("batch", lambda m: str(m.batch_size or "-")),
            rows.figures("wait", lambda m: wait(m.max_queue_delay_s)),
            rows.words("asked by", lambda m: asked[m.name]),
        ]


def _facts(models: Mapping[str, Sequence[str]]) -> str:
    """`the rate of bert, the latency of bert`."""
    named = ((fact, list(dict.fromkeys(lacking))) for fact, lacking in models.items())
    return ", ".join(f"the {fact} of {names(lacking)}" for fact, lacking in named if lacking)


def _precision(model: FoundModel) -> str:
    """What a scenario says; `TODO` of an engine that is made for one which its file does not name."""
    if model.precision in PRECISIONS:
        return model.precision
    return TODO if model.runtime == TENSORRT and not model.profile else ""


def _sides(shape: Sequence[int]) -> str:
    return f"{shape[0]} tokens" if len(shape) == 1 else "x".join(map(str, shape))


def _input(shape: Sequence[int]) -> str:
    """As a scenario writes it."""
    return f"[{shape[0]}]" if len(shape) == 1 else _sides(shape)


def is_known(name: str, library: Library) -> bool:
    """True of a name that a plan can use as it is."""
    if ":" in name or not name:
        return bool(name) and not why_not(name)
    return bool(library.for_model(name) or _is_predicted(name, library))


def _is_predicted(name: str, library: Library) -> bool:
    """True of a name whose layers or published times tell of every precision."""
    return bool(name in known() or shipped(name) or library.published_of(name))


def why_not(source: str) -> str:
    """Why layers of a package's or a file's model cannot be had here; empty where they can, and of other names."""
    if not is_sourced(source) or without_owner(source) in named():
        return ""
    try:
        contents(source)
    except ZooError as error:
        return str(error)
    return ""


def _stream(stream: FoundStream) -> Iterator[str]:
    for note in stream.notes:
        yield f"  # {printable(note)}."
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


def check_free(path: Path) -> None:
    """StoreError where a file stands already."""
    if path.exists():
        raise StoreError(f"{path}: exists already. Name another file.")
