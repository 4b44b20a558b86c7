"""SkyPilot: a task for each type of machine, which rents them and starts Triton on each."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from calibrate.io.files import printable
from planner.catalog.offers import OWN
from planner.catalog.sold import ANY_REGION
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


def tasks(plan: Plan, fleet: Sequence[Machine]) -> dict[str, str]:
    """A task by its name for each type of machine that is rented; ExportError where none is."""
    rented = [machine for machine in fleet if machine.instances.provider != OWN]
    if not rented:
        raise ExportError("all machines of the plan are your own: there is nothing to rent. Export to triton.")
    check_clouds(rented)
    names = dns_names(label(machine.instances) for machine in rented)
    folders = file_names(machine.name for machine in fleet)
    scenario = scenario_of(plan)
    asked = scenario.buy.price if scenario else None
    made = {}
    for instances, found in groupby(rented, key=lambda machine: machine.instances):
        name = names[label(instances)]
        kind = instances.price_kind or asked  # plans of older versions do not say it of machines
        here = [folders[machine.name] for machine in found]
        lines = [*comments(plan, instances, name, kind), as_yaml(task(plan, instances, here, kind))]
        made[name] = "\n".join(lines)
    return made


def check_clouds(rented: Sequence[Machine]) -> None:
    """ExportError where SkyPilot does not start machines of some provider."""
    lacking = {machine.instances.provider for machine in rented} - CLOUDS.keys()
    if lacking:
        wrong = f"SkyPilot has no cloud {' and no '.join(map(printable, sorted(lacking)))}"
        known = f"those that it has, `buy.providers: [{', '.join(CLOUDS)}]`"
        raise ExportError(f"{wrong}. Plan again with {known}, or export to triton or kubernetes.")


def label(instances: Instances) -> str:
    """A name for machines of one type."""
    return f"{instances.provider}-{instances.region}-{instances.instance}"


def comments(plan: Plan, instances: Instances, name: str, kind: PriceKind | None) -> Iterator[str]:
    """Comments on what its reader must fill in."""
    cost = f"${instances.usd_per_hour:g}/h each"
    yield f"# {instances.count} x {printable(instances.instance)} for {printable(plan.scenario)}, {cost}."
    yield "# First put the models into models/, as each config.pbtxt says. Then:"
    yield f"#   sky launch -c {name} {name}.sky.yaml"
    yield "# Port 8000 is open to everybody: take `ports` away where the clients are in the same network."
    if kind is None:
        yield "# The plan does not say how the machines are paid for: on demand is assumed."
    elif kind in (PriceKind.RESERVED_1Y, PriceKind.RESERVED_3Y):
        yield f"# The plan's price is {kind}: these start on demand, and your reservation must cover them."


def infra(instances: Instances) -> str:
    """`aws/us-east-1`; `lambda` where the provider's price is of no region."""
    cloud = CLOUDS[instances.provider]
    return cloud if instances.region == ANY_REGION else f"{cloud}/{instances.region}"


def task(plan: Plan, instances: Instances, folders: Sequence[str], kind: PriceKind | None) -> dict[str, Any]:
    """The task of the machines of one type; each node takes the folder of its rank."""
    gpu = ACCELERATORS.get(instances.gpu, instances.gpu)
    return {
        "name": dns_name(plan.scenario),
        "num_nodes": len(folders),
        "resources": {
            "infra": infra(instances),
            "instance_type": cloud_name(instances),
            "accelerators": {gpu: instances.gpu_count},
            "use_spot": kind is PriceKind.SPOT,
            "image_id": f"docker:{IMAGE}",
            "ports": [8000],
        },
        "file_mounts": {f"/models/{folder}": f"./models/{folder}" for folder in folders},
        "run": f"machines=({' '.join(folders)})\n"
        "exec tritonserver --model-repository=/models/${machines[$SKYPILOT_NODE_RANK]} --rate-limit=execution_count\n",
    }
