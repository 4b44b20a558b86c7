"""Ray Serve: an application for each model, with replicas, parts of GPUs and batching, and the code that serves it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil, floor
from pathlib import Path
from typing import Any

from calibrate.io.files import printable
from calibrate.published import names
from planner.exports.fleet import Machine, ServedModel
from planner.exports.kubernetes import as_yaml
from planner.exports.names import file_names
from planner.io.demand import scenario_of
from planner.model.parts.models import ModelSpec
from planner.model.plan import Plan
from planner.words.candidates import candidate_name

FILL_IN = "FILL_IN"
PORT = 8000
TORCHVISION = {
    **{f"resnet{layers}": (f"resnet{layers}", 224) for layers in (18, 34, 50, 101, 152)},
    **{name: (name, 224) for name in ("alexnet", "convnext_tiny", "efficientnet_b0", "mobilenet_v3_large")},
    **{name: (name, 224) for name in ("vgg16", "vgg19", "vit_b_16")},
    "inceptionv3": ("inception_v3", 299),
}
"""Models of the zoo that torchvision makes without arguments, one tensor in, one out: name there, pixels."""


def serve_files(plan: Plan, fleet: Sequence[Machine]) -> dict[str, str]:
    """The configuration, and the application that it names."""
    app = Path(__file__).with_name("templates").joinpath("serve_app.py").read_text(encoding="utf-8")
    text = "\n".join([*comments(plan), as_yaml(config(plan, fleet))])
    return {"serve_app.py": app, "serve_config.yaml": text}


def comments(plan: Plan) -> Iterator[str]:
    """Comments on what its reader must fill in."""
    yield f"# {printable(plan.scenario)}: {printable(candidate_name(plan.recommendation.candidate))}."
    yield f"# To fill in, where it says {FILL_IN}: `factory`, your function that makes the model as"
    yield "# package.module:function, and `shape` of one sample. torchvision's have random weights: for timing only."
    yield "# In a folder with serve_app.py and your modules, on a cluster with all GPUs: serve run serve_config.yaml"


def config(plan: Plan, fleet: Sequence[Machine]) -> dict[str, Any]:
    """All of `serve_config.yaml`."""
    names = file_names(model.name for model in plan.recommendation.models)
    specs = specs_of(plan)
    return {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": PORT},
        "applications": [
            application(model.name, names[model.name], specs.get(model.name), fleet)
            for model in plan.recommendation.models
        ],
    }


def specs_of(plan: Plan) -> dict[str, ModelSpec]:
    """The scenario's model by name; empty where the plan does not hold its scenario."""
    scenario = scenario_of(plan)
    return {spec.name: spec for spec in scenario.models} if scenario else {}


def application(model: str, name: str, spec: ModelSpec | None, fleet: Sequence[Machine]) -> dict[str, Any]:
    """One model."""
    here = [(machine, served) for machine in fleet for served in machine.served if served.model.name == model]
    factory, shape = made_by(model, spec)
    return {
        "name": name,
        "route_prefix": f"/v2/models/{name}",
        "import_path": "serve_app:build",
        "args": {
            "name": name,
            "factory": factory,
            "shape": shape,
        },
        "deployments": [deployment(here)],
    }


def made_by(model: str, spec: ModelSpec | None) -> tuple[str, list[int] | str]:
    """The function that makes a model, and the shape of one sample, as far as they are known."""
    if spec and spec.factory:
        return spec.factory, list(spec.input)
    if spec and spec.model and spec.input and spec.model.startswith("torchvision:"):
        return f"torchvision.models:{spec.model.partition(':')[2]}", list(spec.input)
    meant = spec.known_as if spec else model
    known, pixels = TORCHVISION.get(meant if ":" in meant else names.architecture(meant), ("", 0))
    return (f"torchvision.models:{known}", [3, pixels, pixels]) if known else (FILL_IN, FILL_IN)


def deployment(here: Sequence[tuple[Machine, ServedModel]]) -> dict[str, Any]:
    """Replicas of one model.

    What is not let in waits at the proxy, which asks again at growing intervals: so twice as many are let in as can be
    under way within the SLO (Little's law), and never less than two batches.
    """
    batch_size = max(served.batch_size for _, served in here)
    replicas = sum(len(served.devices) for _, served in here)
    model = here[0][1].model
    under_way = model.offered_rps / replicas * model.slo_s
    return {
        "name": "Model",
        "num_replicas": replicas,
        "max_replicas_per_node": max(len(served.devices) for _, served in here),
        "max_ongoing_requests": max(2 * batch_size, ceil(2 * under_way)),
        "ray_actor_options": {"num_gpus": part_of_gpu(here)},
        "user_config": {
            "max_batch_size": batch_size,
            "batch_wait_timeout_s": model.max_queue_delay_s,
        },
    }


def part_of_gpu(here: Sequence[tuple[Machine, ServedModel]]) -> float:
    """Share of a GPU that one replica holds: a GPU of three gives each a third. The least, where GPUs differ.

    So the placement of the plan always fits; Ray counts in ten-thousandths.
    """
    crowd = max(machine.replicas_on(device) for machine, served in here for device in served.devices)
    return floor(1e4 / crowd) / 1e4


def what_differs(plan: Plan, fleet: Sequence[Machine]) -> list[str]:
    """Rules that Ray Serve keeps in another way than the plan, a sentence each."""
    crowds = Counter(m.replicas_on(device) for m in fleet for device in {c for s in m.served for c in s.devices})
    sentences = ["Ray chooses which replica goes on which GPU, and sends a request to the less busy of two replicas."]
    if any(crowd > 1 for crowd in crowds):
        sentences.append(
            "Models that share a GPU run in processes of their own: batches overlap, and each process holds a context, "
            "where the plan counts one context a GPU and runs one batch at a time."
        )
    sentences += _larger_batches(fleet)
    sentences.append(f"Nothing is dropped; the plan's rule is `{plan.policies.drop}`.")
    return sentences


def _larger_batches(fleet: Sequence[Machine]) -> Iterator[str]:
    """A sentence for each model whose replicas have batches of several sizes in the plan: Ray has one of a model."""
    batches: dict[str, set[int]] = {}
    for served in (served for machine in fleet for served in machine.served):
        batches.setdefault(served.model.name, set()).add(served.batch_size)
    for model, sizes in batches.items():
        if len(sizes) > 1:
            planned = " and ".join(map(str, sorted(sizes)))
            yield f"All replicas of {model} take batches of up to {max(sizes)}; the plan has {planned}."
