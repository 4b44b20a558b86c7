"""Rounds: how long a GPU takes to serve each of its models once, and how strained that leaves it.

Numbers in plain loops: the same functions run as they stand on lists, for one GPU, and as machine code on arrays, for
very many; see `planner.placing.packing.strain`. What the round is, `planner.placing.duty` says.
"""

from collections.abc import Iterator
from math import ceil, inf, sqrt
from typing import Any, NamedTuple, Protocol


class Numbers(Protocol):
    """A list or an array; of rows, where two indices are asked."""

    def __len__(self) -> int:
        """How many there are."""

    def __iter__(self) -> Iterator[Any]:
        """Each in turn."""

    def __getitem__(self, place: Any, /) -> Any:
        """One of them."""

    def __setitem__(self, place: Any, value: Any, /) -> None:
        """Another in its place."""


LOST_WEIGHT = 10
"""How much more a share of demand that gets no turn counts than one that may wait too long: the usual SLOs allow
1 to 5 % of misses, so that a tenth that is lost breaks them all."""
USUAL_ROUNDS = 12
"""Steps from the full round down to the usual one."""
HARD = 1e9
"""Score of a GPU that breaks a limit which no simulation could excuse: above that of any strain up to 177."""


class RoundRule(NamedTuple):
    """What a round must keep."""

    headroom: float
    swap: bool
    """Models may take turns in memory."""
    prefetch: bool
    """Weights are loaded while batches run."""


class Demanded(NamedTuple):
    """What is asked of models, an entry for each."""

    spread: Numbers
    """Standard deviations over the mean that the SLO must bear, times that of one arrival."""
    misses: Numbers
    """Half of the share of requests that may be late."""
    gap_s: Numbers
    """Least time between two requests."""
    delay_s: Numbers
    """How long a batch waits for more requests at most."""
    limit_s: Numbers
    """From a request's arrival to its answer."""
    tightness: Numbers
    """How many times the room a model gets: above 1 where a replay missed."""
    run_s: Numbers
    """Of a batch of 1, 2, ..."""


class Needed(NamedTuple):
    """What models need of a GPU, an entry for each."""

    memory_bytes: Numbers
    """Of the GPU itself."""
    needed_rps: Numbers
    """Requests a second of the whole model, on however many GPUs."""
    least_work: Numbers
    """GPUs that these keep at work at least."""
    context_bytes: Numbers
    """Of the process, besides weights and workspace."""
    weight_bytes: Numbers
    workspace_bytes: Numbers
    """Of a batch of 1, 2, ..."""
    load_s: Numbers
    """Of all its weights."""
    longest: Numbers
    """Largest feasible batch."""


class Cycle(NamedTuple):
    """What stands on one GPU, an entry for each model, and room to reckon in."""

    model: Numbers
    """Its number: its place in `Demanded` and `Needed`."""
    rate_rps: Numbers
    """Requests a second of its that come to this GPU."""
    load_s: Numbers
    """Loading in each round."""
    most: Numbers
    """Batch up to which a round gathers."""
    cap: Numbers
    """Largest batch that fits in memory here."""
    size: Numbers
    """Of the batch in the longest round. This and all below `settle` sets."""
    batch_s: Numbers
    """Time that this batch runs."""
    own_s: Numbers
    """What a model takes besides waiting for a round."""
    strain: Numbers
    """Up to 1 its SLO is met: its latency at worst over its limit, or what comes in a round over its largest batch."""
    often: Numbers
    """Turns a second."""
    busy_s: Numbers
    """Time that this batch is loaded for and runs."""
    order: Numbers
    """The models by how often they take part, the rarest first."""


def turns_for(count: int) -> Cycle:
    """Room for so many models on one GPU."""
    whole: dict[str, Numbers] = {name: [1] * count for name in ("model", "most", "cap", "size", "order")}
    parts: dict[str, Numbers] = {name: [0.0] * count for name in Cycle._fields if name not in whole}
    return Cycle(**whole, **parts)


