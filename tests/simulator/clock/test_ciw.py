"""Three networks without a closed form, against Ciw: an independent simulator, one object for each customer."""

from collections.abc import Callable, Sequence

import ciw
import numpy as np
from scipy import stats
from support import worlds

from simulator.clock.run import simulate
from simulator.world.deployment import Deployment, Routing, Scheduling
from simulator.world.model import Layer
from simulator.world.workload import Gamma, Poisson, Stream, Workload

REPLICATIONS = 15
"""Of Ciw; ours, which are quicker, are twice as many."""
HORIZON_S = 1800.0
WARMUP_S, END_S = 100.0, 100.0
RESOLUTION = 0.2
"""Largest margin of a difference, over the figure: with a larger one, agreement would say little."""
Latencies = dict[str, np.ndarray]


def ours(deployment: Deployment, *streams: Stream) -> Callable[[int], Latencies]:
    def run(seed: int) -> Latencies:
        requests = simulate(deployment, Workload(streams), HORIZON_S, seed).requests
        return {m: settled(r.arrival_s, r.finish_s - r.arrival_s) for m, r in requests.items()}

    return run


def theirs(network: ciw.network.Network, last_node: int = 1) -> Callable[[int], Latencies]:
    def run(seed: int) -> Latencies:
        ciw.seed(seed)
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_time(HORIZON_S)
        records = sorted(simulation.get_all_records(), key=lambda r: r.id_number)
        came = {r.id_number: r.arrival_date for r in records if r.node == 1}
        left = [r for r in records if r.node == last_node]
        return {
            model: settled(
                np.array([came[r.id_number] for r in left if r.customer_class == model]),
                np.array([r.exit_date - came[r.id_number] for r in left if r.customer_class == model]),
            )
            for model in {r.customer_class for r in left}
        }

    return run


def settled(arrival_s: np.ndarray, latency_s: np.ndarray) -> np.ndarray:
    """Latencies past the warm-up, less the last ones: some of those may not have finished."""
    return latency_s[(arrival_s >= WARMUP_S) & (arrival_s < HORIZON_S - END_S)]


def figures(run: Callable[[int], Latencies], replications: int) -> dict[tuple[str, str], np.ndarray]:
    """Mean and 95th percentile by model, of each replication."""
    runs = [run(seed) for seed in range(1, replications + 1)]
    found = {}
    for model in runs[0]:
        found[model, "mean"] = np.array([np.mean(r[model]) for r in runs])
        found[model, "p95"] = np.array([np.quantile(r[model], 0.95) for r in runs])
    return found


def agree(mine: Callable[[int], Latencies], other: Callable[[int], Latencies], models: Sequence[str]) -> None:
    """The interval of each difference (Welch, 95 % over all of them together) holds zero."""
    found, expected = figures(mine, 2 * REPLICATIONS), figures(other, REPLICATIONS)
    assert {model for model, _ in found} == {model for model, _ in expected} == set(models)
    for figure, theirs in expected.items():
        difference = stats.ttest_ind(found[figure], theirs, equal_var=False)
        low, high = difference.confidence_interval(1 - 0.05 / len(expected))
        assert low <= 0 <= high, figure
        assert (high - low) / 2 <= RESOLUTION * np.mean(theirs), figure


def test_bursts_on_three_servers_of_fixed_time() -> None:
    """G/D/3: Gamma gaps of cv 3, load 2.1 erlangs, one queue."""
    shared = worlds.service(worlds.profile("m", 1.0), devices=("g0", "g1", "g2"), routing=Routing.SHARED)
    network = ciw.create_network(
        arrival_distributions={"m": [ciw.dists.Gamma(1 / 9, 9 / 2.1)]},
        service_distributions={"m": [ciw.dists.Deterministic(1.0)]},
        number_of_servers=[3],
    )
    agree(ours(worlds.deployment(shared, devices=3), Stream("m", Gamma(2.1, 3.0))), theirs(network), ["m"])


def test_a_pipeline_is_a_tandem_of_queues() -> None:
    """Stages of 0.4 and 0.6 s in a row, Gamma gaps of cv 2, the second stage at 0.78 erlangs."""
    split = worlds.profile("m", 1.0, layers=(Layer("front", 40), Layer("back", 60)))
    pipeline = worlds.deployment(worlds.service(split, devices=[("g0", "g1")]), devices=2)
    network = ciw.create_network(
        arrival_distributions={"m": [ciw.dists.Gamma(1 / 4, 4 / 1.3), None]},
        service_distributions={"m": [ciw.dists.Deterministic(0.4), ciw.dists.Deterministic(0.6)]},
        number_of_servers=[1, 1],
        routing={"m": [[0.0, 1.0], [0.0, 0.0]]},
    )
    agree(ours(pipeline, Stream("m", Gamma(1.3, 2.0))), theirs(network, last_node=2), ["m"])


def test_two_models_in_order_of_arrival() -> None:
    """Two classes of different fixed times share one server first come, first served."""
    short_s = 0.4
    both = worlds.deployment(
        worlds.service(worlds.profile("short", short_s)),
        worlds.service(worlds.profile("long", 1.5)),
        scheduling=Scheduling.FCFS,
    )
    network = ciw.create_network(
        arrival_distributions={"short": [ciw.dists.Exponential(1.0)], "long": [ciw.dists.Exponential(0.25)]},
        service_distributions={"short": [ciw.dists.Deterministic(short_s)], "long": [ciw.dists.Deterministic(1.5)]},
        number_of_servers=[1],
    )
    streams = Stream("short", Poisson(1.0)), Stream("long", Poisson(0.25))
    agree(ours(both, *streams), theirs(network), ["short", "long"])
