"""Ray Serve: an application for each model, with replicas, parts of GPUs and batching, and the code that serves it."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from math import ceil, floor
from pathlib import Path
from typing import Any

from calibrate.io.files import printable
from calibrate.published import names
from planner.exports.fleet import ExportError, Machine, ServedModel
from planner.exports.guide import by_machine, fleet_name, shares_sentence, unequal
from planner.exports.kubernetes import as_yaml
from planner.exports.names import file_names
from planner.io.demand import scenario_of
from planner.model.parts.models import ModelSpec
from planner.model.plan import Plan
from simulator.grouping import grouped
from simulator.world.deployment import Routing

FILL_IN = "FILL_IN"
RUNS = ("fp32", "pytorch")
"""Precision and runtime of serve_app.py."""
PORT = 8000
JOIN = "--address=FIRST:6379"
"""Of all machines but the first."""
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
    text = "\n".join([*comments(plan, fleet), as_yaml(config(plan, fleet))])
    return {"serve_app.py": app, "serve_config.yaml": text}


def comments(plan: Plan, fleet: Sequence[Machine]) -> Iterator[str]:
    """Comments on what its reader must fill in."""
    yield f"# {printable(plan.scenario)}: {fleet_name(plan)}."
    yield f"# To fill in, where it says {FILL_IN}: `factory`, your function that makes the model as"
    yield "# package.module:function, and `shape` of one sample. torchvision's have random weights: for timing only."
    if any(machine.cores == 0 for machine in fleet):
        yield "# OMP_NUM_THREADS: `torch_threads` in the device.json that `planner calibrate` wrote of the processor."
    yield "# Each machine must be started with what it serves, as README.md says: replicas wait for that."


def config(plan: Plan, fleet: Sequence[Machine]) -> dict[str, Any]:
    """All of `serve_config.yaml`."""
    names = file_names(model.name for model in plan.recommendation.models)
    scenario = scenario_of(plan)
    specs = {spec.name: spec for spec in scenario.models} if scenario else {}
    return {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": PORT},
        "applications": [
            application(model.name, names[model.name], specs.get(model.name), fleet)
            for model in plan.recommendation.models
        ],
    }


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
        "deployments": [deployment(here, name)],
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


def deployment(here: Sequence[tuple[Machine, ServedModel]], name: str) -> dict[str, Any]:
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
        "ray_actor_options": {**held(here), "resources": {serves(name): 1}},
        "user_config": {
            "max_batch_size": batch_size,
            "batch_wait_timeout_s": model.max_queue_delay_s,
        },
    }


def serves(name: str) -> str:
    """The resource that a machine has as many of as the plan has replicas of a model there."""
    return f"serves_{name}"


def held(here: Sequence[tuple[Machine, ServedModel]]) -> dict[str, Any]:
    """What one replica holds of its GPU, or of its processor's cores: a GPU of three gives each a third.

    The least, where machines differ, and alike on all GPUs of a machine: so whichever Ray takes, the last replica fits.
    Ray counts in ten-thousandths. On GPUs no cores are held, of which each replica would get one: a machine of four
    would not take five models.
    """
    crowd = max(machine.crowd for machine, _ in here)
    cores = {machine.cores for machine, _ in here}
    if cores == {None}:
        return {"num_cpus": 0, "num_gpus": floor(1e4 / crowd) / 1e4}
    if None in cores:
        raise ExportError(
            f"{here[0][1].model.name} runs on GPUs and on processors, but to Ray Serve all replicas of a model are "
            "alike. Plan again with GPUs or processors alone in `buy.gpus`, or export to triton or kubernetes."
        )
    threads = min(count or 0 for count in cores)
    return {
        "num_cpus": floor(1e4 * threads / crowd) / 1e4,
        "num_gpus": 0,
        "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(threads or FILL_IN)}},
    }


def starts(plan: Plan, fleet: Sequence[Machine]) -> Iterator[str]:
    """How Ray is started on each machine, so that it gets the replicas that the plan has there."""
    names = file_names(model.name for model in plan.recommendation.models)
    asked = [json.dumps({serves(names[s.model.name]): len(s.devices) for s in machine.served}) for machine in fleet]
    ways = [
        f"ray start {way} --resources='{of}'" for way, of in zip(chain(["--head"], repeat(JOIN)), asked, strict=False)
    ]
    alike = grouped((way, printable(machine.name)) for machine, way in zip(fleet, ways, strict=True))
    for command, places in alike.items():
        yield f"{', '.join(places)}: `{command}`"


def what_differs(plan: Plan, fleet: Sequence[Machine]) -> list[str]:
    """Rules that Ray Serve keeps in another way than the plan, a sentence each."""
    sentences = []
    if any(machine.instances.gpu_count > 1 and machine.crowd > 1 for machine in fleet):
        sentences.append(
            "On a machine of several GPUs Ray chooses which replica goes on which of them: models may share one that "
            "the plan keeps apart."
        )
    if any(machine.crowd > 1 for machine in fleet):
        sentences.append(
            "Models that share a GPU or a processor run in processes of their own: batches overlap, and each process "
            "holds a context, where the plan counts one context and runs one batch at a time."
        )
    sentences += _spread(plan, fleet)
    sentences += _larger_batches(fleet)
    if other := [m for m in plan.recommendation.models if (m.precision or "fp32", m.runtime or "pytorch") != RUNS]:
        named = ", ".join(f"{printable(m.name)} at {m.precision} in {m.runtime}" for m in other)
        sentences.append(f"serve_app.py runs models at {RUNS[0]} in {RUNS[1]}, where the plan has {named}: change it.")
    sentences.append(f"Nothing is dropped; the plan's rule is `{plan.policies.drop}`.")
    return sentences


def _spread(plan: Plan, fleet: Sequence[Machine]) -> Iterator[str]:
    """How requests reach replicas, where a model has several."""
    several = [model for model in plan.recommendation.models if len(model.replicas) > 1]
    if several:
        yield (
            "Ray sends a request to the less busy of two replicas that it draws; the plan's rule is "
            f"`{plan.policies.routing}`."
        )
    if plan.policies.routing is Routing.LEAST_OUTSTANDING:
        remedy = "The plan was replayed with requests going to the least busy of all: `check_slo.py` measures the rest."
    else:
        remedy = "Plan again with `--set routing=least-outstanding`, which replays nearly that."
    for model in several:
        here = by_machine(fleet, model.name)
        if unequal(here, by_replica=True):
            yield f"{shares_sentence(model.name, here)}. Ray knows no shares, so its SLO may be missed. {remedy}"


def _larger_batches(fleet: Sequence[Machine]) -> Iterator[str]:
    """A sentence for each model whose replicas have batches of several sizes in the plan: Ray has one of a model."""
    batches: dict[str, set[int]] = {}
    for served in (served for machine in fleet for served in machine.served):
        batches.setdefault(served.model.name, set()).add(served.batch_size)
    for model, sizes in batches.items():
        if len(sizes) > 1:
            planned = " and ".join(map(str, sorted(sizes)))
            yield f"All replicas of {model} take batches of up to {max(sizes)}; the plan has {planned}."
