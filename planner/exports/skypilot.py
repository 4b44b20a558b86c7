"""SkyPilot: a task for each type of machine, which rents one and starts Triton on it.

Each machine is a cluster of its own: where one node of several fails, SkyPilot ends a task on all.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from calibrate.io.files import printable
from planner.catalog.sold import ANY_REGION, OWN
from planner.exports.fleet import ExportError, Machine
from planner.exports.kubernetes import IMAGE, as_yaml, cloud_name
from planner.exports.names import dns_name, dns_names, file_names
from planner.io.demand import scenario_of
from planner.model.choices import PriceKind
from planner.model.plan import Instances, Plan

ACCELERATORS = {"A100-40GB": "A100"}
"""Where SkyPilot's name of a GPU is not the catalog's."""
CLOUDS = {
    **{name: name for name in ("aws", "azure", "gcp", "lambda", "nebius", "oci", "runpod", "vast", "verda")},
    "digitalocean": "do",
}
"""Providers on which SkyPilot starts machines, by its own names: `sky/clouds/` of skypilot-org/skypilot. CoreWeave and
Together are Kubernetes to it, which the target `kubernetes` writes."""


def tasks(plan: Plan, fleet: Sequence[Machine]) -> dict[str, tuple[str, list[str]]]:
    """A task by its name for each type of machine that is rented, and how it is launched; ExportError where none is."""
    rented = [machine for machine in fleet if machine.instances.provider != OWN]
    if not rented:
        raise ExportError("all machines of the plan are your own: there is nothing to rent. Export to triton.")
    if lacking := {machine.instances.provider for machine in rented} - CLOUDS.keys():
        wrong = f"SkyPilot has no cloud {' and no '.join(map(printable, sorted(lacking)))}"
        known = f"those that it has, `buy.providers: [{', '.join(CLOUDS)}]`"
        raise ExportError(f"{wrong}. Plan again with {known}, or export to triton or kubernetes.")
    names = dns_names(label(machine.instances) for machine in rented)
    folders = file_names(machine.name for machine in fleet)
    scenario = scenario_of(plan)
    asked = scenario.buy.price if scenario else None
    made = {}
    for instances, found in groupby(rented, key=lambda machine: machine.instances):
        name = names[label(instances)]
        kind = instances.price_kind or asked  # plans of older versions do not say it of machines
        machines_alike = list(found)
        here = [folders[machine.name] for machine in machines_alike]
        has_gpus = machines_alike[0].cores is None
        lines = [*comments(plan, instances, kind), as_yaml(task(plan, instances, here, kind, has_gpus))]
        made[name] = ("\n".join(lines), launches(instances, name, here))
    return made


def launches(instances: Instances, name: str, folders: Sequence[str]) -> list[str]:
    """Commands that rent machines of one type and start Triton on each, and that rent its spares."""
    launch = f"sky launch -y -d -c serve-$m {name}.sky.yaml --env MACHINE=$m"
    serving = f"`for m in {' '.join(folders)}; do {launch}; done`"
    numbers = range(1, instances.spares + 1)
    return [serving, *(f"`sky launch -y -c {spare(name, n)} {name}.sky.yaml`, which is a spare" for n in numbers)]


def spare(name: str, number: int) -> str:
    """The cluster of a spare machine."""
    return f"spare-{number}-{name}"


def label(instances: Instances) -> str:
    """A name for machines of one type."""
    return f"{instances.provider}-{instances.region}-{instances.instance}"


def comments(plan: Plan, instances: Instances, kind: PriceKind | None) -> Iterator[str]:
    """Comments on what its reader must fill in."""
    cost = f"${instances.usd_per_hour:g}/h each"
    spares = f" and {instances.spares} spare" if instances.spares else ""
    yield f"# {instances.count} x {printable(instances.instance)}{spares} for {printable(plan.scenario)}, {cost}."
    yield "# First put the models into models/, as each config.pbtxt says. README.md has the command for each machine."
    yield "# MACHINE is the folder that Triton serves; without one, the machine stands ready with all of them."
    yield "# Port 8000 is open to everybody: take `ports` away where the clients are in the same network."
    if kind is None:
        yield "# The plan does not say how the machines are paid for: on demand is assumed."
    elif kind in (PriceKind.RESERVED_1Y, PriceKind.RESERVED_3Y):
        yield f"# The plan's price is {kind}: these start on demand, and your reservation must cover them."


def infra(instances: Instances) -> str:
    """`aws/us-east-1`; `lambda` where the provider's price is of no region."""
    cloud = CLOUDS[instances.provider]
    return cloud if instances.region == ANY_REGION else f"{cloud}/{instances.region}"


def task(
    plan: Plan, instances: Instances, folders: Sequence[str], kind: PriceKind | None, has_gpus: bool
) -> dict[str, Any]:
    """The task of a machine of one type, which serves any of their folders."""
    gpu = ACCELERATORS.get(instances.gpu, instances.gpu)
    return {
        "name": dns_name(plan.scenario),
        "num_nodes": 1,
        "envs": {"MACHINE": ""},
        "resources": {
            "infra": infra(instances),
            "instance_type": cloud_name(instances),
            **({"accelerators": {gpu: instances.gpu_count}} if has_gpus else {}),
            "use_spot": kind is PriceKind.SPOT,
            "image_id": f"docker:{IMAGE}",
            "ports": [8000],
        },
        "file_mounts": {f"/models/{folder}": f"./models/{folder}" for folder in folders},
        "run": 'if [ -z "$MACHINE" ]; then exit 0; fi\n'
        "exec tritonserver --model-repository=/models/$MACHINE --rate-limit=execution_count\n",
    }
