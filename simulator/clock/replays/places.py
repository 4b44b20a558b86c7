"""The queues of a deployment whose GPUs nobody disturbs, as machine code has them, and places to replay them in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, chain
from typing import Any, TypeVar

import numpy as np

from simulator.clock.run import Compiled, World, answers_s
from simulator.clock.serving import ROUNDING, ServingGpu
from simulator.rules.latencies import Counts
from simulator.rules.queues import Queue, SharedQueue
from simulator.rules.routing import split
from simulator.world.deployment import Deployment, Replica, Routing
from simulator.world.workload import Floats

Found = TypeVar("Found")
FACTORS_FIRST = 128
"""Factors on the times of a queue's batches that are drawn at least, until a world needs more."""
SPARE_FACTORS = 1.1
"""Factors that are drawn for a queue over those that any earlier world used: a world that needs more begins anew."""
SPARE = 1.1
"""Room for requests over those of the first world: arrivals are random."""
SENT = 1.5
"""Room of a replica that a router fills over its share of the requests, until it is sent more."""
SENT_LEAST = 64
"""Requests for which it has room beside that."""
ROUTINGS = Routing.ROUND_ROBIN, Routing.LEAST_OUTSTANDING, Routing.SHARED
"""Rules of routing that are compiled."""


class NoRoomError(Exception):
    """A router sent a replica more than there is room for: see `Places.with_room`."""

    def __init__(self, number: int) -> None:
        super().__init__(f"queue {number} is full")
        self.number = number


def plain_gpus(deployment: Deployment, duration_s: float) -> "PlainGpus | None":
    """All GPUs of a deployment; None where somebody can disturb those that are served together."""
    known = all(s.routing in ROUTINGS or len(s.replicas) == 1 for s in deployment.services)
    if deployment.failures is not None or deployment.pipelines or not known or not _stages_are_as_fast(deployment):
        return None
    template = World(deployment, {}, duration_s, seed=0)
    plain = all(Compiled.takes(gpus) or not gpus[0].queues or _is_routed(gpus) for gpus in template.together())
    return PlainGpus(deployment, template) if plain else None


def _is_routed(gpus: Sequence[ServingGpu]) -> bool:
    """Whether it is one GPU that others keep waiting by what they draw, or a router by what it sends."""
    return len(gpus) == 1 and not gpus[0].steady and bool(_routed_code().is_compiled(gpus[0]))


def _routed_code() -> Any:
    return import_module("simulator.clock.replays.routed")


def _stages_are_as_fast(deployment: Deployment) -> bool:
    """Whether each model that is cut has GPUs of one kind, none faster than the others in this session."""
    kinds = {device.id: device.gpu for device in deployment.devices}
    replicas = [replica for service in deployment.services for replica in service.replicas if len(replica.devices) > 1]
    return not any(one.profile.session_cv or len({kinds[gpu] for gpu in one.devices}) > 1 for one in replicas)


@dataclass
class Place:
    """Where one world at a time is replayed: another thread needs another place."""

    columns: Any
    sums: Any
    requests: Any
    turns: list[Any]
    """As of `PlainGpus.groups`: the GPUs, what is under way to them, and what they hand on."""
    routed: Any
    """Those of `PlainGpus.routed`; None without any."""
    rng: np.random.Generator
    """For factors on batch times, at any state."""
    most_used: Any
    """By queue that has factors: the most that a world used."""
    most_busy_s: Any
    """The longest that as many batches of 1 would have taken."""

    def stock_up(self, number: int) -> Floats:
        """Twice as many factors for one queue; the room for those of all, with what stands there."""
        factors: Floats = self.columns.factors
        self.columns.stock[number] *= 2
        if (more := int(self.columns.stock[number]) - factors.shape[1]) > 0:
            factors = np.pad(factors, ((0, 0), (0, more)))
            self.columns = self.columns._replace(factors=factors)
        return factors

    def learn_use(self, numbers: Sequence[int], one_s: Floats) -> None:
        """Note how many factors a world used whose batches of 1 take so long."""
        used = self.columns.used[numbers]
        self.most_used = np.maximum(self.most_used, used)
        self.most_busy_s = np.maximum(self.most_busy_s, used * one_s)

    def stock_for(self, numbers: Sequence[int], one_s: Floats) -> None:
        """As many factors for a world as any used so far, or as would keep a GPU as busy at its speeds, and some more:
        each takes time to draw."""
        if self.most_used.any():
            likely = np.minimum(self.most_used, self.most_busy_s / one_s)
            wanted = (SPARE_FACTORS * likely).astype(np.int64) + 1
            self.columns.stock[numbers] = np.minimum(wanted, self.columns.factors.shape[1])


