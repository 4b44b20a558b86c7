"""Kubernetes: Triton as a Deployment for each machine, or for all that serve the same; a Service for each model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from calibrate.io.files import printable
from planner.catalog.sold import ANY_REGION, OWN
from planner.exports.fleet import Machine
from planner.exports.guide import by_machine, fleet_name, shares_sentence, spares, unequal
from planner.exports.names import dns_name, dns_names, file_names
from planner.model.plan import Instances, Plan
from simulator.grouping import grouped

IMAGE = "nvcr.io/nvidia/tritonserver:24.12-py3"
"""The last release of 2024, which runs on all GPUs from Volta to Hopper; newer GPUs need a newer one."""
CLAIM = "models"
PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
OWN_LABEL = "planner/instance"
"""Which label nodes of one's own are chosen by; clouds label theirs themselves."""
PART_OF = {"app.kubernetes.io/part-of": "gpu-capacity-plan"}
PLACEHOLDER = "planner-spare"
"""Priority of pods that hold spare nodes: any other pod takes their place at once."""
PAUSE = "registry.k8s.io/pause:3.10"
MILLICORES_ASKED = 750
"""Of each core that the plan uses: the rest is for what Kubernetes itself runs on a node. The pod may use all."""


def manifest(plan: Plan, fleet: Sequence[Machine]) -> str:
    """All objects in one file."""
    docs = [*placeholders(plan, fleet), *deployments(fleet), *services(fleet)]
    return "\n".join(comments(plan, fleet)) + "\n" + "---\n".join(map(as_yaml, docs))


def comments(plan: Plan, fleet: Sequence[Machine]) -> Iterator[str]:
    """Comments on what its reader must fill in."""
    yield f"# {printable(plan.scenario)}: {fleet_name(plan)}."
    yield f"# To fill in: a PersistentVolumeClaim called `{CLAIM}` that all these pods can read. It holds what is in"
    yield "# models/ here, each model's file put into its folder 1/, as the config.pbtxt beside it says."
    if any(machine.instances.provider == OWN for machine in fleet):
        yield f"# Machines of your own are found by a label, spares too: kubectl label node NODE {OWN_LABEL}=NAME"
    if any(machine.cores is None for machine in fleet):
        yield f"# {IMAGE} runs on GPUs from Volta to Hopper; newer ones need a newer image."


def deployments(fleet: Sequence[Machine]) -> Iterator[dict[str, Any]]:
    """One for each set of machines that serve the same models in the same way."""
    names, folders = dns_names(machine.name for machine in fleet), file_names(machine.name for machine in fleet)
    models = model_names(fleet)
    for machine, *others in alike(fleet):
        labels = {serves(models[one.model.name]): "yes" for one in machine.served}
        yield deployment(names[machine.name], 1 + len(others), labels, pod(machine, folders[machine.name]))


def deployment(name: str, replicas: int, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    """So many pods, each of which has a machine to itself."""
    named = {"app.kubernetes.io/name": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": PART_OF},
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},  # there is no GPU to spare for a second copy during an update
            "selector": {"matchLabels": named},
            "template": {"metadata": {"labels": named | PART_OF | labels}, "spec": spec},
        },
    }


def placeholders(plan: Plan, fleet: Sequence[Machine]) -> Iterator[dict[str, Any]]:
    """Pods that do nothing on spare machines, and give way to one whose node was lost; the priority by which they do.

    So the nodes stay, also where unused ones are taken away, and nobody else settles there.
    """
    ready = spares(plan)
    if not ready:
        return
    yield {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PLACEHOLDER, "labels": PART_OF},
        "value": -1000,
        "description": "Holds spare machines of a plan until they are needed.",
    }
    names = dns_names([*(machine.name for machine in fleet), *map(spare_key, ready)])
    cores = {machine.instances: machine.cores for machine in fleet}
    for one in ready:
        pause = {"name": "pause", "image": PAUSE, **resources(one, cores.get(one))}
        spec = {
            "priorityClassName": PLACEHOLDER,
            "terminationGracePeriodSeconds": 0,
            **placed(one, cores.get(one)),
            "containers": [pause],
        }
        yield deployment(names[spare_key(one)], one.spares, {}, spec)


def spare_key(one: Instances) -> str:
    """What tells spares of a type from those of others, and from machines."""
    return f"spare {one.instance}\0{one.provider} {one.region}"


def alike(fleet: Sequence[Machine]) -> list[list[Machine]]:
    """Machines of one type that serve the same shares of the same models, in the same batches on the same GPUs."""
    work = (tuple((s.model.name, s.batch_size, s.devices, round(s.share, 6)) for s in m.served) for m in fleet)
    groups = grouped(((machine.instances, served), machine) for machine, served in zip(fleet, work, strict=True))
    return list(groups.values())


def model_names(fleet: Sequence[Machine]) -> dict[str, str]:
    """DNS name of every model; Services and Deployments are of different kinds, so their names may be alike."""
    return dns_names(served.model.name for machine in fleet for served in machine.served)


def serves(model: str) -> str:
    """The label of pods that serve a model."""
    return f"serves/{model}"


def pod(machine: Machine, folder: str) -> dict[str, Any]:
    """Triton with all of one machine."""
    return {
        **placed(machine.instances, machine.cores),
        "containers": [
            {
                "name": "triton",
                "image": IMAGE,
                "command": ["tritonserver", "--model-repository=/models", "--rate-limit=execution_count"],
                "ports": [{"name": name, "containerPort": port} for name, port in PORTS.items()],
                "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": "http"}, "periodSeconds": 5},
                **resources(machine.instances, machine.cores),
                "volumeMounts": [{"name": CLAIM, "mountPath": "/models", "subPath": folder, "readOnly": True}],
            }
        ],
        "volumes": [{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM, "readOnly": True}}],
    }