def settle(asked: Demanded, here: Cycle, count: int, rule: RoundRule) -> float:
    """The longest round; sets how strained each model is."""
    longest_s = longest_round_s(asked, here, count, rule)
    usual_s = _usual_round_s(asked, here, count, longest_s, rule)
    _order(here, count, usual_s)
    run_s, load_s = _total(here.batch_s, count), _total(here.load_s, count)
    for i in range(count):
        here.busy_s[i] = here.batch_s[i] + here.load_s[i]
    busy_s = _total(here.busy_s, count)
    for i in range(count):
        m, cap = here.model[i], here.cap[i]
        but = i if run_s + load_s <= asked.gap_s[m] else -1
        if rule.prefetch:
            wait_s = _wait_s(here, here.batch_s, run_s, count, but, asked.misses[m])
            wait_s = max(wait_s, _wait_s(here, here.load_s, load_s, count, but, asked.misses[m]))
        else:
            wait_s = _wait_s(here, here.busy_s, busy_s, count, but, asked.misses[m])
        rounds_left = ceil(gathered(here.rate_rps[i], asked.spread[m], longest_s) / cap) - 1
        here.own_s[i] = asked.delay_s[m] + rounds_left * usual_s + here.batch_s[i]
        late = (wait_s / (1 - rule.headroom) + here.own_s[i]) / asked.limit_s[m]
        crowding = here.rate_rps[i] * usual_s / cap * asked.tightness[m]
        here.strain[i] = max(late, crowding + LOST_WEIGHT * max(0.0, crowding * (1 - rule.headroom) - 1))
    return longest_s


def gathered(rate_rps: float, spread: float, round_s: float) -> int:
    """Requests that a round may bring at worst: 100 Poisson arrivals and an SLO of 99 % make 100 + 2.33 x 10.

    Those over the largest batch wait further rounds: 9 gathered, 4 fit, so 2 more.
    """
    mean = rate_rps * round_s
    return max(1, ceil(mean + spread * sqrt(mean) - 1e-9))


def longest_round_s(asked: Demanded, here: Cycle, count: int, rule: RoundRule) -> float:
    """The shortest round that serves all that arrives; sets each batch in it.

    Batches only grow from round to round and are capped, so this ends.
    """
    load_s = _total(here.load_s, count)
    for i in range(count):
        here.size[i] = 1
    while True:
        for i in range(count):
            here.batch_s[i] = asked.run_s[here.model[i]][here.size[i] - 1]
        round_s = _busy_s(_total(here.batch_s, count), load_s, rule) / (1 - rule.headroom)
        grows = False
        for i in range(count):
            wanted = ceil(here.rate_rps[i] * round_s - 1e-9)
            grown = max(here.size[i], min(here.most[i], wanted))
            grows = grows or grown > here.size[i]
            here.size[i] = grown
        if not grows:
            return round_s


def _busy_s(run_s: float, load_s: float, rule: RoundRule) -> float:
    return max(run_s, load_s) if rule.prefetch else run_s + load_s


def _total(values: Numbers, count: int) -> float:
    """From the left."""
    total = 0.0
    for i in range(count):
        total += values[i]
    return total


def _usual_round_s(asked: Demanded, here: Cycle, count: int, round_s: float, rule: RoundRule) -> float:
    """A round in which a model that is rarely asked rarely takes part: found from the full round downwards."""
    for _ in range(USUAL_ROUNDS):
        run_s = load_s = 0.0
        for i in range(count):
            mean = here.rate_rps[i] * round_s
            taken = min(1.0, mean)
            size = min(here.most[i], max(1, ceil(mean - 1e-9)))
            run_s += taken * asked.run_s[here.model[i]][size - 1]
            load_s += taken * here.load_s[i]
        shorter_s = _busy_s(run_s, load_s, rule) / (1 - rule.headroom)
        if shorter_s >= round_s:
            break
        round_s = shorter_s
    return round_s


def _order(here: Cycle, count: int, usual_s: float) -> None:
    """The rarest first, by insertion: a GPU has few models."""
    for i in range(count):
        here.often[i] = min(here.rate_rps[i], 1 / usual_s)
        place = i
        while place and here.often[here.order[place - 1]] > here.often[i]:
            here.order[place] = here.order[place - 1]
            place -= 1
        here.order[place] = i