class PlainGpus:
    """GPUs that nobody disturbs, and their queues one after another."""

    def __init__(self, deployment: Deployment, template: World) -> None:
        self.code: Any = import_module("simulator.clock.compiled")
        self.adding: Any = import_module("simulator.clock.adding_up")
        self.gpus = list(template.gpus.values())
        self.queues = [queue for gpu in self.gpus for queue in gpu.queues]
        chains = _numbers_by_model(self.queues, template)
        self.by_model = {model: [own[0] for own in those] for model, those in chains.items()}
        """The queues to which requests of each model come, in the order of its replicas."""
        self.stages = {model: list(chain.from_iterable(those)) for model, those in chains.items()}
        """All queues of each model, replica after replica."""
        self.cut = [own for those in chains.values() for own in those if len(own) > 1]
        """Those of each replica that is cut into stages."""
        self.replicas = _replicas_by_queue(deployment, self.stages)
        """By queue."""
        self.rule = self.code.rule_of(self.gpus[0])
        self.groups = _groups_of(self.gpus, template)
        """Numbers of GPUs that are served together, as their models take turns or are cut into stages."""
        self.routed = [number for number, gpu in enumerate(self.gpus) if gpu.queues and not gpu.steady]
        """Numbers of GPUs that draw from queues which replicas share, or get what routers send."""
        self.sharing = {m: own for m, own in self.by_model.items() if isinstance(self.queues[own[0]], SharedQueue)}
        """As `by_model`, of models whose replicas share one queue."""
        self.sent = {m: own for m, own in self.by_model.items() if template.entrances[m].router}
        """The same of those whose requests a router sends."""
        self.joined = sorted(chain(self.routed, *self.groups))
        """All GPUs that are not simply served one by one."""
        self.turning: Any = import_module("simulator.clock.swapping") if self.groups else None
        self.routing: Any = _routed_code() if self.routed else None
        self.noisy = [number for number, queue in enumerate(self.queues) if queue.stage.cv]
        """Queues whose batches have factors on their times."""
        self.link_bytes_per_s = {host.id: host.pcie_root_bytes_per_s for host in deployment.hosts}
        """By host."""
        self.service_s: Floats = self.code.columns(self.queues, 0).service_s
        """By queue and batch size, as it is known."""
        part_bytes = [queue.stage.weight_bytes for queue in self.queues]
        whole_bytes = [replica.profile.weight_bytes for replica in self.replicas]
        self.part_bytes, self.whole_bytes = np.array(part_bytes)[:, None], np.array(whole_bytes)[:, None]
        """Weights of each queue, and of its model."""
        self.load_s = np.array(list(map(_load_s, self.queues)))
        """Of all its weights, by queue."""
        self.gpu_begin = begins([len(gpu.queues) for gpu in self.gpus])
        """Where the queues of each GPU begin, and where the last one's end."""
        self.in_order = np.array(list(chain.from_iterable(self.stages.values())), dtype=np.int64)
        """Queues by model and replica, and of these:"""
        self.caps = np.array([self.queues[number].cap for number in self.in_order.tolist()], dtype=np.int64)
        self.places = np.searchsorted(self.gpu_begin, self.in_order, side="right") - 1
        """Their GPUs."""

    def parted(self, service_s: Floats) -> Floats:
        """Of times that the whole model of each queue takes, those of its stage, as `simulator.clock.run.stages`."""
        for own in self.cut:
            service_s[..., own, :] = service_s[..., own, :] * self.part_bytes[own] / self.whole_bytes[own]
        return service_s

    def answers(self, service_s: Floats) -> Floats:
        """By queue and batch size the time to the answer, later stages included."""
        if not self.cut:
            return service_s
        found = service_s.copy()
        for own in self.cut:
            parts = [self.queues[number].stage for number in own]
            found[own[0]] = answers_s(parts, service_s[own].tolist())
            found[own[0], self.queues[own[0]].cap + 1 :] = 0.0
        return found


