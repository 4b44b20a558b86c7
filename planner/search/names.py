"""Names: models and GPUs of a scenario that nothing is known of, each with its place, before anything is planned."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from calibrate.io.points import FRAME_SIZES
from calibrate.layers.facts import facts, has_layers, meant, shipped
from calibrate.layers.facts import known as models_with_layers
from calibrate.layers.naming import profile_name
from calibrate.layers.work import FactsError
from calibrate.library.held import counts_of
from calibrate.library.lookup import Library
from calibrate.published import runtimes
from calibrate.published.names import architecture, gpu_named, runtime
from calibrate.published.points import points
from calibrate.zoo.sources import OTHERS_GO_BY, how_to_name
from planner.catalog.catalog import Catalog
from planner.catalog.offers import wrong_offers
from planner.io.load import Loaded, refused
from planner.model.choices import HostWork
from planner.model.parts.coding import FULL_HD
from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.parts.models import ModelSpec
from planner.model.parts.pipelines import StageSpec
from planner.model.scenario import Predict, Scenario
from planner.placing.sizing import Profiles
from planner.prediction.learnt import learnt
from planner.units.errors import Steps
from planner.units.reading import perhaps, perhaps_of
from simulator.near import known_ones
from simulator.world.precision import WEIGHT_BYTES

OR_MEASURED = "Or measure it: `planner calibrate --models MODEL`, then `--profiles DIR`."
USUAL_RUNTIMES = frozenset({"onnxruntime", "pytorch", "tensorflow", "tensorrt"})


def with_known_names(loaded: Loaded, catalog: Catalog, library: Profiles) -> Loaded:
    """The scenario with its GPUs as the catalog spells them; ScenarioError with the place of every unknown name."""
    scenario = loaded.scenario.with_stages
    models = tuple(_spelt_runtime(_of_any_input(model, library)) for model in scenario.models)
    scenario = replace(scenario, buy=spelt(loaded.scenario.buy, catalog), models=models)
    loaded = replace(loaded, scenario=scenario)
    wrong = list(wrong_offers(catalog, scenario.buy))
    scenario, unmeasured = with_measured_work(scenario, library.host_s if isinstance(library, Library) else {})
    loaded = replace(loaded, scenario=scenario)
    wrong += unmeasured
    if isinstance(library, Library):
        wrong += _not_traced(scenario, library)
        unknown = _unknown_models(scenario, library)
        wrong += _unknown_runtimes(
            [one for i, one in enumerate(scenario.models) if i not in unknown], scenario, library
        )
        wrong += unknown.values()
        wrong += _unknown_precisions(scenario, library)
    if wrong:
        raise refused(loaded, wrong)
    return loaded


def with_measured_work(scenario: Scenario, host_s: Mapping[str, float]) -> tuple[Scenario, list[tuple[Steps, str]]]:
    """The scenario with the times of its measured work, and what is wrong where nobody measured that."""
    wrong: list[tuple[Steps, str]] = []

    def timed(stage: StageSpec, place: Steps) -> StageSpec:
        if stage.measured is None:
            return stage
        width, height = stage.resolution or FULL_HD
        keys = f"{stage.measured}_{width}x{height}_s", f"{stage.measured}_s"
        time_s = next((host_s[key] for key in keys if key in host_s), None)
        if time_s is None and stage.host is None:
            wrong.append(((*place, "measured"), untimed(stage.measured, width, height, host_s)))
        return replace(stage, host=time_s or stage.host)

    pipelines = tuple(
        replace(one, stages=tuple(timed(stage, ("pipelines", i, "stages", k)) for k, stage in enumerate(one.stages)))
        for i, one in enumerate(scenario.pipelines)
    )
    return replace(scenario, pipelines=pipelines), wrong


def untimed(work: HostWork, width: int, height: int, host_s: Mapping[str, float]) -> str:
    """What is wrong with work that nobody measured."""
    sizes = [f"{w}x{h}" for w, h in FRAME_SIZES if f"{work}_{w}x{h}_s" in host_s]
    known = f" Known are {', '.join(sizes)}." if sizes else ""
    of = "" if work in (HostWork.SUPPRESS, HostWork.TRACK) else f" {width}x{height}"
    measure = "Measure it: planner calibrate --what host --device cpu; name its folder with --profiles, or write e.g."
    return (
        f"`{work}`{of}: no folder of --profiles says how long a core takes.{known} {measure} `host: 10 ms` beside it."
    )


def spelt(buy: BuySpec, catalog: Catalog) -> BuySpec:
    """The same with `t4` as `T4`."""

    def machine(own: OwnMachine) -> OwnMachine:
        return replace(own, gpu=gpu_named(own.gpu, catalog.gpus))

    gpus = tuple(gpu_named(name, catalog.gpus) for name in buy.gpus)
    return replace(buy, gpus=gpus, own=tuple(map(machine, buy.own)))


def _not_traced(scenario: Scenario, library: Library) -> Iterator[tuple[Steps, str]]:
    """Models of one's own that are neither measured nor show their layers, and why. **Runs their code.**"""
    for model in scenario.models:
        if not model.is_traced or model.known_as in library.models():
            continue
        try:
            facts(model.made_by, model.input or None)
        except FactsError as error:
            yield (*scenario.place(model.name), "factory" if model.factory else "model"), str(error)


def _unknown_models(scenario: Scenario, library: Library) -> dict[int, tuple[Steps, str]]:
    """By number, models that neither a profile nor layers are known of, each with its place."""
    known = {*library.models(), *models_with_layers()}
    named = {i: model for i, model in enumerate(scenario.models) if model.profile or ":" not in model.made_by}
    return {
        i: _unknown_model(model, scenario.place(model.name), known)
        for i, model in named.items()
        if model.known_as not in known and not library.published_of(model.known_as) and not has_layers(model.known_as)
        if not _is_predictable(model.known_as)
    }


