"""Where points are worked out: what an engine is given, what it gives back, and the one function that it calls.

An engine never sees a study. It is opened for a context, which all points share; it takes points in any number and
order, and hands back what came of each, in the order in which they end:

    with engine as running:                   # workers start
        running.submit(key, inputs)           # returns at once; at most `running.window` are under way
        key, outcome = running.take()         # waits until one has ended

A worker, wherever it is, calls `run_point(context, inputs)`. Both arguments can be pickled and hold all that the answer
depends on, so that a worker reads no file but this program's own; for one on another machine an engine makes that so
of measured profiles too, by `carried(context)`. The function is pure: the same arguments give the same dictionary, byte
for byte as JSON, so that it does not matter who works a point out, when, or how often. Hence a point whose worker died
is simply worked out again, by the engine itself; after `ATTEMPTS` deaths `take` gives `Lost`, which is not kept, so
that `--resume` tries anew. A point that fails by itself is an outcome like any other, with its reason in one line;
`take` raises nothing for it.

`planner.questions.studies.local_engine` is the example: processes of this machine. A new engine is a class with these
members and one case in `planner.questions.studies.engines.opened`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from typing import Any, Protocol, Self

from calibrate.io.files import one_line
from calibrate.library.lookup import Library
from planner.catalog.catalog import Catalog
from planner.io.load import MADE, Loaded
from planner.questions.training.reading import LoadedTraining
from simulator.errors import InputError
from simulator.world.profile import Profile

ATTEMPTS = 3
"""Deaths of its worker after which a point is given up: one may be an accident, three are the point's own."""
DAY = date(1970, 1, 1)
"""Date of every replay in a study: the age of prices belongs to the study, not to a point."""

Outcome = dict[str, Any]
"""`values` by name (a number, a text, None, or `{low, mid, high}`), and what each point says besides; see `failed`."""


class Ask(StrEnum):
    """Commands that answer a point."""

    PLAN = "plan"
    SIMULATE = "simulate"
    TRAIN = "train"


@dataclass(frozen=True, slots=True)
class WorkerMachine:
    """The GPUs of a simulation."""

    gpu: str
    count: int


@dataclass(frozen=True, slots=True)
class Context:
    """Knowledge that all points of a study share: sent once to each worker."""

    catalog: Catalog
    library: Library


@dataclass(frozen=True, slots=True, eq=False)
class Carried(Library):
    """Profiles together with their samples, which elsewhere are no file."""

    samples: Mapping[tuple[str, str, str], Mapping[str, Any]] = field(default_factory=dict)

    def measured(self, profile: Profile) -> Mapping[str, Any]:
        """As the file had it."""
        return self.samples.get((profile.model, profile.gpu, profile.precision), {})


def carried(context: Context) -> Context:
    """The same for a machine where no profile lies."""
    library = context.library
    samples = {key: library.measured(profile) for key, profile in library.profiles.items()}
    return replace(context, library=Carried(library.profiles, library.paths, library.gpus, library.host_s, samples))


@dataclass(frozen=True, slots=True)
class Inputs:
    """One point, resolved."""

    ask: Ask
    loaded: Loaded | LoadedTraining
    on: WorkerMachine | None = None
    """With `simulate`."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A point whose workers died; it is not kept."""

    reason: str


class Engine(Protocol):
    """Works points out."""

    @property
    def window(self) -> int:
        """Points that may be under way, so that no worker waits and little is lost to a kill."""

    def submit(self, key: str, inputs: Inputs) -> None:
        """Have a point worked out. Returns at once."""

    def take(self) -> tuple[str, Outcome | Lost]:
        """The next point that ends, by its key. Only while some are under way."""

    def __enter__(self) -> Self:
        """Start the workers."""

    def __exit__(self, *_: object) -> None:
        """End them, whatever they are at."""


def run_point(context: Context, inputs: Inputs) -> Outcome:
    """The outcome of one point. Never raises but where memory ends: a point that fails has its reason."""
    from planner.io.store import plain

    try:
        # Results do not depend on the name of a file, nor do errors.
        return dict(plain(answer_of(context, replace(inputs, loaded=replace(inputs.loaded, path=MADE)))))
    except MemoryError:
        raise  # the machine's failure, not the point's
    except InputError as error:
        return failed(str(error))
    except Exception as error:
        return failed(f"internal error: {type(error).__name__}: {error}")


def answer_of(context: Context, inputs: Inputs) -> Outcome:
    """The figures of the command that the study asks."""
    from planner.questions.studies import figures

    match inputs.loaded:
        case LoadedTraining() as training:
            from planner.questions.training.plan import train

            return figures.of_training(train(training, context.catalog, context.library))
        case loaded if inputs.on is None:
            from planner.search.plan import plan

            return figures.of_plan(
                plan(loaded, context.catalog, context.library, created_at=DAY.isoformat()), loaded.scenario
            )
        case loaded:
            from planner.search.simulation import simulate_named

            on = inputs.on
            seen = simulate_named(loaded, context.catalog, context.library, on.gpu, on.count, DAY)
            return figures.of_simulation(seen)


def failed(reason: str) -> Outcome:
    """The outcome of a point that has none."""
    return {
        "values": {},
        "feasible": False,
        "evidence": None,
        "predicted": False,
        "speed_evidence": None,
        "uncertain": False,
        "reason": one_line(reason, 500),
        "failed": True,
    }


def fingerprint(context: Context) -> str:
    """SHA-256 of all GPUs, prices and profiles, and of the program that reads them."""
    from planner.io.warm import versions

    digest = hashlib.sha256(repr((sorted(versions().items()), context.catalog)).encode())
    for key, profile in sorted(context.library.profiles.items()):
        path = context.library.paths.get(key)
        digest.update(path.read_bytes() if path else repr(profile).encode())
    return digest.hexdigest()