def _numbers_by_model(queues: Sequence[Queue], template: World) -> dict[str, list[list[int]]]:
    """Places among the queues of those of each replica of each model, stage by stage."""
    numbers = {id(queue): number for number, queue in enumerate(queues)}
    return {
        model: [[numbers[id(stage)] for stage in stages] for stages in those]
        for model, those in template.queues.items()
    }


def _replicas_by_queue(deployment: Deployment, stages: Mapping[str, Sequence[int]]) -> list[Replica]:
    """The replica of each queue."""
    numbers = chain.from_iterable(stages[service.model] for service in deployment.services)
    replicas = [replica for service in deployment.services for replica in service.replicas for _ in replica.devices]
    found = dict(zip(numbers, replicas, strict=True))
    return [found[number] for number in range(len(found))]


def _load_s(queue: Queue) -> float:
    """How long all weights of a queue's model take to load."""
    return queue.stage.load_s(queue.stage.weight_bytes)


def _groups_of(gpus: Sequence[ServingGpu], template: World) -> list[list[int]]:
    """Numbers of GPUs, those that are served together; none of those that are simply served one by one, or routed."""
    numbers = {id(gpu): number for number, gpu in enumerate(gpus)}
    return [
        [numbers[id(gpu)] for gpu in together]
        for together in template.together()
        if any(gpu.steady and (gpu.swaps or not gpu.self_contained) for gpu in together)
    ]


