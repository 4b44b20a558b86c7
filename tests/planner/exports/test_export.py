"""Exports are read by what they are made for: Triton's protobuf, Kubernetes' schema, Ray Serve's model, OpenMetrics."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from support.answers import INFEASIBLE, MERGED, PLAN
from support.planning import CATALOG
from typer.testing import CliRunner

import planner
from calibrate.library.lookup import find_profiles
from calibrate.zoo import zoo
from planner.cli import app
from planner.exports import triton
from planner.exports.fleet import ExportError, machines
from planner.exports.folder import MARK, write_folder
from planner.exports.names import dns_names, file_names
from planner.exports.ray_serve import FILL_IN, TORCHVISION, made_by, what_differs
from planner.exports.skypilot import CLOUDS
from planner.exports.targets import files_of
from planner.io.demand import sources_of
from planner.io.load import load_scenario
from planner.io.store import write_answer
from planner.model.choices import PriceKind, Target
from planner.model.plan import Instances, Plan, ReplicaAnswer
from planner.model.statement import Code, Statement
from planner.search.plan import plan as search
from simulator.world.deployment import Routing

SCENARIO = """
name: Two doors
models:
  - {name: resnet50, slo: {latency: 100 ms}, max_queue_delay: 5 ms}
  - {name: front.door, profile: vgg16, slo: {latency: 150 ms, attainment: 95 %}}
streams:
  - {model: resnet50, count: 12, rate: 15 fps}
  - {model: resnet50, gamma: {rate: 20 rps, cv: 2}}
  - {model: front.door, poisson: 100 rps}
buy: {providers: [azure], gpus: [V100], retired: true, price: spot}
drop: late
horizon: 6 s
replications: 2
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A real answer; spot prices are not known of that machine, so the price comes from an override."""
    file = tmp_path_factory.mktemp("scenario") / "doors.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    found = search(
        load_scenario(file, ["buy.price=on-demand"]),
        CATALOG,
        find_profiles([], CATALOG.gpus),
        created_at="2026-11-22T00:00:00",
    )
    assert found.recommendation.feasible
    return found


def spread(plan: Plan) -> Plan:
    """The same models on two machines of two GPUs: one model on three of them, the other on one, with odd names."""
    best = plan.recommendation
    first, second = best.models
    devices = [
        replace(best.gpus[0], id=f"box_A/é-{machine}:{device}", host=f"box_A/é-{machine}")
        for machine in (1, 2)
        for device in (0, 1)
    ]
    ids = [device.id for device in devices]
    types = replace(best.instances[0], instance="box_A/é", gpu_count=2, count=2)
    models = (
        replace(
            first,
            name="Door / 1",
            replicas=tuple(
                ReplicaAnswer(gpus=(i,), batch_size=8, share=s) for i, s in zip(ids[:3], (0.5, 0.3, 0.2), strict=True)
            ),
        ),
        replace(second, name="door_1", replicas=(ReplicaAnswer(gpus=(ids[1],), batch_size=1, share=1.0),)),
    )
    return replace(plan, recommendation=replace(best, instances=(types,), gpus=tuple(devices), models=models))


def model_configs(files: Mapping[str, str]) -> dict[str, object]:
    """Every config.pbtxt as Triton's own protobuf reads it."""
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    return {
        path: text_format.Parse(text, ModelConfig()) for path, text in files.items() if path.endswith("config.pbtxt")
    }


def test_triton_reads_what_the_plan_says(plan: Plan) -> None:
    configs = model_configs(files_of(plan, Target.TRITON))
    replicas = Counter()
    for path, config in configs.items():
        (model,) = (m for m in plan.recommendation.models if m.name == config.name)
        assert path.split("/")[-2] == config.name
        assert config.max_batch_size == model.batch_size
        assert list(config.dynamic_batching.preferred_batch_size) == [model.batch_size]
        assert config.dynamic_batching.max_queue_delay_microseconds == round(1e6 * model.max_queue_delay_s)
        policy = config.dynamic_batching.default_queue_policy
        assert policy.default_timeout_microseconds == round(1e6 * model.slo_s)
        assert policy.timeout_action == policy.TimeoutAction.REJECT
        assert not config.input  # what the plan does not know is not made up
        assert not config.backend
        profile = {"resnet50": "resnet50", "front.door": "vgg16"}[config.name]
        assert {key: value.string_value for key, value in config.parameters.items()} == {"profile": profile}
        replicas[config.name] += sum(group.count * len(group.gpus) for group in config.instance_group)
    assert replicas == {model.name: len(model.replicas) for model in plan.recommendation.models}


@pytest.mark.parametrize("asked", ["tensorrt", "[pytorch, tensorrt]"])
def test_triton_is_told_the_runtime_that_was_planned(plan: Plan, asked: str) -> None:
    """As the scenario has it; of several the one that the plan chose."""
    text = plan.scenario_text.replace("{name: resnet50,", f"{{name: resnet50, runtime: {asked},")
    first, second = plan.recommendation.models
    models = (replace(first, runtime="tensorrt"), second)
    chosen = replace(plan, scenario_text=text, recommendation=replace(plan.recommendation, models=models))
    assert triton.parameters_of(chosen) == {
        "resnet50": {"profile": "resnet50", "runtime": "tensorrt"},
        "front.door": {"profile": "vgg16"},
    }