def _is_predictable(model: str) -> bool:
    """Whether times of a network were published, and its weights and tensors are known, so that others are learnt."""
    counts = counts_of(model)
    return counts is not None and bool(counts.params and counts.macs) and any(points(counts.name))


def _unknown_runtimes(models: Sequence[ModelSpec], scenario: Scenario, library: Library) -> Iterator[tuple[Steps, str]]:
    """Runtimes in which nothing is known of their models, or which do not run them, each with its place.

    Of several, one that does not run the model is left out, and the answer says so.
    """
    for model in models:
        own = {profile.runtime for profile in library.for_model(model.known_as)}
        unserved = {one: why for one in model.runtimes if one not in own and (why := unserved_network(model, one))}
        known = _known_runtimes(model, library, own, predicted=scenario.predict is not Predict.NEVER)
        place = (*scenario.place(model.name), "runtime")
        for asked in sorted(set(model.runtimes) - known - unserved.keys()):
            wrong = f"nothing is known of `{model.known_as}` in `{asked}`."
            item = () if isinstance(model.runtime, str) else (model.runtimes.index(asked),)
            yield (*place, *item), f"{wrong}{perhaps(asked, known) or or_measured(model.known_as, asked, known)}"
        if model.runtimes and unserved.keys() == set(model.runtimes):
            yield place, f"{'; '.join(unserved.values())}.{or_measured(model.known_as, '', known)}"


def _unknown_precisions(scenario: Scenario, library: Library) -> Iterator[tuple[Steps, str]]:
    """Precisions that are PyTorch's own and that no runtime of their models has, each with its place."""
    for model in scenario.models:
        own = {(profile.precision, profile.runtime) for profile in library.for_model(model.known_as)}
        known = [runtimes.runtime(one) for one in model.runtimes]
        for asked in [one for one in model.precisions if known and one in runtimes.PYTORCHS_OWN]:
            if not any(one.computes_in(asked) or (asked, one.name) in own for one in known):
                others = ", ".join(p for p in WEIGHT_BYTES if any(one.computes_in(p) for one in known))
                lacking = f"{' and '.join(model.runtimes)} {'lacks' if len(known) == 1 else 'lack'}"
                wrong = f"`{asked}` is a way of PyTorch to compute, which {lacking}."
                item = () if isinstance(model.precision, str) else (model.precisions.index(asked),)
                yield (
                    (*scenario.place(model.name), "precision", *item),
                    f"{wrong} Write one of {others}, or `runtime: pytorch`.",
                )


def or_measured(model: str, asked: str, known: set[str]) -> str:
    """The runtimes that are known of a model, those most like what was asked or else the usual ones first, and how
    another becomes known."""
    usual_first = sorted(known, key=lambda one: (one not in USUAL_RUNTIMES, one))
    listed = known_ones(asked, usual_first, f"`planner profiles show {model}`") if known else ""
    if not asked:
        return f"{listed} {OR_MEASURED}"
    taken_in = f"`planner profiles import FILE --model {model} --gpu KIND --runtime {asked}`, then `--profiles DIR`"
    return f"{listed} Or take in what its own tool measured: {taken_in}."


def _known_runtimes(model: ModelSpec, library: Library, own: set[str], *, predicted: bool) -> set[str]:
    """Its own, and those that run it of which something was published, or may be predicted."""
    known = {profile.runtime for profile in library.published_of(model.known_as)}
    if predicted and _is_counted(model):
        known |= learnt().runtimes
    return own | {one for one in known if not unserved_network(model, one)}


def unserved_network(model: ModelSpec, name: str) -> str:
    """Why a runtime does not run a model, whatever the GPU; empty where it does."""
    return runtimes.runtime(name).unserved_network(architecture(model.made_by or model.known_as))


def _is_counted(model: ModelSpec) -> bool:
    """Whether it was published, or its layers are known: then its time is predicted in every published runtime."""
    if learnt().knows("work model", architecture(model.known_as)):
        return True
    try:
        facts(model.made_by or model.known_as, model.input or None)
    except FactsError:
        return False
    return True


def _of_any_input(model: ModelSpec, library: Profiles) -> ModelSpec:
    """A factory that makes its own input is calibrated without `--input`: its profile has no shape in its name."""
    if not model.factory or model.profile or not isinstance(library, Library):
        return model
    bare, measured = profile_name(model.factory), library.models()
    return replace(model, profile=bare) if model.known_as not in measured and bare in measured else model


def _spelt_runtime(model: ModelSpec) -> ModelSpec:
    """The model with its runtimes as the project spells them."""
    if isinstance(model.runtime, str):
        return replace(model, runtime=runtime(model.runtime))
    return replace(model, runtime=model.runtime and tuple(map(runtime, model.runtime)))


def _unknown_model(model: ModelSpec, stands: Steps, known: set[str]) -> tuple[Steps, str]:
    place = (*stands, "profile" if model.profile else "model" if model.model else "name")
    if candidates := shipped(model.known_as):
        return place, f"`{model.known_as}` may be {' or '.join(candidates)}. Write one of them as its `model`."
    wrong = f"no model is known as `{model.known_as}`: no profile, no layers."
    if near := perhaps(model.known_as, known) or perhaps_of(meant(model.known_as)):
        beside = " Write it as its `model`." if ":" in near and not model.model else ""
        return place, f"{wrong}{near}{beside} {OTHERS_GO_BY}"
    return place, f"{wrong} {how_to_name(model.known_as)} {OR_MEASURED}"