def placed(instances: Instances, cores: int | None) -> dict[str, Any]:
    """Where a pod goes that has a machine to itself: by its GPUs, or where there are none, away from its like."""
    where = {"nodeSelector": node_labels(instances)}
    if cores is None:
        tolerated = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
        return {**where, "tolerations": [tolerated]}
    apart = {"labelSelector": {"matchLabels": PART_OF}, "topologyKey": "kubernetes.io/hostname"}
    return {**where, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}}


def resources(instances: Instances, cores: int | None) -> dict[str, Any]:
    """What a pod asks of its machine: all GPUs, or cores as far as they are known."""
    if cores is None:
        return {"resources": {"limits": {"nvidia.com/gpu": instances.gpu_count}}}
    asked = MILLICORES_ASKED * cores * instances.gpu_count
    return {"resources": {"requests": {"cpu": f"{asked}m"}}} if asked else {}


def node_labels(instances: Instances) -> dict[str, str]:
    """Labels that the nodes of a type have: set by the cloud, or by the owner."""
    if instances.provider == OWN:
        return {OWN_LABEL: dns_name(instances.instance)}
    region = {} if instances.region == ANY_REGION else {"topology.kubernetes.io/region": instances.region}
    return {"node.kubernetes.io/instance-type": cloud_name(instances), **region}


def cloud_name(instances: Instances) -> str:
    """As the cloud itself calls the type: Azure's price list leaves out `Standard_`."""
    prefix = "Standard_" if instances.provider == "azure" and not instances.instance.startswith("Standard_") else ""
    return prefix + instances.instance


def services(fleet: Sequence[Machine]) -> Iterator[dict[str, Any]]:
    """One for each model: all pods that serve it. Beside it one for each Deployment, where these get unequal shares."""
    for name in model_names(fleet).values():
        yield service(name, {serves(name): "yes"})
    names = dns_names(machine.name for machine in fleet)
    for parts in parts_of(fleet).values():
        for part in parts:
            yield service(part.service, {"app.kubernetes.io/name": names[part.machine]})


def service(name: str, selector: dict[str, str]) -> dict[str, Any]:
    """A name for some pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": PART_OF},
        "spec": {
            "selector": selector,
            "ports": [{"name": port, "port": PORTS[port], "targetPort": port} for port in ("http", "grpc")],
        },
    }


@dataclass(frozen=True, slots=True)
class Part:
    """The pods of one Deployment that serve a model, all with the same share."""

    service: str
    machine: str
    """The first of theirs."""
    share: float
    """Of all pods together."""


def parts_of(fleet: Sequence[Machine]) -> dict[str, list[Part]]:
    """The parts of each model whose machines get unequal shares of its requests, which a Service does not keep to."""
    groups = alike(fleet)
    keys = [(served.model.name, group[0].name) for group in groups for served in group[0].served]
    taken = [served.model.name for machine in fleet for served in machine.served]
    names = dns_names([*taken, *(f"{model}\0{machine}" for model, machine in keys)])
    parts = grouped(
        (
            served.model.name,
            Part(names[f"{served.model.name}\0{group[0].name}"], group[0].name, served.share * len(group)),
        )
        for group in groups
        for served in group[0].served
    )
    return {model: found for model, found in parts.items() if unequal(by_machine(fleet, model), by_replica=False)}


def what_a_service_does(plan: Plan, fleet: Sequence[Machine]) -> Iterator[str]:
    """How requests reach the pods of a model, where it has several; a sentence each."""
    several = [model.name for model in plan.recommendation.models if len(by_machine(fleet, model.name)) > 1]
    if several:
        yield (
            "A Service draws a pod for each connection, all with the same chance, and the connection stays there; the "
            f"plan's rule for requests is `{plan.policies.routing}`. So queues grow that the plan does not have, the "
            "more the fewer connections there are."
        )
    for model, parts in parts_of(fleet).items():
        common, services = model_names(fleet)[model], ", ".join(part.service for part in parts)
        yield (
            f"{shares_sentence(model, by_machine(fleet, model))}; the Service `{common}` does not, so the SLO may be "
            f"missed. With a mesh apply `shares.yaml`. Without, send those shares to {services} yourself, as "
            "`check_slo.py` does."
        )


def routes(fleet: Sequence[Machine]) -> str:
    """For meshes that know the Gateway API: what is sent to a model's Service goes to its parts by their shares."""
    names = model_names(fleet)
    return "---\n".join(as_yaml(route(names[model], parts)) for model, parts in parts_of(fleet).items())


def route(name: str, parts: Sequence[Part]) -> dict[str, Any]:
    """The shares of one model in thousandths of a percent."""
    to = [{"name": part.service, "port": PORTS["http"], "weight": max(1, round(1e5 * part.share))} for part in parts]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "labels": PART_OF},
        "spec": {
            "parentRefs": [{"group": "", "kind": "Service", "name": name, "port": PORTS["http"]}],
            "rules": [{"backendRefs": to}],
        },
    }


def as_yaml(document: dict[str, Any]) -> str:
    """YAML in the order in which it was written down, texts of several lines as such."""
    return yaml.dump(document, Dumper=Plain, sort_keys=False, allow_unicode=True, width=120)


class Plain(yaml.SafeDumper):
    """Without anchors, and with `|` for several lines."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Plain.add_representer(str, Plain.represent_str)