@pytest.mark.parametrize("target", [Target.TRITON, Target.SKYPILOT, Target.KUBERNETES, Target.RAY_SERVE])
def test_the_guide_says_what_the_plans_times_are_of(plan: Plan, target: Target) -> None:
    first, second = plan.recommendation.models
    models = (replace(first, precision="fp16", runtime="tensorrt"), second)
    of_two = replace(plan, recommendation=replace(plan.recommendation, models=models))
    told = f"{first.name} at fp16 in tensorrt; {second.name} at {second.precision} in {second.runtime}"
    assert f"Its times are those of {told}: what runs otherwise takes others." in files_of(of_two, target)["README.md"]


def test_triton_machines_are_apart_and_shared_gpus_take_turns(plan: Plan) -> None:
    configs = model_configs(files_of(spread(plan), Target.TRITON))
    folders = sorted(path.rsplit("/", 2)[0] for path in configs)
    assert len(set(folders)) == 2
    first, second = sorted(set(folders))
    on_first = {config.name: config for path, config in configs.items() if path.startswith(first)}
    (name,) = (config.name for path, config in configs.items() if path.startswith(second))
    assert len(on_first) == 2
    both = on_first[name].instance_group
    assert [list(group.gpus) for group in both] == [[0], [1]]
    turns = [[(r.name, r.count) for r in group.rate_limiter.resources] for group in both]
    assert turns == [[], [(triton.TURN, 1)]]  # the first GPU serves nothing else
    (other,) = (config for key, config in on_first.items() if key != name)
    assert [(list(g.gpus), g.rate_limiter.resources[0].name) for g in other.instance_group] == [([1], triton.TURN)]
    assert not other.dynamic_batching.preferred_batch_size
    assert other.max_batch_size == 1


@given(st.text(max_size=20), st.integers(0, 2**31 - 1))
def test_text_of_messages_comes_back(name: str, count: int) -> None:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    groups = [{"count": count, "kind": triton.Word("KIND_GPU"), "gpus": [0, 3]}] * 2
    text = "\n".join(triton.write({"name": name, "dynamic_batching": {}, "instance_group": groups}))
    read = text_format.Parse(text, ModelConfig())
    assert (read.name, read.HasField("dynamic_batching")) == (name, True)
    assert [(g.count, list(g.gpus)) for g in read.instance_group] == [(count, [0, 3])] * 2