class Places:
    """Places for replaying worlds, and which queues are whose there: larger ones where a world has more requests."""

    def __init__(self, plain: PlainGpus, models: Sequence[str]) -> None:
        self.plain = plain
        self.by_model = [plain.by_model[model] for model in models]
        self.sharing = [plain.sharing.get(model, []) for model in models]
        self.sent = [plain.sent.get(model, []) for model in models]
        self.most = np.full(len(models), -1)
        """Requests of each model for which there is room."""
        self.room: dict[int, int] = {}
        """By queue that a router fills: requests for which it has room."""
        self.dealt: Counts
        """As `simulator.clock.compiled.WorldRequests.place`."""
        self.layout: Any
        self._places: list[Place] = []

    def wide_enough(self, wanted: Counts, count: int) -> list[Place]:
        """So many, with room for so many requests of each model."""
        if (wanted > self.most).any():
            self.most, self._places = (SPARE * wanted).astype(np.int64) + 1, []
            self._lay_out()
        while len(self._places) < count:
            self._places.append(self._place())
        return self._places

    def with_room(self, replay: Callable[[], Found]) -> Found:
        """What a replay gives, begun again where a queue has no room for what a router sends."""
        while True:
            try:
                return replay()
            except NoRoomError as full:
                self.room[full.number] *= 2
                self._places = []
                self._lay_out()

    def serve_in_turns(self, place: Place, columns: Any, end_s: float) -> tuple[int, dict[int, tuple[float, int, int]]]:
        """Let GPUs serve one after another what was dealt to their queues, where models of some take turns in memory,
        are cut into stages, or have replicas that share a queue or a router.

        -1, or a queue that is short of factors; and by number of each such GPU, the time it stood still, how often it
        loaded weights, and the most bytes in use. Raises NoRoomError.
        """
        plain, begin = self.plain, self.layout.gpu_begin.tolist()
        code, turning = plain.code, plain.turning
        loaded: dict[int, tuple[float, int, int]] = {}
        for number, gpu in enumerate(plain.gpus):
            if number in plain.joined:
                continue
            first, end = begin[number : number + 2]
            short = code.serve_one(code.part(columns, first, end), code.rule_of(gpu), end_s, 0.0, end - first - 1)[2]
            if short >= 0:
                return int(first + short), loaded
        longest_s = (1 + ROUNDING) * (plain.load_s + columns.longest_s)
        for together, (turns, flights, chains) in zip(plain.groups, place.turns, strict=True):
            turns.most_s[:, 0] = [longest_s[begin[number] : begin[number + 1]].max() for number in together]
            rule = turning.rule_in_turns(plain.gpus[together[0]])
            short = turning.serve_on(columns, turns, flights, chains, rule, end_s, True)
            if short >= 0:
                return int(short), loaded
            loaded |= {number: turning.figures(turns, row, end_s) for row, number in enumerate(together)}
        if place.routed:
            rule = code.rule_of(plain.gpus[plain.routed[0]])
            short = plain.routing.serve_routed(self.layout, columns, place.requests, place.routed, rule, end_s)
            if short < -1:
                raise NoRoomError(-2 - int(short))
        else:
            short = -1
        return int(short), loaded

    def _lay_out(self) -> None:
        """Deal so many requests of each model to its queues."""
        plain = self.plain
        dealt: dict[int, Counts] = {}
        front = np.full(len(plain.queues), -1)
        for most, own in zip(self.most.tolist(), self.by_model, strict=True):
            if own in self.sharing:
                dealt[own[0]], front[own] = np.arange(most), own[0]
            elif own in self.sent:
                share = int(SENT * most / len(own)) + SENT_LEAST
                self.room |= {number: min(max(self.room.get(number, 0), share), most) for number in own}
                dealt |= {number: np.zeros(self.room[number], dtype=np.int64) for number in own}
            else:
                dealt |= zip(own, split(most, [plain.replicas[number].share for number in own]), strict=True)
        dealt |= {number: dealt[own[0]] for own in plain.cut for number in own if own[0] in dealt}
        nobody = np.empty(0, dtype=np.int64)
        parts = [dealt.get(number, nobody) for number in range(len(plain.queues))]
        self.dealt = np.concatenate([nobody, *parts])
        self.layout = plain.code.Layout(
            gpu_begin=plain.gpu_begin,
            replica=np.array([number for own in self.by_model for number in own], dtype=np.int64),
            replica_begin=begins(list(map(len, self.by_model))),
            room_begin=begins(list(map(len, parts))),
            following=self._following(),
            front=front,
            routed=np.array([own in self.sent for own in self.by_model], dtype=np.bool_),
        )

    def _following(self) -> Counts:
        """By queue: that of the next stage, or -1."""
        found = np.full(len(self.plain.queues), -1)
        for own in self.plain.cut:
            found[own[:-1]] = own[1:]
        return found

    def _place(self) -> Place:
        """For one thread."""
        plain, room = self.plain, len(self.dealt)
        columns = plain.code.columns(plain.queues, room)
        full = np.diff(self.layout.room_begin) // columns.cap
        columns.stock[:] = np.clip(full, FACTORS_FIRST, columns.factors.shape[1])
        largest = columns.service_s.shape[1] - 1
        return Place(
            columns,
            plain.adding.sums(len(plain.queues), largest, len(self.by_model), room),
            plain.code.WorldRequests(
                arrival_s=np.empty(room),
                begin=np.zeros(len(self.by_model) + 1, dtype=np.int64),
                slo_s=np.array([plain.queues[own[0]].slo_s for own in self.by_model]),
                place=self.dealt.copy() if plain.sent else self.dealt,
                start_s=np.empty(room),
                gone_s=np.empty(room),
            ),
            self._turns(columns),
            plain.routing and plain.routing.group_of(plain.routed, len(plain.queues), self.sharing, self.sent),
            np.random.default_rng(0),
            np.zeros(len(plain.noisy), dtype=np.int64),
            np.zeros(len(plain.noisy)),
        )

    def _turns(self, columns: Any) -> list[Any]:
        """For GPUs that are served together: these, what is under way to them, and what they hand on."""
        plain, begin = self.plain, self.layout.gpu_begin
        if not plain.groups:
            return []
        code: Any = import_module("simulator.clock.replays.links")
        handing: Any = import_module("simulator.clock.replays.chains")
        most = np.diff(self.layout.room_begin[begin])[list(chain(*plain.groups))].max()
        logs = code.logs_for(max(map(len, plain.groups)), int(most))  # one group after another is served
        found = []
        for together in plain.groups:
            gpus, numbers = [plain.gpus[number] for number in together], np.array(together)
            loading = next((gpu for gpu in gpus if gpu.swaps), gpus[0])
            bytes_per_s = plain.link_bytes_per_s[loading.device.host]
            flights = code.flights_of(bytes_per_s, begin[numbers], begin[numbers + 1])
            turns = code.turns_of(gpus, bytes_per_s, logs)
            found.append((turns, flights, handing.chains_of(plain.queues, columns, turns, flights)))
        return found


def begins(lengths: Sequence[int]) -> Counts:
    """Where each of several runs begins, and where the last ends."""
    return np.array([0, *accumulate(lengths)], dtype=np.int64)
