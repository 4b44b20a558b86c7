"""Plans keep their word: cases on which one once did not, and random ones, replayed for longer with another seed."""

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest

from benchmarks.random_scenarios import write
from calibrate.library.lookup import find_profiles
from planner.catalog.catalog import load_catalog
from planner.io.load import Loaded, load_scenario
from planner.model.plan import Plan
from planner.model.simulation import Simulation
from planner.search.plan import plan
from planner.search.simulation import simulate_plan
from planner.show.text.plan import bound_line

CATALOG = load_catalog()
DAY = "2026-11-22"
DRAWS = 40


@dataclass(frozen=True)
class Model:
    """What one model costs on one kind of GPU."""

    latency_s: Mapping[int, float]
    workspace_bytes: int
    """Of each sample."""
    weights_bytes: Sequence[int]
    """By layer."""
    gpu: str = "T4"
    bytes_per_s: float = 12e9
    latency_cv: float = 0.0

    def profile(self, name: str) -> dict[str, object]:
        return {
            "schema": "planner.profile/v1",
            "model": name,
            "gpu": self.gpu,
            "precision": "fp32",
            "layers": [{"key": f"{name} {i}", "weight_bytes": n} for i, n in enumerate(self.weights_bytes)],
            "latency_s": {str(b): s for b, s in self.latency_s.items()},
            "workspace_bytes": {str(b): self.workspace_bytes * b for b in self.latency_s},
            "load": {"t0_s": 1e-5, "bytes_per_s": self.bytes_per_s},
            "latency_cv": self.latency_cv,
            **dict.fromkeys(("latency_evidence", "memory_evidence", "load_evidence"), "measured"),
            "source": "made for a test",
            "as_of": "2026-07-20",
        }


@dataclass(frozen=True)
class Case:
    """A scenario, what is known of its models, and what it may cost."""

    scenario: str
    models: Mapping[str, Sequence[Model]]
    usd_per_hour: float | None = None
    """Of a placement that is known to keep every SLO; None: whatever it costs, the word must be kept."""
    horizon: str = "1000s"
    """Of five replays together: 75,000 requests, if independent, give 95 % in time a standard error of 0.08 %."""
    draws: int = 0
    """Of phases that are replayed again, where cameras have their own, so that the share of draws counts."""

    def known(self, folder: Path) -> tuple[Loaded, object]:
        profiles = folder / "profiles"
        profiles.mkdir()
        for name, kinds in self.models.items():
            for one in kinds:
                (profiles / f"{name}-{one.gpu}.json").write_text(json.dumps(one.profile(name)))
        (folder / "scenario.yaml").write_text(self.scenario)
        return load_scenario(folder / "scenario.yaml", []), find_profiles([profiles], CATALOG.gpus)


def model(latency_s: Sequence[float], workspace_mb: int, *weights_mb: int, **changes: object) -> list[Model]:
    """Run times of batches of 1, 2, 4 and 8, or of 1 alone, on a T4."""
    times = dict(zip((1, 2, 4, 8), latency_s, strict=False))
    return [Model(times, workspace_mb * 10**6, [mb * 10**6 for mb in weights_mb], **changes)]  # type: ignore[arg-type]


SLOW = model((0.02, 0.03, 0.05), 50, 2000, bytes_per_s=1e10)
TURNS = model((0.02, 0.03, 0.05), 50, 600, bytes_per_s=6e9)
HALF = model((0.1,), 10, 4400)
BIG = [Model({1: 0.02, 3: 0.03}, 10**9, [400_000_000] * 10)]
HELD = [Model({1: 0.01, 8: 0.02}, 400_000_000, [500_000_000])]


def like(one: str, many: int) -> str:
    return "\n".join(one.replace("#", str(i)) for i in range(many))


