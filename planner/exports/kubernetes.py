"""Kubernetes: Triton as a Deployment for each machine, or for all that serve the same; a Service for each model."""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from calibrate.io.files import printable
from planner.catalog.offers import OWN
from planner.exports.fleet import Machine
from planner.exports.names import dns_name, dns_names, file_names
from planner.model.plan import Instances, Plan
from planner.words.candidates import candidate_name
from simulator.grouping import grouped

IMAGE = "nvcr.io/nvidia/tritonserver:24.12-py3"
"""The last release of 2024, which runs on all GPUs from Volta to Hopper; newer GPUs need a newer one."""
CLAIM = "models"
PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
OWN_LABEL = "planner/instance"
"""Which label nodes of one's own are chosen by; clouds label theirs themselves."""


def manifest(plan: Plan, fleet: Sequence[Machine]) -> str:
    """All objects in one file."""
    docs = [*deployments(fleet), *services(fleet)]
    return "\n".join(comments(plan, fleet)) + "\n" + "---\n".join(map(as_yaml, docs))


def comments(plan: Plan, fleet: Sequence[Machine]) -> Iterator[str]:
    """Comments on what its reader must fill in."""
    yield f"# {printable(plan.scenario)}: {printable(candidate_name(plan.recommendation.candidate))}."
    yield f"# To fill in: a PersistentVolumeClaim called `{CLAIM}` that all these pods can read. It holds what is in"
    yield "# models/ here, each model's file put into its folder 1/, as the config.pbtxt beside it says."
    if any(machine.instances.provider == OWN for machine in fleet):
        yield f"# Machines of your own are found by a label: kubectl label node NODE {OWN_LABEL}=NAME"
    yield f"# {IMAGE} runs on GPUs from Volta to Hopper; newer ones need a newer image."


def deployments(fleet: Sequence[Machine]) -> Iterator[dict[str, Any]]:
    """One for each set of machines that serve the same models in the same way."""
    names, folders = dns_names(machine.name for machine in fleet), file_names(machine.name for machine in fleet)
    models = model_names(fleet)
    for machine, *others in alike(fleet):
        name = names[machine.name]
        labels = {"app.kubernetes.io/name": name, **{serves(models[one.model.name]): "yes" for one in machine.served}}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "gpu-capacity-plan"}},
            "spec": {
                "replicas": 1 + len(others),
                "strategy": {"type": "Recreate"},  # there is no GPU to spare for a second copy during an update
                "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
                "template": {"metadata": {"labels": labels}, "spec": pod(machine, folders[machine.name])},
            },
        }


def alike(fleet: Sequence[Machine]) -> list[list[Machine]]:
    """Machines of one type that serve the same models with the same batches on the same GPUs, together."""
    work = (tuple((s.model.name, s.batch_size, s.devices) for s in machine.served) for machine in fleet)
    groups = grouped(((machine.instances, served), machine) for machine, served in zip(fleet, work, strict=True))
    return list(groups.values())


def model_names(fleet: Sequence[Machine]) -> dict[str, str]:
    """DNS name of every model; Services and Deployments are of different kinds, so their names may be alike."""
    return dns_names(served.model.name for machine in fleet for served in machine.served)


def serves(model: str) -> str:
    """The label of pods that serve a model."""
    return f"serves/{model}"


def pod(machine: Machine, folder: str) -> dict[str, Any]:
    """Triton with all GPUs of one machine."""
    return {
        "nodeSelector": node_labels(machine.instances),
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "triton",
                "image": IMAGE,
                "command": ["tritonserver", "--model-repository=/models", "--rate-limit=execution_count"],
                "ports": [{"name": name, "containerPort": port} for name, port in PORTS.items()],
                "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": "http"}, "periodSeconds": 5},
                "resources": {"limits": {"nvidia.com/gpu": machine.instances.gpu_count}},
                "volumeMounts": [{"name": CLAIM, "mountPath": "/models", "subPath": folder, "readOnly": True}],
            }
        ],
        "volumes": [{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM, "readOnly": True}}],
    }


def node_labels(instances: Instances) -> dict[str, str]:
    """Labels that the nodes of a type have: set by the cloud, or by the owner."""
    if instances.provider == OWN:
        return {OWN_LABEL: dns_name(instances.instance)}
    return {
        "node.kubernetes.io/instance-type": cloud_name(instances),
        "topology.kubernetes.io/region": instances.region,
    }


def cloud_name(instances: Instances) -> str:
    """As the cloud itself calls the type: Azure's price list leaves out `Standard_`."""
    prefix = "Standard_" if instances.provider == "azure" and not instances.instance.startswith("Standard_") else ""
    return prefix + instances.instance


def services(fleet: Sequence[Machine]) -> Iterator[dict[str, Any]]:
    """One for each model: all pods that serve it."""
    for name in model_names(fleet).values():
        yield {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "gpu-capacity-plan"}},
            "spec": {
                "selector": {serves(name): "yes"},
                "ports": [{"name": port, "port": PORTS[port], "targetPort": port} for port in ("http", "grpc")],
            },
        }


def as_yaml(document: dict[str, Any]) -> str:
    """YAML in the order in which it was written down, texts of several lines as such."""
    return yaml.dump(document, Dumper=Plain, sort_keys=False, allow_unicode=True, width=120)


class Plain(yaml.SafeDumper):
    """Without anchors, and with `|` for several lines."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def several_lines(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """A text as YAML."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Plain.add_representer(str, several_lines)