@pytest.mark.parametrize("changed", [lambda plan: plan, spread], ids=["as planned", "odd names"])
def test_kubernetes_accepts_every_object(plan: Plan, changed) -> None:
    plan = changed(plan)
    files = files_of(plan, Target.KUBERNETES)
    objects = list(yaml.safe_load_all(files["kubernetes.yaml"]))
    for made in objects:
        kubernetes_validate.validate(made, kubernetes_validate.latest_version(), strict=True)
        assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", made["metadata"]["name"])
    pods = [made["spec"] for made in objects if made["kind"] == "Deployment"]
    limits = [pod["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in pods]
    assert sum(limit * pod["replicas"] for limit, pod in zip(limits, pods, strict=True)) == sum(
        machine.instances.gpu_count for machine in machines(plan.recommendation)
    )
    for pod in pods:
        labels = pod["template"]["metadata"]["labels"]
        assert pod["selector"]["matchLabels"].items() <= labels.items()
        folder = pod["template"]["spec"]["containers"][0]["volumeMounts"][0]["subPath"]
        served = [path for path in files if path.startswith(f"models/{folder}/") and path.endswith("config.pbtxt")]
        assert len(served) == sum(label.startswith("serves/") for label in labels)
    services = [made for made in objects if made["kind"] == "Service"]
    models = len(plan.recommendation.models)
    parts = sum(len(made["spec"]["rules"][0]["backendRefs"]) for made in routes_in(files))
    assert len(services) == len({made["metadata"]["name"] for made in services}) == models + parts
    for service in services:
        picked = service["spec"]["selector"].items()
        assert any(picked <= pod["template"]["metadata"]["labels"].items() for pod in pods)


def routes_in(files: Mapping[str, str]) -> list[dict]:
    """What shares.yaml says to a mesh."""
    return list(yaml.safe_load_all(files.get("shares.yaml", "")))


def test_kubernetes_can_keep_to_unequal_shares(plan: Plan) -> None:
    files = files_of(spread(plan), Target.KUBERNETES)
    (route,) = routes_in(files)  # the other model is on one machine alone
    parts = route["spec"]["rules"][0]["backendRefs"]
    assert [part["weight"] / 1e5 for part in parts] == pytest.approx([0.8, 0.2])
    objects = list(yaml.safe_load_all(files["kubernetes.yaml"]))
    picked = {o["metadata"]["name"]: o["spec"]["selector"] for o in objects if o["kind"] == "Service"}
    folders = {
        o["metadata"]["name"]: o["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["subPath"]
        for o in objects
        if o["kind"] == "Deployment"
    }
    assert picked[route["spec"]["parentRefs"][0]["name"]] == {f"serves/{route['metadata']['name']}": "yes"}
    reached = [folders[picked[part["name"]]["app.kubernetes.io/name"]] for part in parts]
    assert reached == list(file_names(machine.name for machine in machines(spread(plan).recommendation)).values())
    sent = json.loads(files["slo.json"])["models"][0]["routes"]
    assert [(to["endpoint"], to["share"]) for to in sent] == [
        (part["name"], pytest.approx(part["weight"] / 1e5)) for part in parts
    ]
    assert not routes_in(files_of(plan, Target.KUBERNETES))


@pytest.mark.parametrize("target", [Target.TRITON, Target.SKYPILOT, Target.KUBERNETES, Target.RAY_SERVE])
def test_the_guide_says_which_shares_must_be_kept(plan: Plan, target: Target) -> None:
    guide = files_of(spread(plan), target)["README.md"]
    assert "Door / 1: the plan sends 80 % to " in guide
    assert "door_1: the plan sends" not in guide
    assert "the plan sends" not in files_of(plan, target)["README.md"]


def with_spares(plan: Plan) -> Plan:
    """The plan on two types of machine, one of which has a spare; one machine may be away."""
    best = plan.recommendation
    (one,) = best.instances
    gpus = (*best.gpus, *(replace(gpu, id=f"x{gpu.id}", host=f"x{gpu.host}", machines=1) for gpu in best.gpus))
    models = tuple(replace(m, replicas=(*m.replicas, *map(beside, m.replicas))) for m in best.models)
    instances = (replace(one, spares=1), replace(one, instance="NC12s_v3", usd_per_hour=6.12))
    both = replace(best, instances=instances, gpus=gpus, models=models, cost_usd_per_hour=12.24)
    return replace(plan, recommendation=both, policies=replace(plan.policies, survive=1))


@pytest.mark.parametrize("target", [Target.TRITON, Target.SKYPILOT, Target.KUBERNETES, Target.RAY_SERVE])
def test_the_guide_says_what_spares_are_for(plan: Plan, target: Target) -> None:
    guide = files_of(with_spares(plan), target)["README.md"]
    assert ", and 1 spare NC6s_v3, $12.24 an hour, of which $3.06 for what is spare." in guide
    assert "- No spare is like what is lost where that is 1 x NC12s_v3:" in guide
    assert "spare" not in files_of(plan, target)["README.md"]


def test_kubernetes_holds_spare_machines_for_pods_whose_node_is_lost(plan: Plan) -> None:
    objects = list(yaml.safe_load_all(files_of(with_spares(plan), Target.KUBERNETES)["kubernetes.yaml"]))
    for made in objects:
        kubernetes_validate.validate(made, kubernetes_validate.latest_version(), strict=True)
    (priority,) = (made for made in objects if made["kind"] == "PriorityClass")
    assert priority["value"] < 0  # of pods that name none it is 0
    pods = {made["metadata"]["name"]: made["spec"] for made in objects if made["kind"] == "Deployment"}
    (spare,) = (pod for name, pod in pods.items() if name.startswith("spare-"))
    (served,) = (pod for name, pod in pods.items() if name == "nc6s-v3-1")
    asleep, awake = spare["template"]["spec"], served["template"]["spec"]
    assert (spare["replicas"], asleep["priorityClassName"]) == (1, priority["metadata"]["name"])
    assert asleep["nodeSelector"] == awake["nodeSelector"]
    assert asleep["containers"][0]["resources"] == awake["containers"][0]["resources"]


def test_skypilot_rents_spares_that_can_serve_what_any_machine_of_their_type_does(plan: Plan) -> None:
    files = files_of(with_spares(plan), Target.SKYPILOT)
    (rented,) = (line for line in files["README.md"].splitlines() if line.endswith("which is a spare"))
    task = "azure-eastus-nc6s-v3.sky.yaml"
    assert f"`sky launch -y -c spare-1-azure-eastus-nc6s-v3 {task}`" in rented
    assert yaml.safe_load(files[task])["file_mounts"].keys() == {"/models/NC6s_v3-1"}


def test_metrics_count_spares(plan: Plan) -> None:
    text = files_of(with_spares(plan), Target.OPENMETRICS)["plan.prom"]
    families = {family.name: family for family in text_string_to_metric_families(text)}
    counted = {s.labels["instance"]: s.value for s in families["planner_spare_machines"].samples}
    assert counted == {"NC6s_v3": 1, "NC12s_v3": 0}


def on_processors(plan: Plan, kind: str = "CPU-Ice-Lake-4c") -> Plan:
    """The plan on machines without GPUs, each with two processes."""
    best = plan.recommendation
    (one,) = best.instances
    gpus = tuple(replace(gpu, kind=kind) for gpu in best.gpus)
    cores = CATALOG.gpus[kind].cores if kind in CATALOG.gpus else None
    said = [Statement(code=Code.PROCESSOR, subjects=(kind,), figures={"cores": cores})] if cores else []
    answer = replace(best, instances=(replace(one, gpu=kind, gpu_count=2),), gpus=gpus)
    return replace(plan, recommendation=answer, assumptions=(*plan.assumptions, *said))


@pytest.mark.parametrize(("kind", "cores"), [("CPU-Ice-Lake-4c", 4), ("cpu-intel-xeon-2.50ghz", 0)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own
def test_processors_are_no_gpus(plan: Plan, kind: str, cores: int) -> None:
    from ray.serve.schema import ServeDeploySchema

    without = on_processors(plan, kind)
    triton_files = files_of(without, Target.TRITON)
    for config in model_configs(triton_files).values():
        assert [(group.KIND_CPU, list(group.gpus)) == (group.kind, []) for group in config.instance_group] == [True]
        threads = {key: value.string_value for key, value in config.parameters.items() if "thread" in key.lower()}
        assert set(threads.values()) == ({str(cores)} if cores else set())
    assert "--gpus" not in triton_files["README.md"]
    (task,) = (t for name, t in files_of(without, Target.SKYPILOT).items() if name.endswith(".sky.yaml"))
    assert yaml.safe_load(task)["resources"].keys().isdisjoint({"accelerators"})
    for made in yaml.safe_load_all(files_of(without, Target.KUBERNETES)["kubernetes.yaml"]):
        kubernetes_validate.validate(made, kubernetes_validate.latest_version(), strict=True)
        assert "nvidia.com/gpu" not in json.dumps(made)
        if made["kind"] == "Deployment":
            container = made["spec"]["template"]["spec"]["containers"][0]
            asked = {"requests": {"cpu": f"{750 * 2 * cores}m"}} if cores else None
            assert container.get("resources") == asked
    config = yaml.safe_load(files_of(without, Target.RAY_SERVE)["serve_config.yaml"])
    ServeDeploySchema.model_validate(config)
    for application in config["applications"]:
        options = application["deployments"][0]["ray_actor_options"]
        assert options["num_gpus"] == 0
        assert options["num_cpus"] == pytest.approx(cores / machines(without.recommendation)[0].crowd)
        assert options["runtime_env"]["env_vars"]["OMP_NUM_THREADS"] == (str(cores) if cores else FILL_IN)


def test_of_a_mixed_fleet_only_some_have_gpus(plan: Plan) -> None:
    two = with_spares(plan).recommendation
    kind = "CPU-Ice-Lake-4c"
    gpus = tuple(replace(gpu, kind=kind) if gpu.machines else gpu for gpu in two.gpus)
    mixed = replace(two, instances=(two.instances[0], replace(two.instances[1], gpu=kind)), gpus=gpus)
    said = Statement(code=Code.PROCESSOR, subjects=(kind,), figures={"cores": 4})
    answer = replace(plan, recommendation=mixed, assumptions=(said,))
    kinds = {
        path.split("/")[0]: config.instance_group[0].kind
        for path, config in model_configs(files_of(answer, Target.TRITON)).items()
    }
    assert len(kinds) == len(set(kinds.values())) == 2
    assert f"`, without `--gpus all` on x{two.gpus[0].host}" in files_of(answer, Target.TRITON)["README.md"]
    tasks = [yaml.safe_load(t) for name, t in files_of(answer, Target.SKYPILOT).items() if name.endswith(".sky.yaml")]
    assert sorted("accelerators" in task["resources"] for task in tasks) == [False, True]
    with pytest.raises(ExportError, match="runs on GPUs and on processors"):
        files_of(answer, Target.RAY_SERVE)


def test_kubernetes_puts_equal_machines_together(plan: Plan) -> None:
    best = plan.recommendation
    devices = tuple(replace(best.gpus[0], id=f"NC6s_v3-{n}:0", host=f"NC6s_v3-{n}") for n in (1, 2, 3))
    everywhere = tuple(ReplicaAnswer(gpus=(device.id,), batch_size=4, share=1 / 3) for device in devices)
    same = replace(
        best,
        instances=(replace(best.instances[0], count=3),),
        gpus=devices,
        models=tuple(replace(model, replicas=everywhere) for model in best.models),
    )
    files = files_of(replace(plan, recommendation=same), Target.KUBERNETES)
    deployments = [d for d in yaml.safe_load_all(files["kubernetes.yaml"]) if d["kind"] == "Deployment"]
    assert [d["spec"]["replicas"] for d in deployments] == [3]
    assert len({path.split("/")[1] for path in files if path.startswith("models/")}) == 1


def test_kubernetes_asks_for_no_region_where_the_price_is_of_none(plan: Plan) -> None:
    (pod, *_) = yaml.safe_load_all(
        files_of(rented_from(plan, "coreweave", "any"), Target.KUBERNETES)["kubernetes.yaml"]
    )
    assert pod["spec"]["template"]["spec"]["nodeSelector"].keys() == {"node.kubernetes.io/instance-type"}


def test_own_machines_are_found_by_a_label_and_not_rented(plan: Plan) -> None:
    own = Instances(
        provider="own",
        region="",
        instance="NC6s_v3",
        gpu="V100",
        gpu_count=1,
        count=1,
        usd_per_hour=0.3,
        price_as_of="",
    )
    mine = replace(plan, recommendation=replace(plan.recommendation, instances=(own,)))
    (pod, *_) = yaml.safe_load_all(files_of(mine, Target.KUBERNETES)["kubernetes.yaml"])
    assert pod["spec"]["template"]["spec"]["nodeSelector"] == {"planner/instance": "nc6s-v3"}
    with pytest.raises(ExportError, match="nothing to rent"):
        files_of(mine, Target.SKYPILOT)


def test_skypilot_rents_what_was_planned(plan: Plan) -> None:
    files = files_of(plan, Target.SKYPILOT)
    ((name, text),) = ((name, text) for name, text in files.items() if name.endswith(".sky.yaml"))
    task = yaml.safe_load(text)
    (planned,) = plan.recommendation.instances
    assert task["num_nodes"] == 1  # where one of several fails, SkyPilot ends the task on all
    assert task["resources"]["infra"] == f"azure/{planned.region}"
    assert task["resources"]["instance_type"] == f"Standard_{planned.instance}"
    assert task["resources"]["accelerators"] == {"V100": 1}
    assert task["resources"]["use_spot"] is False
    assert all(f"{mounted[2:]}/" in "\n".join(files) for mounted in task["file_mounts"].values())
    (launched,) = (line for line in files["README.md"].splitlines() if "sky launch" in line)
    folders = [mounted.removeprefix("/models/") for mounted in task["file_mounts"]]
    assert len(folders) == planned.count
    assert f"for m in {' '.join(folders)}; do sky launch -y -d -c serve-$m {name} --env MACHINE=$m; done" in launched
    assert task["envs"] == {"MACHINE": ""}
    spot = paid(plan, PriceKind.SPOT)  # as `planner reprice --price spot` leaves it
    assert yaml.safe_load(files_of(spot, Target.SKYPILOT)[name])["resources"]["use_spot"] is True
    before = replace(paid(plan, None), scenario_overrides=())
    assert yaml.safe_load(files_of(before, Target.SKYPILOT)[name])["resources"]["use_spot"] is True
    older = replace(before, scenario_text="")
    assert "on demand is assumed" in files_of(older, Target.SKYPILOT)[name]


def rented_from(plan: Plan, provider: str, region: str) -> Plan:
    """The plan with the same machines of another provider."""
    best = plan.recommendation
    (machines,) = best.instances
    return replace(plan, recommendation=replace(best, instances=(replace(machines, provider=provider, region=region),)))


def test_skypilot_is_not_sent_to_clouds_that_it_does_not_have(plan: Plan) -> None:
    with pytest.raises(
        ExportError, match=r"^SkyPilot has no cloud openrelay\. .*`buy.providers: \[aws, .*kubernetes\.$"
    ):
        files_of(rented_from(plan, "openrelay", "any"), Target.SKYPILOT)
    for provider, region, infra in (
        ("digitalocean", "nyc2", "do/nyc2"),
        ("lambda", "any", "lambda"),
        ("runpod", "CA", "runpod/CA"),
    ):
        files = files_of(rented_from(plan, provider, region), Target.SKYPILOT)
        (text,) = (text for name, text in files.items() if name.endswith(".sky.yaml"))
        assert yaml.safe_load(text)["resources"]["infra"] == infra
    assert {instance.provider for instance in CATALOG.instances} >= CLOUDS.keys()


def paid(plan: Plan, kind: PriceKind | None) -> Plan:
    """The plan with machines paid for in another way; None: as plans of before the field say it."""
    best = plan.recommendation
    instances = tuple(replace(one, price_kind=kind) for one in best.instances)
    return replace(plan, recommendation=replace(best, instances=instances))


def test_machines_of_two_places_that_share_a_name_know_their_own(plan: Plan) -> None:
    best = plan.recommendation
    (one,) = best.instances
    gpus = (*best.gpus, *(replace(gpu, id=f"x{gpu.id}", host=f"x{gpu.host}", machines=1) for gpu in best.gpus))
    both = replace(best, instances=(one, replace(one, region="westus")), gpus=gpus)
    models = tuple(replace(m, replicas=(*m.replicas, *map(beside, m.replicas))) for m in best.models)
    regions = {machine.name: machine.instances.region for machine in machines(replace(both, models=models))}
    assert set(regions.values()) == {one.region, "westus"}
    assert all((region == "westus") == name.startswith("x") for name, region in regions.items())


def beside(replica: ReplicaAnswer) -> ReplicaAnswer:
    """The same on the machine beside."""
    return replace(replica, gpus=tuple(f"x{gpu}" for gpu in replica.gpus))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own
def test_ray_serve_accepts_the_configuration(plan: Plan) -> None:
    from ray.serve.schema import ServeDeploySchema

    files = files_of(plan, Target.RAY_SERVE)
    config = ServeDeploySchema.model_validate(yaml.safe_load(files["serve_config.yaml"]))
    by_name = {application.name: application for application in config.applications}
    held = 0.0
    for model in plan.recommendation.models:
        application = by_name[model.name]
        (deployment,) = application.deployments
        assert deployment.num_replicas == len(model.replicas)
        assert deployment.user_config["max_batch_size"] == model.batch_size
        assert deployment.user_config["batch_wait_timeout_s"] == model.max_queue_delay_s
        assert deployment.max_ongoing_requests >= model.batch_size
        held += deployment.num_replicas * deployment.ray_actor_options.num_gpus
        module, function = application.import_path.split(":")
        assert f"def {function}(" in files[f"{module}.py"]
    assert held <= plan.recommendation.gpu_count
    pulled = [json.loads(one) for one in re.findall(r"--resources='(.*?)'", files["README.md"])]
    given = Counter({name: count for one in pulled for name, count in one.items()})
    asked = {
        name: count * application["deployments"][0]["num_replicas"]
        for application in yaml.safe_load(files["serve_config.yaml"])["applications"]
        for name, count in application["deployments"][0]["ray_actor_options"]["resources"].items()
    }
    assert given == asked
    assert by_name["resnet50"].args["factory"] == "torchvision.models:resnet50"
    assert by_name["front.door"].args["factory"] == "torchvision.models:vgg16"  # its profile's
    odd = yaml.safe_load(files_of(spread(plan), Target.RAY_SERVE)["serve_config.yaml"])["applications"]
    assert [a["args"]["factory"] for a in odd] == [FILL_IN, FILL_IN]
    assert len({a["route_prefix"] for a in odd}) == 2


def test_ray_serve_can_start_all_replicas_wherever_it_begins(plan: Plan) -> None:
    """Whichever GPU of a machine Ray takes for each: a whole one for the model that is alone would leave none."""
    best = spread(plan).recommendation
    alone, twice = best.gpus[0].id, best.gpus[1].id
    first, second = best.models
    models = (
        replace(first, replicas=(ReplicaAnswer(gpus=(alone,), batch_size=8, share=1.0),)),
        replace(second, replicas=(ReplicaAnswer(gpus=(twice,), batch_size=1, share=0.5),) * 2),
    )
    one = replace(plan, recommendation=replace(best, models=models))
    files = files_of(one, Target.RAY_SERVE)
    assert "models may share one that the plan keeps apart" in files["README.md"]
    for application in yaml.safe_load(files["serve_config.yaml"])["applications"]:
        options = application["deployments"][0]["ray_actor_options"]
        assert options["num_gpus"] == 0.5
        assert options["num_cpus"] == 0  # one each, if nothing is said: more than a small machine has


def test_ray_serve_says_what_it_does_instead_of_shares_and_precisions(plan: Plan) -> None:
    guide = files_of(spread(plan), Target.RAY_SERVE)["README.md"]
    assert "Plan again with `--set routing=least-outstanding`" in guide
    best = spread(plan).recommendation
    replayed = replace(plan.policies, routing=Routing.LEAST_OUTSTANDING)
    half = replace(best, models=tuple(replace(model, precision="fp16") for model in best.models))
    other = files_of(replace(plan, recommendation=half, policies=replayed), Target.RAY_SERVE)["README.md"]
    assert "Plan again with" not in other
    assert "where the plan has Door / 1 at fp16 in pytorch, door_1 at fp16 in pytorch: change it." in other


def test_ray_serve_says_where_replicas_get_larger_batches(plan: Plan) -> None:
    first = machines(plan.recommendation)[0]
    smaller = replace(first, served=tuple(replace(served, batch_size=1) for served in first.served))
    (served, *_) = (one for one in first.served if one.batch_size > 1)
    said = f"All replicas of {served.model.name} take batches of up to {served.batch_size}; the plan has 1 and "
    assert any(sentence.startswith(said) for sentence in what_differs(plan, [first, smaller]))
    assert not any(sentence.startswith("All replicas") for sentence in what_differs(plan, [first, first]))


def test_a_model_of_torchvision_is_made_whatever_one_calls_it() -> None:
    by_name = {name: made_by(name, None)[0] for name in ("ResNet-50", "ViT-B/16", "hf:microsoft/resnet-50")}
    assert list(by_name.values()) == ["torchvision.models:resnet50", "torchvision.models:vit_b_16", FILL_IN]


def test_models_of_torchvision_are_those_of_the_zoo() -> None:
    assert {name: zoo.MODELS[name].shape for name in TORCHVISION} == {
        name: (3, pixels, pixels) for name, (_, pixels) in TORCHVISION.items()
    }


def test_openmetrics_are_the_figures_of_the_plan(plan: Plan) -> None:
    text = files_of(spread(plan), Target.OPENMETRICS)["plan.prom"]
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert all(family.type == "gauge" and family.documentation for family in families.values())
    assert text.endswith("# EOF\n")
    bound = families["planner_cost_lower_bound_per_hour_usd"].documentation
    assert bound == "Price that no fleet can beat, with uncertain speeds at their slow end."
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    best = spread(plan).recommendation
    assert found[("planner_cost_per_hour_usd",)] == pytest.approx(best.cost_usd_per_hour)
    for model in best.models:
        key = ("planner_model_latency_seconds", ("model", model.name), ("quantile", "0.99"))
        assert found[key] == pytest.approx(model.p99_s, rel=1e-8)
        drawn_s = found.get(("planner_model_latency_p99_in_draws_seconds", ("model", model.name)), model.p99_s)
        assert drawn_s == pytest.approx(model.p99_shown_s, rel=1e-8)
        key = ("planner_model_slo_attainment_ratio", ("estimate", "low"), ("model", model.name))
        assert found[key] == pytest.approx(model.slo_attainment.low, rel=1e-8)
    assert families["planner_model_latency_seconds"].unit == "seconds"


def test_timeline_is_whole_and_nothing_overlaps_on_a_thread(plan: Plan) -> None:
    events = json.loads(files_of(plan, Target.PERFETTO)["timeline.json"])["traceEvents"]
    timeline = plan.timeline
    assert timeline is not None
    threads, names = defaultdict(list), {}
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "M" and event["name"] == "process_name":
            names[event["pid"]] = event["args"]["name"]
    for spans in threads.values():
        spans.sort()
        assert all(end <= start + 1e-3 for (_, end), (start, _) in pairwise(spans))
    assert [f"{gpu} (V100)" for gpu in timeline.gpus] == list(names.values())[: len(timeline.gpus)]
    assert sum(event["ph"] == "X" and event["tid"] == 1 for event in events) == len(timeline.batches.gpu)
    assert min(event["ts"] for event in events if "ts" in event) >= 0
    counters = [event for event in events if event["ph"] == "C"]
    assert len(counters) == len(timeline.memory.gpu) + len(timeline.queue.model)


def test_requests_begin_and_end_in_lanes_where_none_overlap(plan: Plan) -> None:
    events = json.loads(files_of(plan, Target.PERFETTO)["timeline.json"])["traceEvents"]
    lanes = defaultdict(list)
    for event in (event for event in events if event["ph"] in "be"):
        lanes[event["id"]].append(event)
    begun = 0
    for found in lanes.values():
        open_: list[str] = []
        for event in sorted(found, key=lambda event: event["ts"]):  # stable: as the reader sorts
            if event["ph"] == "b":
                assert len(open_) < 2
                open_.append(event["name"])
                begun += len(open_) == 1
            else:
                assert open_.pop() == event["name"]
        assert not open_
    assert begun == len(plan.timeline.requests.gpu)


NAMES = st.lists(st.text(max_size=80), min_size=1, max_size=8, unique=True)


@given(NAMES)
def test_names_are_valid_and_stay_apart(names: list[str]) -> None:
    for made, pattern in (
        (dns_names(names), r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"),
        (file_names(names), r"[A-Za-z0-9][\w.-]*"),
    ):
        assert list(made) == names
        assert all(re.fullmatch(pattern, name, re.ASCII) for name in made.values())
        assert len({name.lower() for name in made.values()}) == len(names)


def test_demand_is_the_scenarios_and_adds_up(plan: Plan) -> None:
    slos = json.loads(files_of(plan, Target.RAY_SERVE)["slo.json"])
    by_name = {model["name"]: model for model in slos["models"]}
    assert [source["kind"] for source in by_name["resnet50"]["sources"]] == ["fixed", "gamma"]
    for model in slos["models"]:
        offered = sum(source["count"] * source["rate_rps"] for source in model["sources"])
        assert offered == pytest.approx(model["offered_rps"], rel=0.05)  # which was counted in short replays
        assert not model["stands_in"]
    (model, _) = plan.recommendation.models
    (source,) = sources_of(None, model)  # a plan of an older version
    assert (source["kind"], source["rate_rps"]) == ("poisson", model.offered_rps)


def test_load_goes_to_machines_by_their_shares(plan: Plan) -> None:
    slos = json.loads(files_of(spread(plan), Target.TRITON)["slo.json"])
    shares = [[route["share"] for route in model["routes"]] for model in slos["models"]]
    assert shares == [pytest.approx([0.8, 0.2]), [1.0]]
    assert set(slos["endpoints"].values()) == {""}


REFUSED = {
    "infeasible": (
        lambda plan: replace(plan, recommendation=replace(plan.recommendation, feasible=False)),
        "infeasible",
    ),
    "nothing": (
        lambda plan: replace(plan, recommendation=replace(plan.recommendation, models=())),
        "serves no model, so there is nothing to export",
    ),
    "no GPUs": (
        lambda plan: replace(plan, recommendation=replace(plan.recommendation, gpus=())),
        "resnet50 is on no GPU",
    ),
    "swapped": (
        lambda plan: replace(
            plan,
            recommendation=replace(
                plan.recommendation, models=tuple(replace(m, mode="swapped") for m in plan.recommendation.models)
            ),
        ),
        "memory=resident",
    ),
    "stages": (
        lambda plan: replace(
            plan,
            recommendation=replace(
                plan.recommendation,
                models=tuple(
                    replace(m, replicas=(ReplicaAnswer(gpus=("a:0", "a:1"), batch_size=1, share=1.0),))
                    for m in plan.recommendation.models
                ),
            ),
        ),
        "stages",
    ),
    "merged": (lambda plan: replace(plan, merging=(MERGED,)), "merging=none"),
    "slices": (
        lambda plan: replace(
            plan,
            recommendation=replace(
                plan.recommendation,
                instances=tuple(
                    replace(one, gpu="A100-80GB-MIG-1g.10gb", gpu_count=7) for one in plan.recommendation.instances
                ),
            ),
        ),
        "7 slices of a GPU .*, of which a process sees one",
    ),
}


@pytest.mark.parametrize("target", [Target.TRITON, Target.SKYPILOT, Target.KUBERNETES, Target.RAY_SERVE])
@pytest.mark.parametrize("why", REFUSED)
def test_what_no_server_can_do_is_refused(plan: Plan, why: str, target: Target) -> None:
    changed, said = REFUSED[why]
    with pytest.raises(ExportError, match=said):
        files_of(changed(plan), target)


@pytest.mark.parametrize("target", Target)
def test_a_plan_without_models_is_exported_to_nothing(plan: Plan, target: Target) -> None:
    with pytest.raises(ExportError, match="serves no model, so there is nothing to export"):
        files_of(REFUSED["nothing"][0](plan), target)


def test_folder_keeps_what_is_not_ours(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out, "triton", {"a.txt": "1", "deep/b.txt": "2"})
    (out / "deep" / "model.onnx").write_text("mine")
    write_folder(out, "triton", {"a.txt": "new"})
    assert (out / "a.txt").read_text() == "new"
    assert not (out / "deep" / "b.txt").exists()
    assert (out / "deep" / "model.onnx").read_text() == "mine"
    (out / "a.txt").write_text("edited")
    with pytest.raises(ExportError, match=r"a\.txt: was changed since"):
        write_folder(out, "triton", {"a.txt": "newer"})
    assert (out / "a.txt").read_text() == "edited"
    write_folder(out, "triton", {"a.txt": "newer"}, force=True)
    assert (out / "a.txt").read_text() == "newer"
    with pytest.raises(ExportError, match="holds an export to `triton`"):
        write_folder(out, "kubernetes", {"a.txt": "x"}, force=True)


def test_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ExportError, match="is not empty, and holds no export"):
        write_folder(tmp_path, "triton", {"notes.txt": "x"}, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt"]
    with pytest.raises(ExportError, match="is no folder"):
        write_folder(tmp_path / "notes.txt", "triton", {})


def test_export_that_was_broken_off_can_be_made_again(tmp_path: Path) -> None:
    files = {"a.txt": "1", "b.txt": "2"}
    write_folder(tmp_path, "triton", files)
    (tmp_path / "b.txt").unlink()
    mark = json.loads((tmp_path / MARK).read_text())
    (tmp_path / MARK).write_text(json.dumps({**mark, "files": {}}))
    write_folder(tmp_path, "triton", files)
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "b.txt", MARK}


@pytest.mark.parametrize("target", Target)
def test_command_writes_and_says_so(plan: Plan, target: Target, tmp_path: Path) -> None:
    write_answer(plan, tmp_path / "plan.json")
    asked = ["export", str(tmp_path / "plan.json"), "--to", target, "-o", str(tmp_path / "out")]
    first, again = CliRunner().invoke(app, asked), CliRunner().invoke(app, asked)
    assert (first.exit_code, again.exit_code) == (0, 0), (first.output, again.output)
    assert first.output.startswith(f"Wrote to {tmp_path / 'out'}: ")
    assert (tmp_path / "out" / MARK).exists()


def test_command_refuses_in_one_line(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    from planner.cli import main

    write_answer(REFUSED["infeasible"][0](plan), tmp_path / "no.json")
    (tmp_path / "list.json").write_text("[1]")
    for file, said in (("no.json", "infeasible"), ("list.json", "is not a plan"), ("none.json", "no such file")):
        monkeypatch.setattr(
            "sys.argv", ["planner", "export", str(tmp_path / file), "--to", "triton", "-o", str(tmp_path / "o")]
        )
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        error = capsys.readouterr().err
        assert said in error
        assert file in error
        assert error.count("\n") == 1
    assert not (tmp_path / "o").exists()
    wrong = CliRunner().invoke(app, ["export", "p.json", "--to", "helm", "-o", "x"])
    assert wrong.exit_code == 2
    assert "kubernetes" in wrong.output


def test_a_plan_is_exported_by_its_file_which_errors_about_it_name(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    write_answer(PLAN, good)
    write_answer(INFEASIBLE, bad)
    assert planner.export(good, "openmetrics", tmp_path / "a") == planner.export(PLAN, "openmetrics", tmp_path / "b")
    with pytest.raises(ExportError) as error:
        planner.export(bad, "triton", tmp_path / "c")
    assert str(error.value).startswith(f"{bad}: the plan is infeasible")
    with pytest.raises(ExportError) as error:
        planner.export(INFEASIBLE, "triton", tmp_path / "c")
    assert str(error.value).startswith("the plan is infeasible")
    assert not (tmp_path / "c").exists()
