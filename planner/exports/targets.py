"""Targets: what a plan can be exported to, each as the files it becomes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from calibrate.io.files import printable
from planner.catalog.sold import OWN
from planner.exports import kubernetes, openmetrics, perfetto, ray_serve, skypilot, triton
from planner.exports.checking.files import Destination, Route, slo_files
from planner.exports.fleet import ExportError, Machine, deployable, machines, processors
from planner.exports.folder import write_folder
from planner.exports.guide import readme
from planner.exports.names import file_names
from planner.model.choices import Target
from planner.model.plan import Plan
from planner.units.reading import did_you_mean
from simulator.errors import InputError
from simulator.grouping import grouped

Files = dict[str, str]
Fleet = Sequence[Machine]
Made = tuple[Files, Sequence[str], str, Sequence[str]]
"""The files of a deployment, the steps to take with them, how a spare takes over, and what is not as in the plan."""
MODELS_PATH = "/v2/models/"
PUT_MODELS = "Put each model's file into its folder `1/` under `models/`; each `config.pbtxt` says what is missing."
START_TRITON = (
    "docker run --rm {gpus}-p 8000:8000 -p 8001:8001 -p 8002:8002 -v $PWD/MACHINE:/models "
    f"{kubernetes.IMAGE} tritonserver --model-repository=/models --rate-limit=execution_count"
)
START_RAY = "Start Ray on each machine with what it is to serve (FIRST: address of the first machine):"
SHARES_STEP = (
    "Some models have unequal shares on their machines. A mesh that knows the Gateway API (Istio, Linkerd, Cilium) "
    "keeps to them:"
)


def export(plan: Plan, target: str, folder: Path, force: bool = False, name: str = "") -> Files:
    """Write a plan's files for a target, and give their texts by path. InputError where there is no such target.

    `name` is the plan's file, which errors about it begin with.
    """
    if target not in list(Target):
        hint = did_you_mean(target, list(Target))
        raise InputError(f"to: must be one of {', '.join(Target)}, got {target}.{hint}")
    try:
        files = files_of(plan, Target(target))
    except ExportError as error:
        raise ExportError(f"{name}: {error}" if name else str(error)) from error
    write_folder(folder, target, files, force)
    return files


def files_of(plan: Plan, target: Target) -> Files:
    """Files by path; ExportError where the plan cannot be exported to that."""
    if not plan.recommendation.models:
        raise ExportError("serves no model, so there is nothing to export. `planner explain` says why.")
    if target in FILES:
        name, text_of = FILES[target]
        return {name: text_of(plan)}
    if piped := [model.name for model in plan.recommendation.models if model.stages]:
        raise ExportError(f"`{piped[0]}` is a pipeline, and servers are told of models alone. Export to openmetrics.")
    title, server, make = DEPLOYMENTS[target]
    fleet = machines(deployable(plan, server), processors(plan))
    files, steps, when_lost, differs = make(plan, fleet)
    return {**files, "README.md": readme(plan, title, steps, when_lost, differs)}


def to_triton(plan: Plan, fleet: Fleet) -> Made:
    """A model repository for each machine."""
    folders = list(file_names(machine.name for machine in fleet).values())
    steps = [
        "Put each model's file into its folder `1/`, on each machine that has it; `config.pbtxt` says what is missing.",
        f"On each machine start Triton with its folder ({', '.join(folders)}) for MACHINE, in a release that runs "
        f"on it: {start_triton(fleet)}",
        check_step(folders),
    ]
    when_lost = (
        "Keep on it the folders and models of all machines of its type. When one of them is lost, start Triton there "
        "as in step 2, with the lost machine's folder for MACHINE, and send its requests there."
    )
    differs = [*triton.what_differs(plan, fleet), *triton.what_the_sender_does(plan, fleet)]
    return repositories(plan, fleet, "") | checked_by_machine(plan, fleet), steps, when_lost, differs


def start_triton(fleet: Fleet) -> str:
    """The command, and where it is another for want of GPUs."""
    without = [printable(machine.name) for machine in fleet if machine.cores is not None]
    some = len(without) < len(fleet)
    command = f"`{START_TRITON.format(gpus='--gpus all ' if some else '')}`"
    return f"{command}, without `--gpus all` on {', '.join(without)}" if some and without else command


def to_skypilot(plan: Plan, fleet: Fleet) -> Made:
    """Tasks that rent machines and start Triton on them."""
    tasks = skypilot.tasks(plan, fleet)
    steps = [
        PUT_MODELS,
        *(command for _, commands in tasks.values() for command in commands),
        "`sky status --ip serve-MACHINE` says a machine's address.",
        check_step(list(file_names(machine.name for machine in fleet).values())),
    ]
    when_lost = (
        "When a machine of its type is lost, let it serve that one's folder: "
        "`sky exec -d spare-1-TASK TASK.sky.yaml --env MACHINE=LOST`, and send its requests there."
    )
    differs = [*triton.what_differs(plan, fleet), *triton.what_the_sender_does(plan, fleet)]
    if own := [printable(machine.name) for machine in fleet if machine.instances.provider == OWN]:
        differs.append(f"Your own machines are not rented: {', '.join(own)}; start Triton there yourself.")
    files = {f"{name}.sky.yaml": text for name, (text, _) in tasks.items()}
    return files | repositories(plan, fleet, "models/") | checked_by_machine(plan, fleet), steps, when_lost, differs


def to_kubernetes(plan: Plan, fleet: Fleet) -> Made:
    """Deployments of Triton, and the repositories they mount."""
    names, folders = kubernetes.model_names(fleet), triton.folders_of(plan)
    parts = kubernetes.parts_of(fleet)
    routes = {name: [Route(service, 1.0)] for name, service in names.items()}
    routes |= {name: [Route(part.service, part.share) for part in found] for name, found in parts.items()}
    steps = [
        PUT_MODELS,
        f"Copy what is in `models/` to a volume, and claim it as `{kubernetes.CLAIM}` (PersistentVolumeClaim).",
        "`kubectl apply -f kubernetes.yaml`",
        "`python check_slo.py`, inside the cluster. From outside, make the services reachable, then name them: "
        "`--url SERVICE=http://ADDRESS:8000`.",
    ]
    if parts:
        steps.insert(3, f"{SHARES_STEP} `kubectl apply -f shares.yaml`")
    when_lost = (
        "Have nodes for them too. Pods called `spare-...` hold these, and give way to a pod whose node was lost. "
        "Kubernetes moves that five minutes after the node fell silent; `kubectl delete node NODE` does at once."
    )
    differs = [*triton.what_differs(plan, fleet), *kubernetes.what_a_service_does(plan, fleet)]
    manifest = {"kubernetes.yaml": kubernetes.manifest(plan, fleet)}
    manifest |= {"shares.yaml": kubernetes.routes(fleet)} if parts else {}
    mounted = repositories(plan, [alike[0] for alike in kubernetes.alike(fleet)], "models/")
    addresses = {to.endpoint: f"http://{to.endpoint}:8000" for found in routes.values() for to in found}
    return manifest | mounted | checked_by(plan, addresses, folders, routes), steps, when_lost, differs


def to_ray_serve(plan: Plan, fleet: Fleet) -> Made:
    """A configuration and the application it names."""
    names = file_names(model.name for model in plan.recommendation.models)
    routes = {name: [Route("ray", 1.0)] for name in names}
    steps = [
        f"Fill in what is `{ray_serve.FILL_IN}` in `serve_config.yaml`.",
        "On each machine: `pip install 'ray[serve]' torch`, and this folder with your modules at the same path.",
        "\n   - ".join([START_RAY, *ray_serve.starts(plan, fleet)]),
        "In this folder on the first machine: `serve run serve_config.yaml`",
        "`python check_slo.py`, with `--url http://ADDRESS:8000` where Ray runs elsewhere.",
    ]
    checks = checked_by(plan, {"ray": f"http://localhost:{ray_serve.PORT}"}, names, routes)
    when_lost = (
        "Prepare it as in step 2. When a machine of its type is lost, run the lost one's command of step 3 there: Ray "
        "starts its replicas. If the first machine is lost, Ray stops on all: start all anew, with the spare for it."
    )
    return ray_serve.serve_files(plan, fleet) | checks, steps, when_lost, ray_serve.what_differs(plan, fleet)


FILES: Mapping[Target, tuple[str, Callable[[Plan], str]]] = {
    Target.OPENMETRICS: ("plan.prom", openmetrics.metrics),
    Target.PERFETTO: ("timeline.json", perfetto.trace),
}
"""Targets that are one file: its name and its text."""
DEPLOYMENTS: Mapping[Target, tuple[str, str, Callable[[Plan, Fleet], Made]]] = {
    Target.TRITON: ("Triton", "Triton", to_triton),
    Target.SKYPILOT: ("SkyPilot", "Triton", to_skypilot),
    Target.KUBERNETES: ("Kubernetes", "Triton", to_kubernetes),
    Target.RAY_SERVE: ("Ray Serve", "Ray Serve", to_ray_serve),
}
"""Targets that deploy a plan: its name, the server of the models, and what is made of the fleet."""


def repositories(plan: Plan, fleet: Fleet, under: str) -> Files:
    """A model repository for each machine."""
    folders = file_names(machine.name for machine in fleet)
    return {
        f"{under}{folders[machine.name]}/{path}": text
        for machine in fleet
        for path, text in triton.repository(plan, machine).items()
    }


def checked_by_machine(plan: Plan, fleet: Fleet) -> Files:
    """SLOs and script where each machine is an endpoint of its own."""
    folders = file_names(machine.name for machine in fleet)
    routes = grouped(
        (served.model.name, Route(folders[machine.name], served.share))
        for machine in fleet
        for served in machine.served
    )
    known = "http://localhost:8000" if len(fleet) == 1 else ""
    return checked_by(plan, dict.fromkeys(folders.values(), known), triton.folders_of(plan), routes)


def checked_by(
    plan: Plan, addresses: Mapping[str, str], paths: Mapping[str, str], routes: Mapping[str, Sequence[Route]]
) -> Files:
    """SLOs and script: the address of each endpoint, and where the requests of each model go."""
    destinations = {name: Destination(f"{MODELS_PATH}{paths[name]}", to) for name, to in routes.items()}
    return slo_files(plan, addresses, destinations)


def check_step(endpoints: Sequence[str]) -> str:
    """How the script is started."""
    if len(endpoints) == 1:
        return "`python check_slo.py`, with `--url http://ADDRESS:8000` where Triton runs elsewhere."
    return "`python check_slo.py " + " ".join(f"--url {name}=http://ADDRESS:8000" for name in endpoints) + "`"


def described(files: Mapping[str, str]) -> str:
    """The files in words: the first names, and how many more."""
    first = sorted(files, key=lambda path: (path.count("/"), path))[:8]
    return ", ".join(first) + (f" and {len(files) - len(first)} more" if len(files) > len(first) else "")
