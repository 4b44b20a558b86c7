"""Served: what serving for real gave, as columns: the simulator's records, and what each action took. No torch here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.clock.records import SimulationResult
from simulator.errors import InputError
from simulator.world.deployment import Deployment
from simulator.world.workload import Floats

WAKE, FOLLOW = "wake", "follow"
"""Kinds of action that are the executor's own: starting a batch on an idle device, and after another batch."""
ASKED = "asked to stop"
"""Why one of several processes stopped, where the reason is another's."""
STEPS = ("decode", "resize", "letterbox", "crop", "suppress", "track")
"""Work of a processor that is done as `planner calibrate --what host` times it."""
CROP = "crop"
"""The step whose items are the objects that the model before it found."""
SEGMENTS_BYTES = 100_000_000
"""What a GPU's allocator may hold for each model that is served beyond what its profile says. It takes segments of
2 MiB and of 20 MiB for each stream anew, weights come on another stream than batches, and what is used in part cannot
be given back: 44 MiB; the matrix library keeps up to 32 MiB there, on Hopper. Served on an H100 and an H200, one model
held 67 to 82 MB more, two 95 to 98 MB, four that took turns 215 to 226 MB."""
EVERY = 16
"""Up to here each size of batch is tried; beyond, they are many."""


class ServeError(InputError):
    """What cannot be served for real; the text names the place, the value, the rule and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the camera of a pipeline sees, and what a processor does with its frames."""

    width: int
    height: int
    counts: tuple[int, ...]
    """Objects in each picture of the video, which then begins again."""
    steps: Mapping[str, str]
    """By stage that a processor works on: one of `STEPS`; others compute for as long as the stage says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """All that a device did of one kind for one model, in order of time."""

    kind: str
    """`run`, `load`, `evict`; `work` on one item at a station; `wake` and `follow` last from the moment a batch could
    run until it was started."""
    model: str
    device: str
    start_s: Floats
    batch: NDArray[np.int32]
    """Requests of the batch; 0 of a load and an eviction."""
    expected_s: Floats
    """By the profile, without noise; 0 of all but runs, loads and work."""
    actual_s: Floats

    @property
    def end_s(self) -> Floats:
        """When each was over."""
        return self.start_s + self.actual_s

    def only(self, chosen: NDArray[np.bool_]) -> "Actions":
        """Some of them."""
        columns = {name: getattr(self, name)[chosen] for name in ("start_s", "batch", "expected_s", "actual_s")}
        return replace(self, **columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMemory:
    """Memory that a process was seen to hold."""

    limit_bytes: int
    """What the deployment allows."""
    counted_peak_bytes: int
    """Most at any instant: context as the deployment has it, weights that were there, measured workspace."""
    workspace_bytes: Mapping[str, int]
    """By model: measured for its largest batch, inputs included."""
    weight_bytes: Mapping[str, int]
    """By model: as they lie on the device."""
    allocated_peak_bytes: int | None
    """Most that the device's allocator gave out while serving, inputs of all models included; None on a CPU."""
    context_bytes: int | None
    """Measured before any model; None where it cannot be read."""
    process_peak_bytes: int | None = None
    """Most that the process held on a GPU: context, tensors and the allocator's slack; None on a CPU, and where
    processes cannot be told apart."""

    @property
    def slack_bytes(self) -> int | None:
        """What the allocator held beyond tensors; None where a part of it is not known."""
        if self.process_peak_bytes is None or self.allocated_peak_bytes is None or self.context_bytes is None:
            return None
        return max(0, self.process_peak_bytes - self.allocated_peak_bytes - self.context_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One run of a deployment on a real device."""

    result: SimulationResult
    """The same columns as of a simulation. Where the run was stopped, `duration_s` is until then."""
    actions: tuple[Actions, ...]
    held: Mapping[str, HeldMemory]
    """By device."""
    stopped: str | None = None
    """Why it ended before its time; None where it did not."""

    @property
    def launch_s(self) -> Mapping[str, Floats]:
        """By device, for each batch in order: from the moment it could run until it was started."""
        return {name: launches(self.actions, name) for name in self.held}

    @property
    def overhead(self) -> float:
        """Share of the time that batches waited for the executor, mean over the devices."""
        waited_s = sum(float(np.sum(waits)) for waits in self.launch_s.values())
        whole_s = self.result.duration_s * len(self.launch_s)
        return waited_s / whole_s if whole_s else 0.0


def launches(actions: Sequence[Actions], device: str) -> Floats:
    """Times (s) that batches of one device waited for the executor, in order."""
    mine = [one for one in actions if one.device == device and one.kind in (WAKE, FOLLOW)]
    could_s = np.concatenate([np.empty(0), *(one.start_s for one in mine)])
    waited_s = np.concatenate([np.empty(0), *(one.actual_s for one in mine)])
    return waited_s[np.argsort(could_s, kind="stable")]


def apart(actions: Sequence[Actions], beside_load: Mapping[str, float]) -> tuple[Actions, ...]:
    """The same actions as if batches and loads had never met, and with the room that was made for weights in their
    loads.

    `beside_load`: by model, how many times as long batches and loads take while both run. A simulation puts in again
    what they then take longer, of other meetings. 12 ms, 4 of them beside a load at 2 times: 10 ms.
    """
    own = [(one, beside_load.get(one.model, 1.0)) for one in actions if one.kind in ("run", "load")]

    def alone(one: Actions) -> Actions:
        pace = beside_load.get(one.model, 1.0)
        met = {"run": "load", "load": "run"}.get(one.kind)
        taken_s = one.actual_s
        for other, other_pace in own:
            longer = max(pace, other_pace)
            if other.kind == met and other.device == one.device and longer > 1:
                shared_s = np.array([overlap_s(other, *span) for span in zip(one.start_s, one.end_s, strict=True)])
                taken_s = taken_s - shared_s * (1 - 1 / longer)
        return replace(one, actual_s=taken_s)

    return with_room([alone(one) for one in actions])


def overlap_s(actions: Actions, start_s: float, finish_s: float) -> float:
    """Time of actions within a span of time."""
    inside_s = np.minimum(actions.end_s, finish_s) - np.maximum(actions.start_s, start_s)
    return float(np.clip(inside_s, 0.0, None).sum())


def with_room(actions: Sequence[Actions]) -> tuple[Actions, ...]:
    """Loads from when room was made for them: a batch that had to wait for its weights waited for that."""
    found = list(actions)
    place_of = {(one.kind, one.model, one.device): place for place, one in enumerate(found)}
    for place, waits in enumerate(found):
        loading = place_of.get(("load", waits.model, waits.device))
        if waits.kind not in (WAKE, FOLLOW) or loading is None:
            continue
        load, runs = found[loading], found[place_of["run", waits.model, waits.device]]
        began_s = np.append(runs.start_s, np.inf)[np.searchsorted(runs.start_s, waits.start_s)]
        places = np.searchsorted(load.start_s, waits.start_s)
        loaded = np.append(load.start_s, np.inf)[places] < began_s
        room_s = np.zeros(len(load.start_s))
        room_s[places[loaded]] = waits.actual_s[loaded]
        found[loading] = replace(load, start_s=load.start_s - room_s, actual_s=load.actual_s + room_s)
        found[place] = waits.only(~loaded)
    return tuple(found)


@dataclass(slots=True)
class Notes:
    """Actions as they happen, one list for each kind and model."""

    device: str
    rows: dict[tuple[str, str], list[tuple[float, int, float, float]]] = field(default_factory=dict)

    def add(self, kind: str, model: str, start_s: float, batch: int, expected_s: float, actual_s: float) -> None:
        """One action is over."""
        self.rows.setdefault((kind, model), []).append((start_s, batch, expected_s, actual_s))

    def columns(self) -> tuple[Actions, ...]:
        """All so far."""
        return tuple(self._one(kind, model, np.array(rows)) for (kind, model), rows in sorted(self.rows.items()))

    def _one(self, kind: str, model: str, table: Floats) -> Actions:
        start_s, batch, expected_s, actual_s = table[np.argsort(table[:, 0], kind="stable")].T
        return Actions(
            kind=kind,
            model=model,
            device=self.device,
            start_s=start_s,
            batch=batch.astype(np.int32),
            expected_s=expected_s,
            actual_s=actual_s,
        )


def batch_sizes(most: int) -> tuple[int, ...]:
    """Every size up to 16, then every doubling, and the largest: for 40 it is 1, 2, 3 and so on to 16, 32, 40."""
    return tuple(sorted({*range(1, min(most, EVERY) + 1), *doublings(most)}))


def doublings(most: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, and the largest: for 12 it is 1, 2, 4, 8, 12."""
    return tuple(sorted({1 << power for power in range(most.bit_length())} | {most}))


def in_a_row(parts: Iterable[object], name: str) -> tuple[Any, ...]:
    """All that the parts hold under a name."""
    return tuple(chain.from_iterable(map(attrgetter(name), parts)))


def joined(deployment: Deployment, parts: Sequence[Served]) -> Served:
    """What several processes served at the same time, as one; `deployment` is the whole."""
    results = [part.result for part in parts]
    requests = dict(chain.from_iterable(result.requests.items() for result in results))
    order = [service.model for service in deployment.services]
    whole = replace(
        results[0],
        deployment=deployment,
        duration_s=max(map(attrgetter("duration_s"), results)),
        requests=dict(sorted(requests.items(), key=lambda one: order.index(one[0]))),
        batches=in_a_row(results, "batches"),
        loads=in_a_row(results, "loads"),
        stalls=in_a_row(results, "stalls"),
        memory=dict(chain.from_iterable(result.memory.items() for result in results)),
        wall_s=max(map(attrgetter("wall_s"), results)),
    )
    return Served(
        result=whole,
        actions=in_a_row(parts, "actions"),
        held=dict(chain.from_iterable(part.held.items() for part in parts)),
        stopped="; ".join(part.stopped for part in parts if part.stopped not in (None, ASKED)) or None,
    )
