"""The state of a joint training, on disk after each epoch: whatever ends it costs the epoch in flight."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Self

import torch
from torch import Tensor

from calibrate.io.files import Fault, FileError, one_line, open_plain, printable, quoted, read_json, replacing
from calibrate.io.lines import Writer, claim
from calibrate.io.reader import LEAVE, ProfileError, Reader, refuse
from calibrate.joint.spec import STATE, JointSpec
from simulator.errors import InputError

SCHEMA = "planner.joint/v1"
KEPT = re.compile(r"weights-\d+-\d+\.pt|flight-\d+-\d+-\d+-[01]\.pt")
"""Files that a state names."""
LOCK = ".lock"
Weights = dict[str, dict[str, Tensor]]
"""State dicts, by model."""


class JointError(InputError):
    """A training that cannot be begun or go on; the text is one line with the remedy."""


WRITER = Writer("training", "name another --out", JointError)


@dataclass(slots=True)
class Progress:
    """One training, of one model alone or of several together."""

    stage: str
    history: list[dict[str, float]] = field(default_factory=list)
    """Accuracy by model, before the first epoch and after each."""
    wall_s: float = 0.0
    diverged: bool = False
    """A loss was no number any more."""

    @property
    def epochs(self) -> int:
        """Done so far."""
        return max(0, len(self.history) - 1)

    @property
    def best(self) -> int:
        """The first epoch with the highest accuracies in all; 0 is before any."""
        sums = [sum(values.values()) for values in self.history]
        return sums.index(max(sums))


@dataclass(slots=True)
class State:
    """All that is known of a training; what is large stands in the files it names."""

    spec: dict[str, Any]
    device: str
    alone: dict[str, float] = field(default_factory=dict)
    """Accuracy of each model by itself."""
    attempts: list[dict[str, Any]] = field(default_factory=list)
    """Sharings that were tried: `groups`, `accuracy` over that alone, `accepted`, `epochs`, `trained`, `wall_s`."""
    weights: str = ""
    """File of what stands: of each model as it was last accepted."""
    flight: dict[str, Any] | None = None
    """The training that runs, with the `file` of its weights and of its optimizer."""
    schema: str = SCHEMA

    @property
    def begun(self) -> bool:
        """True where something was done that is worth keeping."""
        return bool(self.alone or self.attempts or self.flight)


def state_of(raw: Any, models: Sequence[str]) -> State:
    """A state as a training of these models left it; ProfileError names what none can have written."""
    read = Reader(raw if isinstance(raw, dict) else {}, what="a training's state")
    read.schema(SCHEMA)
    state = State(
        spec=read.part("spec"),
        device=read.text("device"),
        alone=_accuracies(read.mapping("alone"), models),
        attempts=[_attempt(tried, models) for tried in read.mappings("attempts")],
        weights=_file(read, "weights") if read.raw.get("weights") else "",
        flight=_flight(read.mapping("flight"), models) if read.raw.get("flight") is not None else None,
    )
    read.known |= {"weights", "flight"}
    read.nothing_else()
    return state


def _attempt(read: Reader, models: Sequence[str]) -> dict[str, Any]:
    for group in read.mappings("groups"):
        group.text("signature"), group.count("copy"), group.count("layer_bytes")
        _named(group, "models", models)
        group.nothing_else()
    found = _accuracies(read.mapping("accuracy"), models)
    if missing := sorted(set(models) - found.keys()):
        refuse(f"{read.prefix}accuracy.{missing[0]}", "is missing", LEAVE)
    read.flag("accepted"), read.count("epochs"), read.not_negative("wall_s")
    _named(read, "trained", models)
    read.nothing_else()
    return read.raw


def _flight(read: Reader, models: Sequence[str]) -> dict[str, Any]:
    read.text("stage"), read.not_negative("wall_s"), read.flag("diverged"), _file(read, "file")
    if not [_accuracies(epoch, models) for epoch in read.mappings("history")]:
        refuse(f"{read.prefix}history", "is empty", LEAVE)
    read.nothing_else()
    return read.raw


def _accuracies(read: Reader, models: Sequence[str]) -> dict[str, float]:
    found = {name: read.not_negative(name) for name in read.raw}
    if strange := found.keys() - models:
        refuse(read.prefix + min(strange), "is no model of the spec", LEAVE)
    return found


def _named(read: Reader, key: str, models: Sequence[str]) -> None:
    """A list of some of the models."""
    if not (found := read.sentences(key)) or not {*found} <= {*models}:
        refuse(read.prefix + key, f"must be models of the spec, got {quoted(list(found))}", LEAVE)


def _file(read: Reader, key: str) -> str:
    """A file beside the state."""
    if not KEPT.fullmatch(name := read.text(key)):
        refuse(read.prefix + key, f"must be a file of weights in this folder, got {quoted(name)}", LEAVE)
    return name


class JointWork:
    """The folder of one training. Only one process has it."""

    def __init__(self, folder: Path, spec: JointSpec, device: str, *, resume: bool) -> None:
        """Take the folder, new, or with `resume` where it ended."""
        self.folder = folder
        self.device = device
        self.lock = claim(folder / LOCK, WRITER)
        try:
            self.state = self._begin(spec, resume)
        except BaseException:
            os.close(self.lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.lock)

    def _begin(self, spec: JointSpec, resume: bool) -> State:
        """The state that is there, else a new one; JointError where the training there is another one."""
        path = self.folder / STATE
        fresh = State(spec.to_json(), self.device)
        try:
            raw = read_json(path)
        except FileError as error:
            if error.fault is not Fault.MISSING:
                WRITER.refuse_file(Path(f"{path}{error.place}"), str(error))
            if self._strangers():
                WRITER.refuse_file(self.folder, "holds other files, and no training")
            return fresh
        if not isinstance(raw, dict) or not isinstance(raw.get("spec"), dict):
            WRITER.refuse_file(path, "is no state that a training left")
        before, now = raw["spec"], fresh.spec
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                was, asked = quoted(before.get(key)), quoted(now.get(key))
                _refuse_mixing(path, f"{printable(key)} was {was}, now it is {asked}")
        try:
            kept = state_of(raw, list(spec.targets))
        except ProfileError as error:
            raise JointError(f"{path}: {error}, or {WRITER.elsewhere}.") from None
        if kept.device != self.device:
            _refuse_mixing(path, f"was begun on {quoted(kept.device)}, not {self.device}")
        if not resume and kept.begun:
            done = f"{len(kept.alone)} models alone and {len(kept.attempts)} sharings"
            WRITER.refuse(path, f"holds {done} already", f"Continue with --resume, or {WRITER.elsewhere}")
        return kept

    def _strangers(self) -> list[str]:
        """Files in the folder that no training wrote; a part of one begins with a point."""
        return [name for name in os.listdir(self.folder) if not name.startswith(".") and not KEPT.fullmatch(name)]

    def weights(self) -> Weights:
        """The weights that stand."""
        loaded: Weights = self._load(self.state.weights)
        return loaded

    def flight(self, stage: str) -> tuple[Progress, Any] | None:
        """The training of `stage` where it ended, with its weights and its optimizer; None where it had not begun."""
        kept = self.state.flight
        if kept is None or kept["stage"] != stage:
            return None
        known = {key: value for key, value in kept.items() if key != "file"}
        return Progress(**known), self._load(kept["file"])

    def keep_flight(self, progress: Progress, data: Any) -> None:
        """An epoch more of the training that runs."""
        counts = (len(self.state.alone), len(self.state.attempts), progress.epochs, int(progress.diverged))
        file = f"flight-{'-'.join(map(str, counts))}.pt"  # never the name of a file that the state on disk needs
        self._write(file, lambda out: torch.save(data, out))
        self.state.flight = {**asdict(progress), "file": file}
        self._commit()

    def keep_weights(self, weights: Weights) -> None:
        """Keep the weights that stand from now on, as soon as `finish` has stored why."""
        file = f"weights-{len(self.state.alone)}-{len(self.state.attempts)}.pt"
        self._write(file, lambda out: torch.save(weights, out))
        self.state.weights = file

    def finish(self) -> None:
        """The training in flight is over, and what came of it is in the state."""
        self.state.flight = None
        self._commit()

    def write_json(self, name: str, document: Mapping[str, Any]) -> None:
        """A file beside the state, whole or not at all."""
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        self._write(name, lambda out: out.write(text.encode()))

    def _commit(self) -> None:
        """First the large files, then the state that names them: at any moment the state's files are there."""
        self.write_json(STATE, asdict(self.state))
        named = {self.state.weights, (self.state.flight or {}).get("file")}
        for file in self.folder.glob("*.pt"):
            if KEPT.fullmatch(file.name) and file.name not in named:
                with suppress(OSError):
                    file.unlink()

    def _write(self, name: str, fill: Callable[[BinaryIO], object]) -> None:
        path = self.folder / name
        try:
            with replacing(path, locked=True) as out:
                fill(out)
        except (OSError, RuntimeError) as error:  # RuntimeError: torch's word for a full disk
            WRITER.refuse(path, f"cannot be written ({one_line(error, 200)})", "Make room, then continue with --resume")

    def _load(self, name: str) -> Any:
        try:
            with open_plain(self.folder / name) as file:
                return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises whatever its reader met
            path = self.folder / name
            WRITER.refuse(path, f"cannot be read ({one_line(error, 200)})", "Begin anew with another --out")


def _refuse_mixing(path: Path, difference: str) -> NoReturn:
    WRITER.refuse(path, difference, f"Such runs are not mixed: {WRITER.elsewhere}")