CASES = {
    "batches beside another model are held back by memory": Case(
        """
models: [{name: w0, slo: {latency: 5 s, attainment: 95 %}}, {name: w1, slo: {latency: 5 s, attainment: 95 %}}]
streams: [{model: w0, poisson: 51 rps}, {model: w1, poisson: 51 rps}]
buy: {own: [{name: box, gpu: T4, memory: 2.3 GB, price: $1/h, count: 4}]}
memory: resident
drop: never
predict: never
""",
        {"w0": HELD, "w1": HELD},
        horizon="300s",
    ),
    "cameras swapped without prefetch, hardly overloaded": Case(
        """
models: [{name: a, slo: {latency: 2 s, attainment: 95 %}}, {name: b, slo: {latency: 2 s, attainment: 95 %}}]
streams: [{model: a, count: 3, rate: 4.5 fps}, {model: b, count: 3, rate: 4.5 fps}]
buy: {own: [{name: box, gpu: T4, memory: 1.6 GB, price: $0.50/h, count: 4}]}
swap: {prefetch: false}
drop: never
predict: never
""",
        {"a": TURNS, "b": TURNS},
        draws=DRAWS,
    ),
    "long SLOs hide a queue that grows": Case(
        """
models: [{name: a, slo: {latency: 10 s, attainment: 99 %}}, {name: b, slo: {latency: 10 s, attainment: 99 %}}]
streams: [{model: a, poisson: 8.4 rps}, {model: b, poisson: 8.4 rps}]
buy: {own: [{name: box, gpu: T4, memory: 3.5 GB, price: $0.50/h, count: 4}]}
swap: {prefetch: false}
drop: never
predict: never
""",
        {"a": SLOW, "b": SLOW},
        horizon="2000s",
    ),
    "the fuller stage of a pipeline is overloaded": Case(
        """
models: [{name: fat, slo: {latency: 8 s, attainment: 99 %}}]
streams: [{model: fat, poisson: 102 rps}]
buy: {own: [{name: box, gpu: T4, gpu_count: 2, memory: 4.2 GB, price: $1/h, count: 4}]}
predict: never
""",
        {"fat": model((0.02, 0.03, 0.05), 10, 3200, 800)},
        horizon="120s",
    ),
    "cut over two GPUs for larger batches": Case(
        """
models: [{name: big, slo: {latency: 300 ms, attainment: 99 %}}]
streams: [{model: big, poisson: 130 rps}]
buy: {own: [{name: box, gpu: T4, gpu_count: 2, memory: 6 GB, price: $1/h, count: 4}]}
predict: never
""",
        {"big": BIG},
        usd_per_hour=1.0,
        horizon="120s",
    ),
    "the largest batches are the right ones": Case(
        """
models: [{name: m0, slo: {latency: 20 ms, attainment: 99 %}}, {name: m1, slo: {latency: 25 ms, attainment: 95 %}}]
streams: [{model: m0, count: 3, gamma: {rate: 12.51 rps, cv: 2}}, {model: m1, count: 4, poisson: 5.94 rps}]
buy: {own: [{name: l4, gpu: L4, memory: 6 GB, price: $0.91/h, count: 4}]}
predict: never
""",
        {
            "m0": model((0.00609, 0.00741, 0.01003, 0.01528), 20, 236, gpu="L4"),
            "m1": model((0.00370, 0.00457, 0.00631, 0.00979), 20, 482, gpu="L4"),
        },
        usd_per_hour=0.91,
    ),
    "batches between all and half of what memory holds": Case(
        """
models: [{name: a, slo: {latency: 387 ms, attainment: 90 %}}, {name: b, slo: {latency: 1785 ms, attainment: 90 %}}]
streams: [{model: a, count: 3, poisson: 23.63 rps}, {model: b, gamma: {rate: 39.52 rps, cv: 4}}]
buy: {own: [{name: box, gpu: T4, price: $0.43/h, count: 4}]}
predict: never
drop: newest-and-late
scheduling: fcfs
padded: true
""",
        {
            "a": [Model({1: 0.01038, 2: 0.01622, 4: 0.02790, 8: 0.05126}, 28_000_000, [865_000_000])],
            "b": [Model({1: 0.01290, 4: 0.02015, 32: 0.08783}, 58_000_000, [391_000_000])],
        },
        usd_per_hour=0.43,
        horizon="300s",
    ),
    "engines compiled for one batch, small enough for the SLO": Case(
        """
models: [{name: a, slo: {latency: 108 ms, attainment: 90 %}}]
streams: [{model: a, poisson: 60.6 rps}, {model: a, count: 3, rate: 20.2 fps}]
buy:
  own:
    - {name: l4, gpu: L4, price: $1.04/h, count: 2}
    - {name: t4, gpu: T4, price: $0.44/h, count: 6}
predict: never
padded: true
""",
        {
            "a": [
                Model({1: 0.01670, 4: 0.03346, 32: 0.18989}, 20_000_000, [563_000_000], latency_cv=0.3),
                Model({1: 0.00985, 4: 0.01984, 32: 0.11407}, 20_000_000, [563_000_000], gpu="L4", latency_cv=0.3),
            ]
        },
        usd_per_hour=0.88,
        draws=DRAWS,
    ),
    "bursts of two models over both GPUs of one machine": Case(
        """
models: [{name: a, slo: {latency: 800 ms, attainment: 95 %}}, {name: b, slo: {latency: 800 ms, attainment: 95 %}}]
streams: [{model: a, gamma: {rate: 3.2 rps, cv: 3}}, {model: b, gamma: {rate: 3.2 rps, cv: 3}}]
buy: {own: [{name: box, gpu: T4, gpu_count: 2, memory: 6 GB, price: $1/h, count: 4}]}
predict: never
""",
        {"a": HALF, "b": HALF},
        usd_per_hour=1.0,
    ),
    "a model beside the stages of another": Case(
        """
models: [{name: m0, slo: {latency: 193 ms, attainment: 95 %}}, {name: m1, slo: {latency: 245 ms, attainment: 99 %}}]
streams: [{model: m0, count: 4, rate: 32.41 fps}, {model: m1, count: 2, rate: 4.12 fps}]
buy:
  own:
    - {name: one, gpu: V100, memory: 6 GB, price: $1.56/h, count: 4}
    - {name: two, gpu: V100, gpu_count: 2, memory: 6 GB, price: $2.96/h, count: 2}
horizon: 15 s
predict: never
""",
        {
            "m0": model((0.00475, 0.00603, 0.00861, 0.01375), 20, 7500, gpu="V100"),
            "m1": model((0.00561, 0.00808, 0.01302, 0.02289), 20, 437, gpu="V100"),
        },
        usd_per_hour=2.96,
        draws=12,
    ),
    "the same at random": Case(
        """
models: [{name: m0, slo: {latency: 330 ms, attainment: 99 %}}, {name: m1, slo: {latency: 264 ms, attainment: 90 %}}]
streams: [{model: m0, count: 4, poisson: 7.34 rps}, {model: m1, count: 6, gamma: {rate: 0.96 rps, cv: 2}}]
buy:
  own:
    - {name: one, gpu: T4, memory: 6 GB, price: $0.62/h, count: 4}
    - {name: two, gpu: T4, gpu_count: 2, memory: 6 GB, price: $1.19/h, count: 2}
predict: never
""",
        {
            "m0": model((0.02149, 0.02399, 0.02898, 0.03896), 20, 7500),
            "m1": model((0.03279, 0.03955, 0.05305, 0.08007), 20, 807),
        },
        usd_per_hour=1.19,
        horizon="300s",
    ),
    "two cameras whose phases decide": Case(
        """
models:
  - {name: heavy, slo: {latency: 200 ms, attainment: 99 %}}
  - {name: light, slo: {latency: 30 ms, attainment: 99 %}}
streams: [{model: heavy, rate: 1 fps}, {model: light, rate: 2 fps}]
buy: {own: [{name: box, gpu: T4, price: $0.50/h, count: 4}]}
predict: never
""",
        {"heavy": model((0.05,), 50, 100), "light": model((0.02,), 50, 100)},
        usd_per_hour=1.0,
        draws=DRAWS,
    ),
    "six cameras whose phases decide": Case(
        f"""
models:
{like("  - {name: d#, slo: {latency: 70 ms, attainment: 99 %}}", 6)}
streams:
{like("  - {model: d#, rate: 5 fps}", 6)}
buy: {{own: [{{name: box, gpu: T4, price: $0.50/h, count: 6}}]}}
predict: never
""",
        {
            f"d{i}": model((run_s, 1.6 * run_s, 2.8 * run_s), 50, 100)
            for i, run_s in enumerate((0.008, 0.012, 0.015, 0.018, 0.022, 0.03))
        },
        draws=DRAWS,
    ),
}


