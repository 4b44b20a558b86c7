"""Targets: what a plan can be exported to, each as the files it becomes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from calibrate.io.files import printable
from planner.catalog.offers import OWN
from planner.exports import kubernetes, openmetrics, perfetto, ray_serve, skypilot, triton
from planner.exports.checking.files import Destination, Route, slo_files
from planner.exports.fleet import ExportError, Machine, deployable, machines
from planner.exports.folder import write_folder
from planner.exports.names import file_names
from planner.model.choices import Target
from planner.model.plan import Plan
from planner.words.candidates import candidate_name
from simulator.errors import InputError

Files = dict[str, str]
MODELS_PATH = "/v2/models/"
START_TRITON = (
    "docker run --rm --gpus all -p 8000:8000 -p 8001:8001 -p 8002:8002 -v $PWD/MACHINE:/models "
    f"{kubernetes.IMAGE} tritonserver --model-repository=/models --rate-limit=execution_count"
)


def export(plan: Plan, target: str, folder: Path, force: bool = False) -> Files:
    """Write a plan's files for a target, and give their texts by path. InputError where there is no such target."""
    if target not in list(Target):
        raise InputError(f"to: must be one of {', '.join(Target)}, got {target}.")
    files = files_of(plan, Target(target))
    write_folder(folder, target, files, force)
    return files


def files_of(plan: Plan, target: Target) -> Files:
    """Files by path; ExportError where the plan cannot be exported to that."""
    if not plan.recommendation.models:
        raise ExportError("serves no model, so there is nothing to export. `planner explain` says why.")
    match target:
        case Target.TRITON:
            return to_triton(plan)
        case Target.SKYPILOT:
            return to_skypilot(plan)
        case Target.KUBERNETES:
            return to_kubernetes(plan)
        case Target.RAY_SERVE:
            return to_ray_serve(plan)
        case Target.OPENMETRICS:
            return {"plan.prom": openmetrics.metrics(plan)}
        case Target.PERFETTO:
            return {"timeline.json": perfetto.trace(plan)}


def to_triton(plan: Plan) -> Files:
    """A model repository for each machine."""
    fleet = machines(deployable(plan, "Triton"))
    folders = file_names(machine.name for machine in fleet)
    steps = [
        "Put each model's file into its folder `1/`, on each machine that has it; `config.pbtxt` says what is missing.",
        "On each machine start Triton with its folder "
        f"({', '.join(folders.values())}) for MACHINE, in a release that runs on its GPUs: `{START_TRITON}`",
        check_step(list(folders.values())),
    ]
    return {
        **repositories(plan, fleet, ""),
        **by_machine(plan, fleet),
        "README.md": readme(plan, "Triton", steps, triton.what_differs(plan, fleet)),
    }


def to_skypilot(plan: Plan) -> Files:
    """Tasks that rent machines and start Triton on them."""
    fleet = machines(deployable(plan, "Triton"))
    found = skypilot.tasks(plan, fleet)
    folders = file_names(machine.name for machine in fleet)
    steps = [
        "Put each model's file into its folder `1/` under `models/`; each `config.pbtxt` says what is missing.",
        *(f"`sky launch -c {name.removesuffix('.sky.yaml')} {name}`" for name in found),
        "`sky status --ip CLUSTER` says the first machine's address, `sky status -v` all.",
        check_step([folders[machine.name] for machine in fleet]),
    ]
    differs = triton.what_differs(plan, fleet)
    if own := [printable(machine.name) for machine in fleet if machine.instances.provider == OWN]:
        differs.append(f"Your own machines are not rented: {', '.join(own)}; start Triton there yourself.")
    return {
        **found,
        **repositories(plan, fleet, "models/"),
        **by_machine(plan, fleet),
        "README.md": readme(plan, "SkyPilot", steps, differs),
    }


