"""Ray Serve: deployments of a config for `serve deploy`, also inside a RayService of Kubernetes."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from calibrate.layers.facts import known
from planner.imports.serving.found import Found, FoundModel, FoundStream, ServingSettings, distinct_names, source_of
from planner.imports.serving.parts import Part, parsed
from simulator.errors import InputError

TOOL = "a Ray Serve config"
SERVICE = "RayService"
NESTED = "serveConfigV2"
"""Key of a RayService under which the config stands as a text."""
LANGUAGE_MODELS = "ray.serve.llm"
READ = ("max_batch_size", "batch_wait_timeout_s", "factory", "shape")
FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def looks_like(document: Part) -> bool:
    """True of a config, or of an object that holds one."""
    return isinstance(document.at("applications").value, list) or document.at("kind").value == SERVICE


def read(documents: Sequence[Part]) -> Found:
    """Deployments that get GPUs."""
    config = _config(next(one for one in documents if looks_like(one)))
    applications = config.at("applications").items()
    served = _served(applications)
    left_out = tuple(_left_out(applications))
    if not served:
        why = " ".join(f"{line}." for line in left_out[:3]) or "it has no applications."
        raise InputError(f"{config.path}: names no deployment on a GPU: {why} `serve build` writes out all of them.")
    names = distinct_names([_called(app, one) for app, one in served])
    return Found(
        path=config.path,
        name=config.path.stem,
        tool=TOOL,
        models=tuple(_model(name, app, one) for name, (app, one) in zip(names, served, strict=True)),
        streams=tuple(FoundStream(model=name) for name in names),
        left_out=left_out,
        warnings=tuple(_counted(filter(None, (_unread(app, one) for app, one in served)))),
    )


def _served(applications: Sequence[Part]) -> list[tuple[Part, Part]]:
    """Each deployment that gets GPUs, with its application."""
    return [(app, one) for app in applications for one in app.at("deployments").items() if _gets_gpu(one)]


def _config(document: Part) -> Part:
    """The config itself."""
    text = document.at("spec", NESTED)
    if document.at("kind").value != SERVICE:
        return document
    if not isinstance(text.value, str):
        raise text.error(f"a text with the config of a {SERVICE}")
    inner = parsed(document.path, text.value)
    return Part(document.path, inner, inner.data)


def _gets_gpu(deployment: Part) -> bool:
    """True where it or its placement group asks for GPUs, or says nothing of what it gets: then its code decides."""
    options = deployment.at("ray_actor_options")
    return bool(_bundled_gpus(deployment) or options.value is None or options.at("num_gpus").number())


def _bundled_gpus(deployment: Part) -> float:
    """GPUs of a replica's placement group."""
    return sum(bundle.at("GPU").number() or 0.0 for bundle in deployment.at("placement_group_bundles").items())


def _called(application: Part, deployment: Part) -> str:
    """The deployment's name; the application's where each has but one."""
    alone = len(application.at("deployments").items()) == 1
    own = application.at("name").word() if alone else ""
    return own or deployment.at("name").word("model")


def _model(name: str, application: Part, deployment: Part) -> FoundModel:
    config, settings = deployment.at("user_config"), _settings(application, deployment)
    factory = application.at("args", "factory").word()
    shape = application.at("args", "shape").items() if FACTORY.fullmatch(factory) else ()
    return FoundModel(
        name=name,
        notes=tuple(_notes(application, deployment)),
        source=_shipped(factory) if FACTORY.fullmatch(factory) else source_of(settings.named),
        precision=settings.precision,
        input_shape=tuple(side.whole(1) or 1 for side in shape),
        batch_size=config.at("max_batch_size").whole(1),
        max_queue_delay_s=config.at("batch_wait_timeout_s").number() or 0.0,
    )


def _shipped(factory: str) -> str:
    """The plain name of one of torchvision's whose layers are shipped: `resnet50` of `torchvision.models:resnet50`."""
    plain = factory.removeprefix("torchvision.models:")
    return plain if plain in known() else factory


def _settings(application: Part, deployment: Part) -> ServingSettings:
    """What the deployment is told, by itself first, then by its application, then by variables of the environment."""
    own, application_env = deployment.at("ray_actor_options", "runtime_env"), application.at("runtime_env")
    environment = {**_texts(application_env.at("env_vars")), **_texts(own.at("env_vars"))}
    return ServingSettings((_texts(deployment.at("user_config")), _texts(application.at("args")), environment))


def _texts(part: Part) -> dict[str, str]:
    values = part.value if isinstance(part.value, dict) else {}
    return {
        str(key): value.strip() if isinstance(value, str) else json.dumps(value, default=str)
        for key, value in values.items()
    }


def _unread(application: Part, deployment: Part) -> str:
    """What it is told and no scenario holds; empty where that is nothing."""
    unread = _settings(application, deployment).unread(*READ)
    return f"{deployment.at('name').word()} is told what is not read: {unread}" if unread else ""


def _counted(texts: Iterable[str]) -> Iterator[str]:
    """Each once, with how often it is said."""
    for text, times in Counter(texts).items():
        yield f"{text} ({times} times)" if times > 1 else text


def _notes(application: Part, deployment: Part) -> Iterator[str]:
    options = deployment.at("ray_actor_options")
    bundled = _bundled_gpus(deployment)
    gpus = f"{bundled:g}" if bundled else options.at("num_gpus").word()
    kind = options.at("accelerator_type").word()
    asked = f"{gpus} GPU for each replica" if gpus else "what a replica gets stands in its code"
    of_kind = f", on {kind}" if kind else ""
    yield f"{deployment.at('name').word('without a name')} of {application.at('import_path').word()}: {asked}{of_kind}"
    if replicas := ", ".join(_replicas(deployment)):
        yield replicas


def _replicas(deployment: Part) -> Iterator[str]:
    scaled = deployment.at("autoscaling_config")
    for part in (deployment.at("num_replicas"), scaled.at("min_replicas"), scaled.at("max_replicas")):
        if part.value is not None:
            yield f"{part.steps[-1]} {part.word()}"
    if (most := deployment.at("max_ongoing_requests")).value is not None:
        yield f"{most.word()} requests at once"


def _left_out(applications: Sequence[Part]) -> Iterator[str]:
    for application in applications:
        name = application.at("name").word("an application without a name")
        if application.at("import_path").word().startswith(LANGUAGE_MODELS):
            yield f"{name}: generates tokens, which this import does not read"
        elif not application.at("deployments").items():
            yield f"{name}: names no deployments, its code does"
        for deployment in application.at("deployments").items():
            if not _gets_gpu(deployment):
                yield f"{deployment.at('name').word('a deployment')} of {name}: asks for no GPU"
