"""Models that must be served, and what is asked of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from calibrate.layers.facts import facts, has_layers, of_any_input
from calibrate.layers.naming import profile_name
from calibrate.layers.work import FactsError
from calibrate.library.reading import USUAL_RUNTIME
from calibrate.zoo.sources import is_sourced, perhaps_sourced
from planner.model.checked import checked
from planner.model.parts.fields import Factory, InputShape, ModelName, Name, Precisions, Runtimes, is_factory
from planner.units.errors import Wrong
from planner.units.reading import Delay, Fraction, Latency


def own_model(model: Mapping[str, Any]) -> Iterator[Wrong]:
    """Errors in how a model is named by where it comes from."""
    if model.get("factory") and model.get("model"):
        yield ("model",), "cannot stand beside `factory`: a model comes from one place. Keep one of them."
    key = "factory" if model.get("factory") else "model"
    named = str(model.get(key) or "")
    if not model.get("input"):
        if is_factory(named) and not is_sourced(named):
            yield _without_input(key, named)
    elif key == "model" and ":" not in named:
        yield from _input_of_a_name(model["input"], named or str(model.get("name")))


def _input_of_a_name(written: object, named: str) -> Iterator[Wrong]:
    """A plain name of a model stands for one input: it may be said, and no other."""
    usual = _usual_input(named)
    if usual and written in (list(usual), usual, "x".join(map(str, usual))):
        return
    text = "has `input`, which goes only with a `model` of a package or a file, or with `factory`"
    known = f"; that of `{named}` is {'x'.join(map(str, usual))}" if usual else ""
    other = of_any_input(named)
    remedy = f"Leave it out, or write `model: {other}`, whose input may be another." if other else "Leave it out."
    yield (), f"{text}{known}. {remedy}", "input", "model"


def _usual_input(named: str) -> tuple[int, ...]:
    """The input of a model whose layers are shipped under a plain name; empty where that names none, or several."""
    if ":" in named or not has_layers(named):
        return ()
    try:
        return facts(named).input_shape
    except FactsError:
        return ()


def _without_input(key: str, named: str) -> Wrong:
    """Code of one's own does not say what it takes; or it is no code, but a source that is misspelt."""
    if hint := perhaps_sourced(named):
        return (key,), f"`{named.partition(':')[0]}` is no source of models.{hint} Code of your own needs `input`."
    return (), f"needs `input`, the shape of one sample, with `{key}`. Write e.g. `input: 3x224x224`.", "input", key


@checked()
@dataclass(frozen=True, slots=True, kw_only=True)
class SloSpec:
    """The latency that one model must keep to, and how often."""

    latency: Latency
    """Longest acceptable time from a frame's arrival to its result, e.g. `100 ms`."""
    attainment: Annotated[Fraction, Field(gt=0, le=1)] = 0.99
    """Share of frames that must make it, e.g. `99 %`."""


@checked(own_model)
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model that must be served."""

    name: Name
    """The scenario's name for it."""
    profile: Name | None = None
    """Which profile it uses; the name where not given, or that of its `model` or `factory`."""
    model: ModelName | None = None
    """What it is, where its name does not say so: `resnet50`, `timm:resnet50.a1_in1k`, `onnx:detector.onnx`, ...; a
    package's **code is run**, to see its layers."""
    factory: Factory | None = None
    """A model of yours, `package.module:function`. **Its code is run**, to see its layers."""
    input: InputShape = ()
    """With `factory`, or another than the usual one of a `model`: the shape of one sample, e.g. `3x224x224`."""
    precision: Precisions | None = None
    """Run it at this precision, e.g. `fp16`, or at the best of several, e.g. `[fp16, int8]`; where not given as it
    was measured here, else at the first of fp32, tf32, amp, ... that is known; int8, which takes a quantized model,
    only where a profile has it."""
    runtime: Runtimes = None
    """Run it in this software, e.g. `tensorrt`, or in the best of several; where not given in its profile's."""
    slo: SloSpec
    """Latency and attainment."""
    accuracy: Annotated[Fraction, Field(gt=0, le=1)] = 1.0
    """Accuracy on frames that are processed in time."""
    max_queue_delay: Delay = 0.0
    """Longest a batch waits to fill before it runs."""
    layers: Name | None = None
    """With `merging`: whose layers it has, as `planner merge analyze` knows it; the profile's where not given."""
    merged_accuracy: Annotated[Fraction, Field(gt=0, le=1)] = 0.95
    """With `merging`: least accuracy when merged, as a share of its accuracy alone."""

    def __post_init__(self) -> None:
        """The usual input of a model known by a plain name says no more than the name."""
        if self.input and not self.factory and self.input == _usual_input(self.model or self.name):
            object.__setattr__(self, "input", ())

    @property
    def known_as(self) -> str:
        """The name that its profiles and its layers go by."""
        return self.profile or (profile_name(self.made_by, self.input) if self.made_by else self.name)

    @property
    def made_by(self) -> str:
        """Where the model comes from, by name; empty where its own name says so."""
        return self.model or self.factory or ""

    @property
    def is_traced(self) -> bool:
        """A process looks at its layers where it was not measured."""
        return ":" in self.made_by and not self.profile

    @property
    def variants(self) -> "tuple[Variant, ...]":
        """Every precision in every runtime that it may run in."""
        return tuple(Variant(one, other) for one in _each(self.precision) for other in _each(self.runtime))

    def is_calibrated_in(self, runtime: str | None) -> bool:
        """Whether `planner calibrate` measures it as it then runs: in PyTorch, or as an ONNX file."""
        return runtime in (None, USUAL_RUNTIME) or self.made_by.startswith("onnx:")

    @property
    def precisions(self) -> tuple[str, ...]:
        """Those that it may run at; none: any."""
        return tuple(filter(None, _each(self.precision)))

    @property
    def runtimes(self) -> tuple[str, ...]:
        """Those that it may run in; none: any."""
        return tuple(filter(None, _each(self.runtime)))


def _each(named: str | tuple[str, ...] | None) -> tuple[str | None, ...]:
    return (named,) if named is None or isinstance(named, str) else named or (None,)


class Variant(NamedTuple):
    """One way to run a model; None: any."""

    precision: str | None
    runtime: str | None
