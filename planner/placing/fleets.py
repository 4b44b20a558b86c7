"""Cost: what a fleet costs, and the integer program that bounds it from below and proposes fleets cheapest first."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from planner.catalog.offers import Offer
from planner.model.candidate import Machines
from planner.model.scenario import Objective
from planner.placing.sizing import Kind, Sized, SizedModels
from planner.placing.stations import Resource, encoded_max
from simulator.world.pipelines import ENCODE
from simulator.world.power import busy_w

GPUS_MAX = 4096
"""GPUs in a fleet without limits."""
NODES_MAX = 20_000
"""Nodes after which the integer program is cut off: a few seconds. Its dual bound holds all the same."""
GAP_MAX = 1e-6
"""Relative gap at which a fleet counts as a best one."""
LOTS = 10 * GAP_MAX
"""Part of its price that a machine counts more than smaller ones of the same GPUs: of two that cost the same by the
GPU, the small one is taken."""
OPTIMAL, INFEASIBLE = 0, 2
"""What scipy.optimize.milp calls them; it says something else where the search was cut off."""
Fleet = tuple[int, ...]
"""How many of each offer."""


def cost_usd_per_hour(offers: Sequence[Offer], fleet: Fleet) -> float:
    """2 x $0.526/h + 1 x $3.06/h = $4.112/h."""
    return sum(n * offer.usd_per_hour for offer, n in zip(offers, fleet, strict=True))


def gpu_count(offers: Sequence[Offer], fleet: Fleet) -> int:
    """GPUs of all instances together."""
    return sum(n * offer.gpu_count for offer, n in zip(offers, fleet, strict=True))


def machines_of(offers: Sequence[Offer], fleet: Fleet, among: Sequence[Offer] = ()) -> tuple[Machines, ...]:
    """What a fleet consists of; `ambiguous` where several `among` share the name."""
    shared = {name for name, n in Counter(o.instance for o in among).items() if n > 1}
    return tuple(
        Machines(
            provider=offer.provider,
            region=offer.region,
            instance=offer.instance,
            gpu=offer.gpu.name,
            gpu_count=offer.gpu_count,
            count=n,
            ambiguous=offer.instance in shared,
        )
        for offer, n in zip(offers, fleet, strict=True)
        if n
    )


def dominates(a: Offer, b: Offer, *, whole_hosts: bool, host_cores: bool = False, weight_bytes: float = inf) -> bool:
    """Whether `a` can stand in for every `b`: the same GPUs in no larger lots, no dearer, as many as wanted.

    `whole_hosts`: the number of GPUs in one machine matters, because a model spans several. `host_cores`: so do cores
    of its processor, because pipelines work there. `weight_bytes`: of all models; a host that has so much needs no
    more.
    """
    return (
        Kind.of(a) == Kind.of(b)
        and (a.gpu_count == b.gpu_count if whole_hosts else b.gpu_count % a.gpu_count == 0)
        and a.usd_per_hour * b.gpu_count <= b.usd_per_hour * a.gpu_count
        and a.count_max is None
        and _hosts_as_much(a.host_memory_bytes, b.host_memory_bytes, weight_bytes)
        and not (host_cores and b.cores * a.gpu_count > a.cores * b.gpu_count)
    )


def _hosts_as_much(a_bytes: int | None, b_bytes: int | None, most_bytes: float) -> bool:
    """Whether one host holds at least what another does, or the most there is to hold; what is not known compares with
    nothing."""
    if a_bytes is None or b_bytes is None:
        return a_bytes == b_bytes or (a_bytes is not None and a_bytes >= most_bytes)
    return a_bytes >= min(b_bytes, most_bytes)


class Solution(NamedTuple):
    """What the integer program found."""

    fleet: Fleet | None
    """None where the search was cut off before it had one."""
    bound: float
    """Proven: no fleet has less of what was minimised."""
    proven: bool
    """Whether the fleet is a best one."""


@dataclass(frozen=True)
class FleetProgram:
    """Which numbers of instances could carry the work at all, as an integer program.

    Minimise price x n over n (instances of each offer, integer) and x (share of each model's work done on each kind):

        sum_k x_mk = 1                                        all of every model's work is done somewhere
        sum_m x_mk w_mk <= (1 - headroom) GPUs_k(n)           no kind is busy longer than its GPUs allow
        x_mk <= instances of kind k that hold the model       no work without a GPU
        GPUs(n) <= max_gpus, n_o <= count_max                 what may be bought

    and where models stay resident, with y_mk replicas (integer):

        w_mk x_mk <= (1 - headroom) S_k y_mk, sum_k y_mk >= 1 a replica keeps at most all S_k GPUs of a machine busy
        sum_m weights_m y_mk <= GPUs_k (memory - smallest context - smallest workspace)

    and for each station that pipelines use - engines, cores, links - with s_k the share of its work done on kind k:

        sum_k s_k = 1, s_k work_k <= (1 - headroom) servers_k(n)
        sum_k GPUs_k room_k >= bytes that all decoded streams hold + resident weights, k among the kinds that decode,
          and where all models run on these, the smallest workspace of the model with most
        sum_k GPUs_k floor(room_k / smallest of them) >= decoded streams, room_k = memory_k - smallest context
        the same of encoded ones, and of both; no more encoded streams in one machine than its driver takes

    **No plan that keeps its SLOs on long-run average is cheaper than the least value.** Take any such plan within
    the scenario's limits; it uses only batches that were measured and run no longer than the SLO. Its n is integer and
    within what may be bought. Let x_mk be the share of m's timely requests answered on kind k. Each costs at least
    w_mk / (attainment x rate) GPU-seconds (`sizing.least_work`), and a plan leaves `headroom` of its GPUs free of that
    work, so the second line holds; the others state that work needs GPUs and that resident weights take memory (layers
    that two models share are left out; a GPU without models only adds room on the right). Each stream is decoded, and
    encoded, on one GPU, in whose memory all fit that it holds, beside the context of a process: that of the models
    there, or of one that only decodes and encodes; a GPU without a process holds no stream. Resident weights are there
    too, and a model that runs somewhere has its workspace there. So the rows of streams hold. Hence n, x, y is feasible
    and the minimum is at most the plan's price. What is reported is the solver's dual bound, at most that minimum.
    """

    offers: tuple[Offer, ...]
    models: tuple[str, ...]
    sized: SizedModels
    headroom: float
    max_gpus: int
    resident: bool
    resources: tuple[Resource, ...] = ()
    """What pipelines ask besides GPUs."""
    stream_sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """GPU memory that each stream holds which is decoded, and which is encoded, in bytes."""
    encoded: tuple[int, ...] = ()
    """Streams that each source which is encoded is encoded to, one at each such stage."""
    context_bytes: int = 0
    """What a process holds that only decodes or encodes."""
    usd_per_hour_min: float = 0.0
    """No fleet is proposed that costs less."""
    spares: int = 0
    """Machines of each offer in a fleet that are paid for besides, in what is proposed."""

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of GPU on offer, each once."""
        return tuple(dict.fromkeys(map(Kind.of, self.offers)))

    def lower_bound_usd_per_hour(self) -> float | None:
        """Price per hour that no plan can beat; None where no fleet within the limits can carry the work."""
        solution = self._solve(self._prices(), (), inf, design=0.0)
        return solution and solution.bound

    @property
    def spare_usd_per_hour(self) -> float:
        """The least for each machine that may be away.

        Were all away that run a model, or do what a pipeline asks, nothing would: a fleet has more of them than may be
        away, and these may be the ones. The model or resource whose cheapest such machine is dearest counts.
        """
        able = [{kind for sized, kind in self._pairs if sized.model == model} for model in self.models]
        able += [set(self._able(resource)) for resource in self.resources]
        prices = [[offer.usd_per_hour for offer in self.offers if Kind.of(offer) in kinds] for kinds in able]
        return max((min(one, default=0.0) for one in prices), default=0.0)

    def least_gpus(self) -> int | None:
        """GPUs that no plan can do with fewer of; None where no fleet within the limits can carry the work."""
        solution = self._solve(self._gpus(), (), inf, design=0.0)
        return solution and ceil(solution.bound - 1e-6)

    def propose(
        self,
        objective: Objective = Objective.COST,
        excluded: Iterable[Fleet] = (),
        max_cost_usd_per_hour: float = inf,
        design: float = 0.0,
    ) -> Solution | None:
        """The fleet with least of the objective that contains no excluded fleet; None where there is none.

        `design`: 0 counts the least work, 1 the design work, 1.2 the design work and a fifth more.
        """
        return self._solve(self._weights(objective), tuple(excluded), max_cost_usd_per_hour, design)

    def _prices(self) -> NDArray[np.float64]:
        return np.array([o.usd_per_hour for o in self.offers] + [0.0] * len(self._pairs))

    def _gpus(self) -> NDArray[np.float64]:
        return np.array([float(o.gpu_count) for o in self.offers] + [0.0] * len(self._pairs))

    def _lots(self) -> NDArray[np.float64]:
        """0 for the smallest machines of a kind of GPU, 1/2 for those twice, 3/4 for those four times as large."""
        smallest = {kind: min(devices.values()) for kind, devices in self._devices_by_kind.items()}
        lots = [1 - smallest[Kind.of(offer)] / offer.gpu_count for offer in self.offers]
        return np.array(lots + [0.0] * len(self._pairs))

    def _weights(self, objective: Objective) -> NDArray[np.float64]:
        prices, gpus = self._prices(), self._gpus()
        match objective:
            case Objective.COST:
                return prices * (1 + LOTS * self._lots()) + 1e-7 * gpus
            case Objective.GPUS:
                return gpus + 1e-4 * prices
            case Objective.ENERGY:
                idle_w = [o.gpu_count * o.gpu.idle_w for o in self.offers]
                above_w = [busy_w(k.gpu, s.profile, s.batch_size_max) - k.gpu.idle_w for s, k in self._pairs]
                work_w = [s.design_work * watts for (s, _), watts in zip(self._pairs, above_w, strict=True)]
                return np.array(idle_w + work_w) + 1e-4 * prices

    @cached_property
    def _pairs(self) -> list[tuple[Sized, Kind]]:
        return [(self.sized[m, k], k) for m in self.models for k in self.kinds if (m, k) in self.sized]

    def _solve(
        self, weights: NDArray[np.float64], excluded: tuple[Fleet, ...], max_cost: float, design: float
    ) -> Solution | None:
        """The solution, worked out once."""
        asked = weights.tobytes(), excluded, max_cost, design
        if asked not in self._solved:
            self._solved[asked] = self._solution(weights, excluded, max_cost, design)
        return self._solved[asked]

    @cached_property
    def _solved(self) -> dict[tuple[bytes, tuple[Fleet, ...], float, float], Solution | None]:
        """By weights, what is excluded, the most it may cost, and the design."""
        return {}

    def _solution(
        self, weights: NDArray[np.float64], excluded: Sequence[Fleet], max_cost: float, design: float
    ) -> Solution | None:
        """Columns: n by offer, x by pair, y by pair where resident, one switch by excluded fleet and offer, s by
        resource and kind, and u by offer, 1 where any is bought, if spares of it are paid for."""
        if {s.model for s, _ in self._pairs} != set(self.models):
            return None
        able = [len(self._able(resource)) for resource in self.resources]
        if 0 in able:
            return None
        rows = _Rows(
            len(self.offers), len(self._pairs), self.resident, len(excluded), sum(able), spared=self.spares > 0
        )
        self._work_rows(rows, design)
        self._resource_rows(rows, design)
        if self.resident:
            self._memory_rows(rows)
        self._exclusion_rows(rows, excluded)
        rows.add(upper=self.max_gpus, n={o: float(offer.gpu_count) for o, offer in enumerate(self.offers)})
        prices = {o: offer.usd_per_hour for o, offer in enumerate(self.offers)}
        spares = {o: self.spares * usd_per_hour for o, usd_per_hour in prices.items()} if self.spares else {}
        for o in spares:
            rows.add(upper=0, n={o: 1.0}, u={o: -float(self.count_max(self.offers[o]))})
        if max_cost < inf or self.usd_per_hour_min:
            rows.add(lower=self.usd_per_hour_min, upper=max_cost * (1 + 1e-9), n=prices, u=spares)
        return rows.solve(weights, [self.count_max(o) for o in self.offers], list(spares.values()))

    def count_max(self, offer: Offer) -> int:
        """Most instances of an offer that may be bought."""
        fitting = self.max_gpus // offer.gpu_count
        return fitting if offer.count_max is None else min(offer.count_max, fitting)

    @property
    def gpu_count_max(self) -> int:
        """Most GPUs that may be bought."""
        return min(self.max_gpus, gpu_count(self.offers, tuple(map(self.count_max, self.offers))))

    def unlimited(self) -> "FleetProgram":
        """The same question where any number of instances may be bought."""
        offers = tuple(replace(offer, count_max=None) for offer in self.offers)
        return replace(self, offers=offers, max_gpus=GPUS_MAX)

    def within_limits(self, fleet: Fleet) -> Fleet:
        """What remains of a fleet when no more is bought than may be."""
        left: list[int] = []
        gpus = self.max_gpus
        for offer, n in zip(self.offers, fleet, strict=True):
            left.append(min(n, self.count_max(offer), gpus // offer.gpu_count))
            gpus -= left[-1] * offer.gpu_count
        return tuple(left)

    def _work_rows(self, rows: "_Rows", design: float) -> None:
        for model in self.models:
            rows.add(lower=1, upper=1, x=dict.fromkeys(self._pairs_of(model), 1.0))
        for kind in self.kinds:
            work = {i: _work(s, design) for i, s in self._pairs_on(kind).items()}
            devices = {o: -(1 - self.headroom) * g for o, g in self._devices(kind).items()}
            rows.add(upper=0, x=work, n=devices)
        for i, (s, kind) in enumerate(self._pairs):
            holds = {o: -1.0 for o, g in self._devices(kind).items() if g >= s.stages}
            rows.add(upper=0, x={i: 1.0}, n=holds)

    def _able(self, resource: Resource) -> list[Kind]:
        """Kinds of GPU in whose machines a resource is."""
        return [kind for kind in self.kinds if kind.gpu.name in resource.work]

    def _resource_rows(self, rows: "_Rows", design: float) -> None:
        """All of the work is done somewhere, and no kind of station is busy longer than there are such."""
        column, coding = 0, set[Kind]()
        for resource in self.resources:
            able = self._able(resource)
            places = range(column, column + len(able))
            rows.add(lower=1, upper=1, s=dict.fromkeys(places, 1.0))
            for place, kind in zip(places, able, strict=True):
                here = {o: offer for o, offer in enumerate(self.offers) if Kind.of(offer) == kind}
                free = {o: -(1 - self.headroom) * resource.servers(offer) for o, offer in here.items()}
                rows.add(upper=0, s={place: resource.busy(kind.gpu.name, design)}, n=free)
            column += len(able)
            if sizes := self.stream_sizes.get(resource.kind):
                coding |= set(able)
                self._held_row(rows, able, sum(sizes))
                self._number_row(rows, able, resource.kind, sizes)
            if resource.kind == ENCODE:
                self._driver_rows(rows, able)
        self._held_row(rows, coding, sum(map(sum, self.stream_sizes.values())))

    def _held_row(self, rows: "_Rows", able: Collection[Kind], held_bytes: int) -> None:
        """What streams hold fits into the GPUs whose engines they may use, beside weights that stay there and what the
        largest model runs in."""
        room = {o: self._room_bytes(g) / 1e9 for o, g in enumerate(self.offers) if Kind.of(g) in able}
        weights: dict[int, float] = {}
        if self.resident:
            shared = self._shared_layers
            here = ((i, s) for i, (s, kind) in enumerate(self._pairs) if kind in able)
            weights = {i: -exclusive_bytes(s, shared) / 1e9 for i, s in here}
        gpus = {o: self.offers[o].gpu_count * gigabytes for o, gigabytes in room.items()}
        running_bytes = self._running_bytes if all(kind in able for _, kind in self._pairs) else 0
        rows.add(lower=(held_bytes + running_bytes) / 1e9, n=gpus, y=weights)

    @cached_property
    def _running_bytes(self) -> float:
        """Memory that some GPU needs at least for a model that runs, besides weights that stay: its workspace at batch
        1, and its weights where models take turns."""
        least = dict.fromkeys(self.models, inf)
        for s, _ in self._pairs:
            held = s.profile.workspace(1) + (0 if self.resident else s.profile.weight_bytes)
            least[s.model] = min(held, least[s.model])
        return max(least.values(), default=0)

    def _number_row(self, rows: "_Rows", able: Sequence[Kind], kind: str, sizes: Sequence[int]) -> None:
        """As many streams as there are: by memory, were all the smallest, and by what drivers take of those that are
        encoded to fewest."""
        using = {o: offer for o, offer in enumerate(self.offers) if Kind.of(offer) in able}
        least, fewest = min(sizes), min(self.encoded) if kind == ENCODE else 1
        fitting = {o: float(g.gpu_count * (self._room_bytes(g) // least)) if least else inf for o, g in using.items()}
        most = {o: min(fitting[o], encoded_max(kind, g.gpu) // fewest, len(sizes)) for o, g in using.items()}
        rows.add(lower=len(sizes), n=most)

    def _room_bytes(self, offer: Offer) -> int:
        """Memory of one GPU without the least that a process holds there: that of models, or one without any."""
        contexts = (s.context_bytes for s, kind in self._pairs if kind == Kind.of(offer))
        return max(0, offer.memory_bytes - min((self.context_bytes, *contexts)))

    def _driver_rows(self, rows: "_Rows", able: Sequence[Kind]) -> None:
        """Drivers take all streams that are encoded, and one of them all those of the source with most."""
        taken = {o: encoded_max(ENCODE, g.gpu) for o, g in enumerate(self.offers) if Kind.of(g) in able}
        rows.add(lower=sum(self.encoded), n={o: float(min(most, sum(self.encoded))) for o, most in taken.items()})
        rows.add(lower=1, n={o: 1.0 for o, most in taken.items() if most >= max(self.encoded)})

    def _pairs_of(self, model: str) -> list[int]:
        return self._pairs_by_model[model]

    @cached_property
    def _pairs_by_model(self) -> dict[str, list[int]]:
        by_model: dict[str, list[int]] = {}
        for i, (s, _) in enumerate(self._pairs):
            by_model.setdefault(s.model, []).append(i)
        return by_model

    def _pairs_on(self, kind: Kind) -> dict[int, Sized]:
        return {i: s for i, (s, k) in enumerate(self._pairs) if k == kind}

    def _devices(self, kind: Kind) -> Mapping[int, int]:
        return self._devices_by_kind.get(kind, {})

    @cached_property
    def _devices_by_kind(self) -> dict[Kind, dict[int, int]]:
        """By kind: the GPUs of each offer."""
        by_kind: dict[Kind, dict[int, int]] = {}
        for o, offer in enumerate(self.offers):
            by_kind.setdefault(Kind.of(offer), {})[o] = offer.gpu_count
        return by_kind

    def _memory_rows(self, rows: "_Rows") -> None:
        for model in self.models:
            rows.add(lower=1, y=dict.fromkeys(self._pairs_of(model), 1.0))
        for i, (s, _) in enumerate(self._pairs):
            rows.add(upper=0, x={i: s.least_work}, y={i: -(1 - self.headroom) * len(s.batches)})
        shared = self._shared_layers
        for kind in self.kinds:
            here = self._pairs_on(kind)
            if not here:
                continue
            least = min(s.context_bytes for s in here.values()) + min(s.profile.workspace(1) for s in here.values())
            room = kind.memory_bytes - least
            weights = {i: exclusive_bytes(s, shared) / 1e9 for i, s in here.items()}
            rows.add(upper=0, y=weights, n={o: -g * room / 1e9 for o, g in self._devices(kind).items()})

    @cached_property
    def _shared_layers(self) -> set[str]:
        """Layers that two models of the scenario have in common."""
        users = {(s.model, layer.key) for s, _ in self._pairs for layer in s.profile.layers}
        return {key for key, models in Counter(key for _, key in users).items() if models > 1}

    def _exclusion_rows(self, rows: "_Rows", excluded: Sequence[Fleet]) -> None:
        """Every fleet that is proposed has more of at least one offer than each excluded one."""
        for r, fleet in enumerate(excluded):
            switch = {o: r * len(self.offers) + o for o in range(len(self.offers))}
            rows.add(lower=1, z={switch[o]: 1.0 for o in switch})
            for o, had in enumerate(fleet):
                rows.add(lower=0, n={o: 1.0}, z={switch[o]: -float(had + 1)})


class _Rows:
    """Rows of an integer program over the blocks of columns n, x, y, z, s, u."""

    def __init__(
        self, offers: int, pairs: int, resident: bool, excluded: int, stations: int, *, spared: bool = False
    ) -> None:
        widths = {"n": offers, "x": pairs, "y": pairs * resident, "z": excluded * offers, "s": stations}
        widths |= {"u": offers * spared}
        self.widths = widths
        self.start = dict(zip(widths, np.cumsum([0, *widths.values()]), strict=False))
        self.rows: list[tuple[dict[int, float], float, float]] = []

    def add(self, *, lower: float = -inf, upper: float = inf, **blocks: dict[int, float]) -> None:
        columns = {int(self.start[b]) + i: v for b, cells in blocks.items() for i, v in cells.items()}
        self.rows.append((columns, lower, upper))

    def solve(
        self, weights: NDArray[np.float64], count_max: Sequence[int], spare_weights: Sequence[float]
    ) -> Solution | None:
        """The best counts and the proven bound on the weights' sum; None where surely nothing is feasible."""
        width = sum(self.widths.values())
        cells = [
            (row, column, value) for row, (columns, _, _) in enumerate(self.rows) for column, value in columns.items()
        ]
        row, column, value = zip(*cells, strict=True)
        matrix = coo_array((value, (row, column)), (len(self.rows), width)).tocsc()
        matrix.eliminate_zeros()
        most = {"x": 1.0, "y": inf, "z": 1.0, "s": 1.0, "u": 1.0}
        upper = np.concatenate([count_max, *(np.full(self.widths[block], limit) for block, limit in most.items())])
        whole = np.ones(width, dtype=np.int8)
        for block in "xs":
            whole[self.start[block] : self.start[block] + self.widths[block]] = 0
        solution = milp(
            np.concatenate([weights, np.zeros(width - len(weights) - len(spare_weights)), spare_weights]),
            constraints=LinearConstraint(matrix, [r[1] for r in self.rows], [r[2] for r in self.rows]),
            integrality=whole,
            bounds=Bounds(np.zeros(width), upper),
            options={"node_limit": NODES_MAX, "mip_rel_gap": GAP_MAX},
        )
        if solution.status == INFEASIBLE:
            return None
        fleet = None if solution.x is None else tuple(round(n) for n in solution.x[: self.widths["n"]])
        return Solution(fleet, float(solution.mip_dual_bound or 0.0), solution.status == OPTIMAL)


def _work(sized: Sized, design: float) -> float:
    """Between the least work (0) and the design work (1), or that many times the design work."""
    if design >= 1:
        return sized.design_work * design
    return sized.least_work + design * (sized.design_work - sized.least_work)


def exclusive_bytes(sized: Sized, shared: set[str]) -> int:
    """Weights of layers that no other model has."""
    return sum({layer.key: layer.weight_bytes for layer in sized.profile.layers if layer.key not in shared}.values())