def to_kubernetes(plan: Plan) -> Files:
    """Deployments of Triton, and the repositories they mount."""
    fleet = machines(deployable(plan, "Triton"))
    names = kubernetes.model_names(fleet)
    mounted = [group[0] for group in kubernetes.alike(fleet)]
    destinations = {
        model.name: Destination(MODELS_PATH + triton.folders_of(plan)[model.name], [Route(names[model.name], 1.0)])
        for model in plan.recommendation.models
    }
    steps = [
        "Put each model's file into its folder `1/` under `models/`; each `config.pbtxt` says what is missing.",
        f"Copy what is in `models/` to a volume, and claim it as `{kubernetes.CLAIM}` (PersistentVolumeClaim).",
        "`kubectl apply -f kubernetes.yaml`",
        "`python check_slo.py`, inside the cluster. From outside, make the services reachable, then name them: "
        "`--url MODEL=http://ADDRESS:8000`.",
    ]
    differs = triton.what_differs(plan, fleet)
    differs.append("A Service spreads connections evenly over its pods, whatever share the plan gives each.")
    return {
        "kubernetes.yaml": kubernetes.manifest(plan, fleet),
        **repositories(plan, mounted, "models/"),
        **slo_files(plan, {name: f"http://{name}:8000" for name in names.values()}, destinations),
        "README.md": readme(plan, "Kubernetes", steps, differs),
    }


def to_ray_serve(plan: Plan) -> Files:
    """A configuration and the application it names."""
    fleet = machines(deployable(plan, "Ray Serve"))
    names = file_names(model.name for model in plan.recommendation.models)
    destinations = {name: Destination(f"{MODELS_PATH}{safe}", [Route("ray", 1.0)]) for name, safe in names.items()}
    steps = [
        f"Fill in what is `{ray_serve.FILL_IN}` in `serve_config.yaml`.",
        "With `pip install 'ray[serve]' torch` on a cluster that has the plan's GPUs, in this folder: "
        "`serve run serve_config.yaml`",
        "`python check_slo.py`, with `--url http://ADDRESS:8000` where Ray runs elsewhere.",
    ]
    return {
        **ray_serve.serve_files(plan, fleet),
        **slo_files(plan, {"ray": f"http://localhost:{ray_serve.PORT}"}, destinations),
        "README.md": readme(plan, "Ray Serve", steps, ray_serve.what_differs(plan, fleet)),
    }


def repositories(plan: Plan, fleet: Sequence[Machine], under: str) -> Files:
    """A model repository for each machine."""
    folders = file_names(machine.name for machine in fleet)
    return {
        f"{under}{folders[machine.name]}/{path}": text
        for machine in fleet
        for path, text in triton.repository(plan, machine).items()
    }


def by_machine(plan: Plan, fleet: Sequence[Machine]) -> Files:
    """SLOs and script where each machine is an endpoint of its own."""
    folders, names = file_names(machine.name for machine in fleet), triton.folders_of(plan)
    routes: dict[str, list[Route]] = {}
    for machine in fleet:
        for served in machine.served:
            routes.setdefault(served.model.name, []).append(Route(folders[machine.name], served.share))
    known = "http://localhost:8000" if len(fleet) == 1 else ""
    destinations = {name: Destination(MODELS_PATH + names[name], routes[name]) for name in routes}
    return slo_files(plan, dict.fromkeys(folders.values(), known), destinations)


def check_step(endpoints: Sequence[str]) -> str:
    """How the script is started."""
    if len(endpoints) == 1:
        return "`python check_slo.py`, with `--url http://ADDRESS:8000` where Triton runs elsewhere."
    return "`python check_slo.py " + " ".join(f"--url {name}=http://ADDRESS:8000" for name in endpoints) + "`"


def readme(plan: Plan, target: str, steps: Sequence[str], differs: Sequence[str]) -> str:
    """A guide to the folder: the steps, and what is not as in the plan."""
    best = plan.recommendation
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, 1)]
    lines = [
        f"# {printable(plan.scenario)} on {target}",
        "",
        f"Planned: {printable(candidate_name(best.candidate))}, ${best.cost_usd_per_hour:.2f} an hour.",
        "",
        *numbered,
        "",
        "`check_slo.py` sends the planned load for a minute and compares with the plan's SLOs. Exit code 0: all are",
        "met; 4: one is not; 2: it could not be measured.",
        "",
        "What differs from the plan:",
        "",
        *(f"- {sentence}" for sentence in differs or ["nothing that is known."]),
        "",
    ]
    return "\n".join(lines)


def described(files: Mapping[str, str]) -> str:
    """The files in words: the first names, and how many more."""
    first = sorted(files, key=lambda path: (path.count("/"), path))[:8]
    return ", ".join(first) + (f" and {len(files) - len(first)} more" if len(files) > len(first) else "")
