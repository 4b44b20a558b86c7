"""What is asked to be listed: some profiles, machines or prices of all there are."""

from collections.abc import Sequence
from glob import escape
from pathlib import Path

from calibrate.io.reader import ProfileError
from calibrate.layers import facts
from calibrate.layers.naming import options_of, profile_name
from calibrate.library.lookup import Library
from calibrate.library.reading import SCHEMA, parsed_json
from calibrate.published.names import gpu_named
from planner.catalog.catalog import Catalog
from planner.catalog.offers import near_gpu
from planner.catalog.sold import Instance, Purchase
from planner.units.reading import perhaps
from simulator.errors import InputError
from simulator.near import known_ones
from simulator.world.profile import Profile


def choose(library: Library, model: str, gpu: str | None) -> tuple[Profile, ...]:
    """Profiles of a model on a GPU, or on all there are, and what was published; InputError where there is none."""
    return chosen_of((*library.for_model(model), *library.published_of(model)), library, model, gpu)


def chosen_of(of_model: Sequence[Profile], library: Library, model: str, gpu: str | None) -> tuple[Profile, ...]:
    """Those of some profiles of a model that are on a GPU; InputError where there is none."""
    if not of_model:
        raise InputError(f"no profile of `{model}`.{how_to_find(library, model)}")
    gpu = gpu and gpu_named(gpu, {p.gpu for p in of_model})
    chosen = tuple(p for p in of_model if gpu in (None, p.gpu))
    if not chosen:
        known = known_ones(str(gpu), sorted({p.gpu for p in of_model}), f"`planner profiles show {model}`")
        raise InputError(f"no profile of `{model}` on `{gpu}`.{known}{folders_near(library, model, gpu)}")
    return chosen


def how_to_find(library: Library, model: str) -> str:
    """What may have been meant, or how it is measured, and where what was measured is looked for."""
    if found := folders_near(library, model):
        return found
    own = " Profiles of your own: name their folder with `--profiles DIR`."
    if model in facts.known() and (options := options_of(model)):
        return f" Measure it with `planner calibrate {options}`.{own}"
    meant = perhaps(model, library.models()) or perhaps(model, facts.known())
    return f"{meant} See `profiles list`.{own}"


def folders_near(library: Library, model: str, gpu: str | None = None) -> str:
    """Folders in the current one that hold profiles of a model and were not named; empty where there is none."""
    named = {path.resolve() for path in library.paths.values()}
    files = Path().glob(f"*/{escape(gpu) if gpu else '*'}/{escape(profile_name(model))}*.json")
    found = [file for file in sorted(files) if file.resolve() not in named and _is_of(file, model)]
    return f" Did you mean `--profiles {found[0].parts[0]}`? It has one on {found[0].parent.name}." if found else ""


def _is_of(file: Path, model: str) -> bool:
    try:
        raw = parsed_json(file)
    except ProfileError:
        return False
    return (raw.get("schema"), raw.get("model")) == (SCHEMA, profile_name(model))


def choose_purchases(catalog: Catalog, gpu: str | None, provider: str | None) -> list[Purchase]:
    """Machines with a GPU that can be bought; none where a provider's rents are asked for."""
    gpu = gpu and gpu_named(gpu, catalog.gpus)
    return [] if provider else [p for p in catalog.purchases if gpu in (None, p.gpu)]


def choose_instances(catalog: Catalog, gpu: str | None, provider: str | None) -> list[Instance]:
    """Instances with a GPU, of a provider; InputError where there is none."""
    gpu = gpu and gpu_named(gpu, catalog.gpus)
    chosen = [i for i in catalog.instances if gpu in (None, i.gpu) and provider in (None, i.provider)]
    if not chosen and not choose_purchases(catalog, gpu, provider):
        raise no_price(catalog, gpu, provider)
    return chosen


def no_price(catalog: Catalog, gpu: str | None, provider: str | None) -> InputError:
    """Says who has the GPU, or that nobody sells it, or which kinds have a price where it is not known."""
    kinds = {i.gpu for i in catalog.instances} | {p.gpu for p in catalog.purchases}
    having = {i.provider for i in catalog.instances if gpu in (None, i.gpu)}
    known = known_ones(str(provider if having else gpu), sorted(having or kinds), "`planner prices show`")
    asked = " ".join(filter(None, (gpu, provider)))
    if gpu in catalog.gpus and not having:
        remedy = "List your own under `buy.own` of a scenario, or price it in prices.yaml of a --catalog directory."
        return InputError(f"no price of `{asked}`: nobody sells it. {remedy}")
    return InputError(f"no price of `{asked}`.{'' if having else near_gpu(str(gpu), catalog.gpus)}{known}")