def planned(case: Case, folder: Path) -> tuple[Plan, Loaded, object]:
    loaded, library = case.known(folder)
    return plan(loaded, CATALOG, library, created_at=f"{DAY}T00:00:00"), loaded, library  # type: ignore[arg-type]


def again(found: Plan, loaded: Loaded, library: object, **changes: object) -> Simulation:
    """The same plan replayed with another seed: for longer and less often, or in fewer draws of the phases."""
    drawn = found.recommendation.replayed and found.recommendation.replayed.draws_kept
    changes = ({"replications": DRAWS, "confidence": 0.5} if drawn else {"replications": 5}) | changes
    other = replace(loaded, scenario=replace(loaded.scenario, seed=101, **changes))  # type: ignore[arg-type]
    return simulate_plan(other, CATALOG, library, found, date.fromisoformat(DAY))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_what_is_called_met_is_met_for_longer(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    found, loaded, library = planned(case, tmp_path)
    best = found.recommendation
    assert best.feasible
    assert best.demand_factor_max > 1
    if case.usd_per_hour is not None:
        assert best.cost_usd_per_hour == pytest.approx(case.usd_per_hour)
    if case.draws:
        seen = again(found, loaded, library, replications=case.draws)
        assert seen.replayed.draws_kept is not None
        assert seen.replayed.draws_kept.mean >= 0.92
        return
    seen = again(found, loaded, library, horizon=float(case.horizon.removesuffix("s")))
    for one in seen.models:
        assert one.slo_attainment.high >= one.slo_attainment_target
        assert one.slo_attainment.mean >= one.slo_attainment_target - 0.002
        assert one.verdict == "stable"


@pytest.mark.parametrize("name", ["two cameras whose phases decide", "the largest batches are the right ones"])
def test_what_is_bought_does_not_depend_on_the_seed(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    loaded, library = case.known(tmp_path)
    bought = []
    for seed in (1, 7):
        given = replace(loaded, scenario=replace(loaded.scenario, seed=seed))
        found = plan(given, CATALOG, library, created_at=f"{DAY}T00:00:00")  # type: ignore[arg-type]
        bought.append((found.recommendation.instances, found.recommendation.models))
    assert bought[0] == bought[1]


def test_what_is_proven_names_headroom_and_what_it_costs(tmp_path: Path) -> None:
    """One camera of 95 fps x 10 ms: one machine does it at 95 % load, which 10 % of headroom forbids."""
    case = Case(
        """
models: [{name: cam, slo: {latency: 100 ms, attainment: 99 %}}]
streams: [{model: cam, rate: 95 fps}]
buy: {own: [{name: box, gpu: T4, price: $0.50/h, count: 4}]}
predict: never
""",
        {"cam": model((0.01,), 10, 200)},
    )
    found, *_ = planned(case, tmp_path)
    best = found.recommendation
    assert (best.cost_usd_per_hour, best.lower_bound_usd_per_hour) == (pytest.approx(1.0), pytest.approx(1.0))
    assert best.lower_bound_full_usd_per_hour == pytest.approx(0.5)
    said = bound_line(best, (), 0.1)
    assert said.startswith("Proven cheapest, with 10 % headroom, batch sizes of the profiles")
    assert said.endswith("Without headroom the bound is $0.500/h.")


@pytest.mark.parametrize("seed", [11, 12, 17, 23])
def test_random_plans_keep_their_word(seed: int, tmp_path: Path) -> None:
    """The same for 200 seeds: `python -m benchmarks.kept_words --count 200`."""
    drawn = write(seed, tmp_path, Namespace(kind=None, traffic=None, load=None))
    library = find_profiles([tmp_path / "profiles"], CATALOG.gpus)
    loaded = load_scenario(drawn.folder / "scenario.yaml", [])
    found = plan(loaded, CATALOG, library, created_at=f"{DAY}T00:00:00")
    if not found.recommendation.feasible:
        return
    assert found.recommendation.replayed is not None
    if found.recommendation.replayed.draws_kept:
        seen = again(found, loaded, library)
        assert seen.replayed.draws_kept is not None
        assert seen.replayed.draws_kept.high >= loaded.scenario.confidence
        return
    seen = again(found, loaded, library, horizon=20 * found.policies.horizon_s)
    assert [m.name for m in seen.models if m.slo_attainment.high < m.slo_attainment_target] == []
    assert {m.verdict for m in seen.models} == {"stable"}


@pytest.mark.parametrize(
    ("seed", "usd_per_hour"),
    [
        (37, 0.83),  # only with the stages of a cut model in the opposite order, and in larger batches
        (74, 0.42),  # only with smaller batches of one model, beside which the others' weights stay in memory
        (78, 0.43),  # only with smaller batches than those by which one model misses by a mile
    ],
)
def test_random_plans_are_as_cheap_as_trying_found(seed: int, usd_per_hour: float, tmp_path: Path) -> None:
    """The same for 90 seeds: `python -m benchmarks.brute_force --count 90`."""
    drawn = write(seed, tmp_path, Namespace(kind=None, traffic=None, load=None))
    library = find_profiles([tmp_path / "profiles"], CATALOG.gpus)
    loaded = load_scenario(drawn.folder / "scenario.yaml", [])
    found = plan(loaded, CATALOG, library, created_at=f"{DAY}T00:00:00").recommendation
    assert found.feasible
    assert found.cost_usd_per_hour <= usd_per_hour + 0.005
