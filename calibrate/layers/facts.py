"""Layer facts: what the layers of a model compute, read and write - shipped for many models, read without torch.

`python -m calibrate.layers.tracing write` makes the shipped files. Others are traced in a process of their own, and
those of packages and files are kept in the user's cache by what they were made of.
"""

import gzip
import hashlib
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calibrate.io.files import cache_folder, read_json, replacing
from calibrate.io.process import last_line, running
from calibrate.layers.work import SCHEMA, Facts, FactsError, from_document
from calibrate.published import names
from calibrate.zoo.sources import (
    ZooError,
    contents,
    how_to_name,
    is_sourced,
    module_and_function,
    perhaps_sourced,
    without_owner,
)
from simulator.grouping import grouped
from simulator.near import in_any_spelling, near_names
from simulator.world.signature import sizes

SHIPPED = Path(__file__).parent.parent / "zoo_layers"
OWN_NAMES = {"fasterrcnn_resnet50_fpn": "faster_rcnn", "ssd300_vgg16": "ssd_vgg"}
"""Published architectures by the name that their layers have in the zoo: both are torchvision's."""
PACKED = ".json.gz"
"""End of the files of packages' models, in a folder for each package."""
REFUSED = "refused"
"""Key of an answer that says why there are no layers."""
WHY_MAX = 1000
"""Characters of what a model's own code says of its failure."""
TIME_LIMIT_S = 300.0
"""For tracing one model."""
TRACING = 2
"""Of the cache's contents: another where tracing counts otherwise."""


@cache
def known() -> tuple[str, ...]:
    """Plain names of models whose layers are shipped: the zoo's."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.json")))


@cache
def named() -> tuple[str, ...]:
    """Full names of models of packages whose layers are shipped: `timm:convnext_small.fb_in1k`."""
    paths = (path.relative_to(SHIPPED) for path in SHIPPED.glob(f"*/**/*{PACKED}"))
    return tuple(sorted(f"{path.parts[0]}:{path.relative_to(path.parts[0])}".removesuffix(PACKED) for path in paths))


@cache
def _names() -> frozenset[str]:
    return frozenset(named())


def taken_for(model: str) -> str:
    """The network that a name of many is taken for, as published tables mean it; empty of others, and of the zoo's."""
    return "" if model in known() else names.meant_by(model)


@cache
def full_name(model: str) -> str:
    """The name of a shipped model that a plain one stands for; FactsError where that is none, or several."""
    if ":" in model or model in known():
        return without_owner(model)
    if (spelt := in_any_spelling(model, known())) in known():
        return spelt
    if own := OWN_NAMES.get(names.architecture(model)):
        return own
    found = shipped(model)
    if len(found) == 1:
        return found[0]
    wrong = f"{model}: its layers are not known."
    if found:
        raise FactsError(f"{model}: may be {' or '.join(found)}. Write one of them.")
    if others := _named_alike(model):
        raise FactsError(f"{wrong} {' and '.join(others)} is another network: write that name if you mean it.")
    if close := meant(model):
        raise FactsError(f"{wrong} Did you mean {' or '.join(close)}?")
    raise FactsError(f"{wrong}{_of_other_numbers(model)} {how_to_name(model)}")


def _of_other_numbers(model: str) -> str:
    """` Known: vit_b_16.` of `vit_b_17`, the nearest number first; nothing where none is called so but for numbers."""
    letters, *alike = (re.sub(r"\d+", "", name.lower()) for name in (model, *known()))
    asked = _numbers(model)
    found = [name for name, others in zip(known(), alike, strict=True) if others == letters]
    found.sort(key=lambda name: [abs(one - other) for one, other in zip(_numbers(name), asked, strict=False)])
    return f" Known: {', '.join(found)}." if found else ""


