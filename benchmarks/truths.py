"""How often a plan on predictions holds: it knows nothing of a model on a GPU, and meets its published times."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import NormalDist, fmean

import numpy as np
from scipy.stats import beta

from benchmarks.learnt import in_bands, whole_fit
from benchmarks.making.fitting import Figure, Fit
from benchmarks.making.learning import HeldOut, errors_of, parts, widening
from calibrate.library.lookup import Library
from calibrate.published import names
from planner.catalog.catalog import Catalog, load_catalog
from planner.io.load import Loaded, workload
from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.parts.models import ModelSpec, SloSpec
from planner.model.parts.streams import StreamSpec
from planner.model.progress import silent
from planner.model.replications import RISK_SHARE
from planner.model.scenario import Objective, Scenario
from planner.prediction.effects import is_repository
from planner.prediction.learnt import Learnt, Seen
from planner.prediction.predict import Predictor
from planner.prediction.rules.layered import BATCHES
from planner.prediction.rules.pairs import PredictedPair
from planner.replay.run import replay
from planner.search.fleets.search import FleetSearch
from planner.search.outlooks import AlikeInBatches
from planner.search.question import ask
from simulator.world.curves import Interpolated
from simulator.world.deployment import Deployment
from simulator.world.profile import Profile

CONFIDENCE = 0.9
LEFT_OUT = "a model on a GPU"
QUARTERS = 4
ERLANGS = 12.0
"""GPUs that are busy at the predicted times: with few, whole GPUs make every plan safer than was asked."""
SLO_BATCHES = 4.0
"""Times the predicted time of the largest batch that an answer may take."""
REQUESTS = 2000
"""Of a replication."""
MACHINES = 400
GROUP_MIN = 15
SURE = 0.95


@dataclass(frozen=True)
class Truth:
    """A published series that a fit did not see."""

    model: str
    gpu: str
    precision: str
    runtime: str
    source: str
    latency_s: Mapping[float, float]

    @property
    def where(self) -> tuple[str, str, str]:
        """What models planned together have in common."""
        return self.gpu, self.precision, self.runtime


@dataclass(frozen=True)
class Outcome:
    """A plan, and whether it held."""

    truths: tuple[Truth, ...]
    held: bool


class Blind(Learnt):
    """What was learnt, told without a look at the published batches of the same series."""

    def predict(self, case, gpu, series: Sequence[Seen] = ()):  # type: ignore[no-untyped-def]
        """Seconds of a batch."""
        return super().predict(case, gpu)


def outcomes(most: int, together: int = 1, fitted: Fit | None = None) -> Iterator[Outcome]:
    """Plans for so many models at once on one kind of GPU, at most so many of each quarter of all pairs."""
    catalog = load_catalog()
    fitted = fitted or whole_fit()
    quarters = list(parts(LEFT_OUT, fitted.figures, QUARTERS))
    every = np.arange(len(fitted.figures))
    errors = [list(errors_of(LEFT_OUT, fitted, left)) for left in quarters]
    for at, left in enumerate(quarters):
        told = fitted.without(left, every)
        others = [error for part, some in enumerate(errors) if part != at for error in some]
        # Truths are of those who published, whose software is known.
        blind = Blind(told.effects, told.spreads, told.noise, widening(others), own_software_sd=0.0)
        predictor = Predictor(Library({}), catalog.gpus, learnt=blind)
        groups = list(_groups(truths([fitted.figures[place] for place in left]), together))
        for i in np.random.default_rng(at).permutation(len(groups))[:most]:
            if (found := _planned(groups[i], predictor, catalog)) is not None:
                yield found


def truths(left: Sequence[Figure]) -> list[Truth]:
    """Series of the usual input with a batch of 1 and a larger one, by publications: software of repositories differs
    by more than what is drawn here."""
    series: dict[tuple[str, ...], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for figure in left:
        case = figure.case
        if is_repository(figure.source) or case.full or case.batch > max(BATCHES):
            continue
        if case.input == names.usual_input(case.architecture):
            key = (case.architecture, case.gpu, case.precision, case.runtime, figure.source)
            series[key][case.batch].append(float(np.exp(figure.log_s)))
    return [
        Truth(*key, latency_s={b: fmean(found[b]) for b in sorted(found)})
        for key, found in sorted(series.items())
        if 1 in found and len(found) > 1
    ]


def _groups(some: Sequence[Truth], together: int) -> Iterator[tuple[Truth, ...]]:
    """So many models of one GPU, precision and runtime, each in one group."""
    by_place: dict[tuple[str, str, str], dict[str, Truth]] = defaultdict(dict)
    for truth in some:
        by_place[truth.where].setdefault(truth.model, truth)
    for models in by_place.values():
        found = tuple(models.values())
        yield from (found[i : i + together] for i in range(0, len(found) - together + 1, together))


@dataclass(frozen=True)
class Told:
    """Predicted profiles at the end of the band that plans take."""

    pairs: Mapping[str, PredictedPair]

    def get(self, model: str, gpu: str, precision: str | None, runtime: str | None = None, /) -> Profile | None:
        """That of a model; there is one GPU."""
        return self.pairs[model].profile(NormalDist().inv_cdf(1 - RISK_SHARE * (1 - CONFIDENCE)))


def _planned(group: Sequence[Truth], predictor: Predictor, catalog: Catalog) -> Outcome | None:
    """The plan and whether it holds; None where nothing is predicted, or nothing fits the GPU."""
    told = {t.model: predictor.predicted_pair(t.model, t.gpu, t.precision, t.runtime) for t in group}
    pairs = {model: pair for model, pair in told.items() if pair}
    if len(pairs) < len(group):
        return None
    largest = {truth.model: int(max(truth.latency_s)) for truth in group}
    scenario = _asked(group, pairs, largest)
    demand = workload(Loaded(scenario, "", Path("made.yaml")))
    question, _ = ask(scenario, demand, catalog, AlikeInBatches(Told(pairs), largest))
    trial = FleetSearch(question, silent).best(question.program(), Objective.COST) if question.served else None
    if trial is None:
        return None
    true = _with_true_times(trial.deployment, {truth.model: truth for truth in group})
    seen = replay(scenario, demand, question.needs, true, screen=False)
    kept = all(seen.attainment[m].mean >= need.slo.attainment for m, need in question.needs.items())
    return Outcome(tuple(group), kept and seen.stable)


def _asked(group: Sequence[Truth], pairs: Mapping[str, PredictedPair], largest: Mapping[str, int]) -> Scenario:
    """Random requests for `ERLANGS` GPUs at the predicted times, an SLO of some of the largest batches."""
    batch_s = {model: pair.time_s(largest[model]).value for model, pair in pairs.items()}
    slo_s = SLO_BATCHES * max(batch_s.values())
    rates = {model: ERLANGS / len(group) * largest[model] / run_s for model, run_s in batch_s.items()}
    return Scenario(
        models=tuple(ModelSpec(name=model, slo=SloSpec(latency=f"{slo_s:.9g} s")) for model in pairs),
        streams=tuple(StreamSpec(model=model, poisson=rate) for model, rate in rates.items()),
        buy=BuySpec(
            own=(OwnMachine(name="box", gpu=group[0].gpu, price=1.0, count=MACHINES),),
            max_gpus=MACHINES,
        ),
        confidence=CONFIDENCE,
        headroom=0.0,
        horizon=max(10 * slo_s, REQUESTS / sum(rates.values())),
    )


def _with_true_times(deployment: Deployment, truth: Mapping[str, Truth]) -> Deployment:
    """The same replicas, as fast as was published."""

    def true(profile: Profile) -> Profile:
        times = truth[profile.model].latency_s
        return replace(profile, latency=Interpolated(tuple(times), tuple(times.values())), doubt=None)

    return replace(
        deployment,
        services=tuple(
            replace(service, replicas=tuple(replace(one, profile=true(one.profile)) for one in service.replicas))
            for service in deployment.services
        ),
    )


def shared_share(errors: Sequence[HeldOut]) -> float:
    """Part of the variance of errors that models on one GPU have in common, in one precision and runtime.

    The mean product of the errors of two models, each in its own spread, over their mean square; errors beyond three
    spreads count as three.
    """
    by_place: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for error in errors:
        case = error.figure.case
        place = (case.gpu, case.precision, case.runtime)
        by_place[place][case.architecture].append(float(np.clip(error.error / error.sd, -3, 3)))
    products, squares = [], []
    for models in by_place.values():
        means = [fmean(some) for some in models.values()]
        pairs = [one * other for one, other in combinations(means, 2)]
        if pairs:
            products.append((fmean(pairs), len(means)))
            squares.append((fmean(mean**2 for mean in means), len(means)))
    return _weighted(products) / _weighted(squares)


def shares(fitted: Fit) -> dict[str, float]:
    """The shared part of errors where pairs and where chips were left out, each in the spread that its band has."""
    found: dict[str, float] = {}
    for what in (LEFT_OUT, "a chip"):
        quarters = parts(what, fitted.figures, QUARTERS)
        errors = [error for left in quarters for error in errors_of(what, fitted, left)]
        found[what] = shared_share(in_bands(errors, widening(errors)))
    return found


def _weighted(some: Sequence[tuple[float, int]]) -> float:
    return float(np.average([value for value, _ in some], weights=[weight for _, weight in some]))


def interval(held: int, of: int) -> tuple[float, float]:
    """Clopper-Pearson's, at 95 %."""
    low = 0.0 if held == 0 else float(beta.ppf((1 - SURE) / 2, held, of - held + 1))
    high = 1.0 if held == of else float(beta.ppf((1 + SURE) / 2, held + 1, of - held))
    return low, high


GROUPS: dict[str, Callable[[Truth], str]] = {
    "GPU": lambda t: t.gpu,
    "runtime": lambda t: t.runtime,
    "precision": lambda t: t.precision,
    "source": lambda t: t.source,
}


def row(name: str, some: Sequence[Outcome]) -> str:
    """One line of the table."""
    held = sum(one.held for one in some)
    low, high = interval(held, len(some))
    return f"| {name} | {len(some)} | {held / len(some):.0%} | {low:.0%} to {high:.0%} |".replace("%", " %")


def truths_table(fitted: Fit, most: int = 50) -> list[str]:
    """Markdown rows: plans asked for 90 %, and how many of them held."""
    single = list(outcomes(most, fitted=fitted))
    several = list(outcomes(most // 2, together=3, fitted=fitted))
    rows = [row("one model", single), row("three models on one kind of GPU", several)]
    for name, of in GROUPS.items():
        for value in sorted({of(one.truths[0]) for one in single}):
            some = [one for one in single if of(one.truths[0]) == value]
            if len(some) >= GROUP_MIN:
                rows.append(row(f"one model, {name} {value}", some))
    return ["| what | plans | held | 95 % interval |", "|---|---:|---:|---:|", *rows]
