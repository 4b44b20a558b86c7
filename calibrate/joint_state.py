"""What a joint training has done so far, on disk after each epoch: whatever ends it costs the epoch in flight."""

import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

import torch
from torch import Tensor

from calibrate.files import FileError, read_json
from calibrate.joint_spec import STATE, JointSpec
from simulator.errors import InputError

SCHEMA = "planner.joint/v1"
KEPT = re.compile(r"(weights|flight)[0-9-]*\.pt")
"""Files that a state names."""
ATTEMPT = {"groups", "accuracy", "accepted", "epochs", "wall_s"}
Weights = dict[str, dict[str, Tensor]]
"""State dicts, by model."""


class JointError(InputError):
    """A training that cannot be begun or go on; the text is one line with the way out."""


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
    """Sharings that were tried: `groups`, `accuracy` over that alone, `accepted`, `epochs`, `wall_s`."""
    weights: str = ""
    """File of what stands: of each model as it was last accepted."""
    flight: dict[str, Any] | None = None
    """The training that runs, with the `file` of its weights and of its optimizer."""
    schema: str = SCHEMA

    @property
    def begun(self) -> bool:
        """Whether anything was done that is worth keeping."""
        return bool(self.alone or self.attempts or self.flight)


def _is_state(state: State) -> bool:
    """Whether it can have been written here; the files it names lie beside it."""
    flight, texts = state.flight or {}, (state.device, state.weights, state.schema)
    files = [state.weights, *([flight.get("file")] if state.flight else [])]
    attempts = state.attempts if isinstance(state.attempts, list) else [None]
    return (
        isinstance(state.spec, dict)
        and all(isinstance(text, str) for text in texts)
        and isinstance(state.alone, dict)
        and all(isinstance(share, float | int) for share in state.alone.values())
        and all(isinstance(one, dict) and one.keys() >= ATTEMPT for one in attempts)
        and isinstance(flight, dict)
        and all(isinstance(file, str) and (not file or KEPT.fullmatch(file)) for file in files)
    )


class Work:
    """The folder of one training. Only one process has it."""

    def __init__(self, folder: Path, spec: JointSpec, device: str, *, resume: bool) -> None:
        """Take the folder, new, or with `resume` where it ended."""
        self.folder = folder
        self.device = device
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise JointError(f"{folder}: cannot be written ({error.strerror}). Name another --out.") from None
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            raise JointError(f"{folder}: another training is writing it. Wait for it, or name another --out.") from None
        except OSError:
            pass  # A file system without locks: then nobody can hold one.
        try:
            self.state = self._begin(spec, resume)
        except JointError:
            os.close(self.lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.lock)

    def _begin(self, spec: JointSpec, resume: bool) -> State:
        path = self.folder / STATE
        fresh = State(spec.to_json(), self.device)
        if not path.exists():
            return fresh
        try:
            kept = State(**read_json(path))
        except (FileError, TypeError) as error:
            raise JointError(f"{path}: cannot be read ({error}). Name another --out.") from None
        if not _is_state(kept):
            raise JointError(f"{path}: is no state that a training left. Name another --out.")
        if not resume and kept.begun:
            done = f"{len(kept.alone)} models alone and {len(kept.attempts)} sharings"
            raise JointError(f"{path}: holds {done} already. Continue with --resume, or name another --out.")
        for key in fresh.spec.keys() | kept.spec.keys():
            if (was := kept.spec.get(key)) != (now := fresh.spec.get(key)):
                raise JointError(
                    f"{path}: {key} was {was}, now it is {now}. Such runs are not mixed: name another --out."
                )
        if kept.device != fresh.device or kept.schema != SCHEMA:
            was, now = (kept.device, fresh.device) if kept.schema == SCHEMA else (kept.schema, SCHEMA)
            raise JointError(f"{path}: was begun on {was}, not {now}. Such runs are not mixed: name another --out.")
        return kept

    def weights(self) -> Weights:
        """Of what stands."""
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
        """What stands from now on, as soon as `finish` has said why."""
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
        for file in [*self.folder.glob("weights-*.pt"), *self.folder.glob("flight-*.pt")]:
            if file.name not in named:
                with suppress(OSError):
                    file.unlink()

    def _write(self, name: str, fill: Callable[[BinaryIO], object]) -> None:
        path, part = self.folder / name, self.folder / f".{name}.part"
        try:
            with part.open("wb") as out:
                fill(out)
                out.flush()
                os.fsync(out.fileno())
            part.replace(path)
        except (OSError, RuntimeError) as error:  # RuntimeError: torch's word for a full disk
            with suppress(OSError):
                part.unlink()
            why = " ".join(str(error).split())[:200]
            raise JointError(f"{path}: cannot be written ({why}). Make room, then continue with --resume.") from None

    def _load(self, name: str) -> Any:
        try:
            return torch.load(self.folder / name, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises whatever its reader met
            why = " ".join(str(error).split())[:200]
            raise JointError(f"{self.folder / name}: cannot be read ({why}). Begin anew with another --out.") from None