def _numbers(model: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", model)]


def meant(model: str) -> list[str]:
    """Shipped models of nearly such a name: plain ones, else those of packages by their names without the source."""
    by_short = {short: full for full in named() for short in _short(full)}
    near = near_names(model, known()) or (by_short[name] for name in near_names(model, by_short))
    return list(dict.fromkeys(near))


def shipped(model: str) -> list[str]:
    """Full names of models of packages that a plain one may stand for.

    `ultralytics:yolov5s` is none of `yolov5s`, which published tables and its authors call an older network.
    """
    meant = names.architecture(model)
    return [full for full in _named_alike(model) if names.architecture(full) in (meant, full)]


def _named_alike(model: str) -> list[str]:
    """Full names that have the plain one in them, in large letters or small ones."""
    return _by_lower_name().get(model.lower(), [])


@cache
def _by_lower_name() -> dict[str, list[str]]:
    """Full names by each plain one, in small letters."""
    return grouped((short, full) for full in named() for short in {short.lower() for short in _short(full)})


def _short(full: str) -> set[str]:
    """`convnext_small.fb_in1k` and `convnext_small` of `timm:convnext_small.fb_in1k`; `bge-m3` of `hf:BAAI/bge-m3`."""
    source, _, name = full.partition(":")
    last = name.rpartition("/")[2]
    return {name, last, last.partition(".")[0]} if source == "timm" else {name, last}


@cache
def has_layers(model: str) -> bool:
    """True where a name stands for one model whose layers are shipped."""
    is_own = ":" not in model and names.architecture(model) in OWN_NAMES
    return is_own or model in known() or model in _names() or len(shipped(model)) == 1


def facts(model: str, input_shape: tuple[int, ...] | None = None) -> Facts:
    """The layers of any model by its name; FactsError where they cannot be known.

    Those that are shipped need no torch. Others are traced by a process of its own, which **runs the package's code, or
    the user's** of a `package.module:factory`, whose input must be named.
    """
    full = full_name(model)
    if full in known():
        own = _shipped_at(SHIPPED / f"{full}.json")
        if input_shape not in (None, own.input_shape):
            raise FactsError(f"{model}: {_of_one_input(full, own.input_shape)}", "input")
        return own
    if not is_sourced(full):
        if not input_shape:
            unnamed = f"{model}: the shape of its input is not known."
            raise FactsError(f"{unnamed}{perhaps_sourced(full)} Name it, e.g. 3x224x224.")
        return traced(full, input_shape)
    if full not in _names():
        return sourced(full, input_shape)
    found = _shipped_at(SHIPPED / f"{full.replace(':', '/', 1)}{PACKED}")
    is_scaled = input_shape is None or found.scales_to(input_shape)
    return found.of_shape(input_shape or found.input_shape) if is_scaled else sourced(full, input_shape)


def _of_one_input(model: str, own: tuple[int, ...]) -> str:
    """What is wrong with another input than the own one of a plain name, and the remedy."""
    other = of_any_input(model)
    remedy = f"name `{other}`, whose input may be another" if other else "name a model of a package or of your own"
    return f"its own input is {'x'.join(map(str, own))}. Leave it out, or {remedy}."


@cache
def of_any_input(model: str) -> str:
    """The model of a package that a plain name stands for, whose input may be another; empty where there is none."""
    meant, called = names.architecture(model), shipped(model)
    return next((full for full in named() if names.architecture(full) == meant), called[0] if len(called) == 1 else "")


def sourced(model: str, input_shape: tuple[int, ...] | None) -> Facts:
    """The layers of a model of a package or a file, traced once for each of its versions and inputs."""
    found = sourced_or_why_not(model, input_shape)
    if isinstance(found, FactsError):
        raise FactsError(str(found), found.key)
    return found


@cache
def sourced_or_why_not(model: str, input_shape: tuple[int, ...] | None) -> Facts | FactsError:
    """A table asks for the same input in every other row, and what is refused took as long to trace."""
    try:
        return _sourced(model, input_shape)
    except FactsError as error:
        return error


def _sourced(model: str, input_shape: tuple[int, ...] | None) -> Facts:
    try:
        made_of = [SCHEMA, TRACING, model, input_shape, contents(model)]
    except ZooError as error:
        raise FactsError(f"{error}{_perhaps_shipped(model)}") from None
    name = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    path = cache_folder("layers") / f"{name}{PACKED}"
    with suppress(LookupError, TypeError, ValueError, AttributeError):  # not there, or damaged: made anew
        return _read(path)
    document = _run(model, "trace", input_shape)
    with suppress(OSError):  # what cannot be kept is traced again
        pack(document, path)
    return from_document(document)


def _perhaps_shipped(model: str) -> str:
    """Names like its own whose layers need no package; a plain one that is the same goes first."""
    source, _, name = model.partition(":")
    of_source = [full for full in named() if full.startswith(f"{source}:")]
    close = [name] if name in known() else near_names(model, of_source)
    return f" Or did you mean {' or '.join(close)}? Its layers are shipped." if close else ""


def pack(document: Mapping[str, Any], path: Path) -> None:
    """Write a document, small, the same bytes each time, at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))


def _read(path: Path) -> Facts:
    return from_document(read_json(path))


_shipped_at = lru_cache(maxsize=256)(_read)
"""Read once: a plan asks for the same layers at each kind of GPU and end of a band."""


@cache
def traced(model: str, input_shape: tuple[int, ...]) -> Facts:
    """The layers of a user's own `package.module:factory`. **Runs the user's code**, in a process with torch."""
    try:
        module_and_function(model)  # a name that is not whole needs no process
    except ZooError as error:
        raise FactsError(str(error)) from None
    return from_document(_run(model, "trace", input_shape))


def timed(model: str, input_shape: Sequence[int] | None, device: str, batches: Sequence[int]) -> dict[int, float]:
    """Median seconds of a batch on `cpu` or `cuda:0`, by batch size. **Runs the model**, in a process with torch."""
    options = ("--device", device, "--batches", ",".join(map(str, batches)))
    return {int(batch): float(time_s) for batch, time_s in _run(model, "time", input_shape, *options).items()}


def _run(model: str, what: str, input_shape: Sequence[int] | None, *more: str) -> dict[str, Any]:
    """The answer of `calibrate.layers.tracing`; FactsError where it has none."""
    shape = ("--input", sizes(input_shape)) if input_shape else ()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "answer.json"  # not its output, to which the model's own code may write
        command = [*running("calibrate.layers.tracing"), what, model, *shape, *more, "--out", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            text = f"took more than {TIME_LIMIT_S:.0f} s. Try a smaller input, or run it once yourself."
            raise FactsError(f"{model}: {text}") from None
        if not path.exists():
            raise FactsError(f"{model}: {_failure(done)}")
        answer: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if REFUSED in answer:
        raise FactsError(answer[REFUSED][:WHY_MAX])
    return answer


def _failure(done: "subprocess.CompletedProcess[bytes]") -> str:
    """Why a process wrote no answer: the last line it said."""
    if find_spec("torch") is None:
        return "running it needs torch. pip install torch."
    why = last_line(done.stderr.decode("utf-8", errors="replace")) or f"its process ended with {done.returncode}"
    return f"cannot be run: {why[:WHY_MAX]}. Run it once yourself."