def _wait_s(here: Cycle, times_s: Numbers, total_s: float, count: int, but: int, misses: float) -> float:
    """The longest round that all but half of the misses a model may have must wait.

    In the longest round every model takes part. A round with a model that is rarely asked is as rare as its requests;
    late in it are only those who come in the first seconds, as many as it is longer than what may be waited. So what a
    model adds to the round is left out while it comes to few enough misses, the rarest first: an SLO of 95 % beside a
    model asked once a second leave out 0.05 / 2 / 1 = 25 ms of it. Its own last batch, `but`, counts, unless its
    requests cannot come that close to each other.
    """
    wait_s = total_s - (times_s[but] if but >= 0 else 0.0)
    for place in range(count):
        j = here.order[place]
        if j == but:
            continue
        cost = here.often[j] * times_s[j]
        if cost > misses:
            return wait_s - misses / here.often[j]
        misses -= cost
        wait_s -= times_s[j]
    return max(wait_s, 0.0)


# Whole models on one GPU


class Models(NamedTuple):
    """Models on the kinds of GPU that hold them, an entry for each pair, and what their rounds must keep."""

    asked: Demanded
    held: Needed
    rule: RoundRule


def score_of(models: Models, here: Cycle, model: Numbers, share: Numbers, count: int) -> float:
    """Of a GPU with these models on it; see `score`."""
    if not count:
        return 0.0
    work, headroom = work_of(models.held, model, share, count), models.rule.headroom
    if is_overworked(work, headroom):
        return score(work, inf, 0.0, headroom)
    strain, held_bytes = burden(models, here, model, share, count)
    return score(work, strain, held_bytes / models.held.memory_bytes[model[0]], headroom)


def work_of(held: Needed, model: Numbers, share: Numbers, count: int) -> float:
    """Share of its time that a GPU works at least."""
    work = 0.0
    for i in range(count):
        work += share[i] * held.least_work[model[i]]
    return work


def is_overworked(work: float, headroom: float) -> bool:
    """Whether a GPU works longer than its headroom leaves."""
    return work > 1 - headroom + 1e-9


def score(work: float, strain: float, held_share: float, headroom: float) -> float:
    """Lower is better; grows steeply with strain, so that the sum over GPUs is ruled by the worst.

    `strain`: infinite where memory is short; `held_share`: of the memory, what is needed at batch 1.
    """
    if is_overworked(work, headroom):
        return HARD * (0.1 + work - (1 - headroom))
    if strain == inf:
        return HARD * (1 + held_share)
    square = strain * strain
    return square * square


def burden(models: Models, here: Cycle, model: Numbers, share: Numbers, count: int) -> tuple[float, float]:
    """Strain of a GPU, infinite where memory is short, and the bytes that it needs at batch 1."""
    held, rule = models.held, models.rule
    context = together = largest = most = 0.0
    for i in range(count):
        m = model[i]
        first = held.workspace_bytes[m][0]
        here.model[i] = m
        here.rate_rps[i] = held.needed_rps[m] * share[i]
        here.most[i] = held.longest[m]
        context = max(context, held.context_bytes[m])
        together += held.weight_bytes[m]
        most = max(most, first)
        largest = max(largest, held.weight_bytes[m] + first)
    room_bytes = held.memory_bytes[model[0]] - context
    for i in range(count):
        here.load_s[i] = 0.0
        here.cap[i] = _cap(held, model[i], room_bytes - together)
    strain = _most_strained(models.asked, here, count, rule)
    if not rule.swap:
        return strain, context + together + most
    for i in range(count):
        here.load_s[i] = held.load_s[model[i]]
        here.cap[i] = _cap(held, model[i], room_bytes - held.weight_bytes[model[i]])
    return min(strain, _most_strained(models.asked, here, count, rule)), context + largest


def _cap(held: Needed, model: int, room_bytes: float) -> int:
    """The largest batch that memory allows; 0 where it allows none."""
    for size in range(held.longest[model], 0, -1):
        if held.workspace_bytes[model][size - 1] <= room_bytes:
            return size
    return 0


def _most_strained(asked: Demanded, here: Cycle, count: int, rule: RoundRule) -> float:
    for i in range(count):
        if not here.cap[i]:
            return inf
    settle(asked, here, count, rule)
    most = here.strain[0]
    for i in range(1, count):
        most = max(most, here.strain[i])
    return most
