"""Triton: a model repository for each machine, with how each model is batched and on which GPUs it runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrate.io.files import printable
from planner.exports.fleet import Machine, ServedModel
from planner.exports.guide import by_machine, shares_sentence, unequal
from planner.exports.names import file_names
from planner.io.demand import scenario_of
from planner.model.plan import Plan, Policies
from planner.units.writing import percent, seconds
from simulator.world.deployment import Drop, Routing

PUT_HERE = "put-the-model-here.txt"
TURN = "turn"
"""Resource that a batch holds while it runs, one for each GPU: a GPU that several models use runs one batch at a
time, as in the plan. Without it Triton would run batches of different models beside each other."""
THREADS = ("intra_op_thread_count", "INTRA_OP_THREAD_COUNT")
"""Parameters by which ONNX Runtime and PyTorch are told their threads on a processor; others leave them aside."""
TO_FILL_IN = """\
# To fill in: the plan knows neither the model's file nor its tensors. Put the file into 1/.
# model.onnx, model.plan, an OpenVINO model: Triton completes backend, input and output from it (auto-complete).
# model.pt, and whatever else does not describe itself: say them here, for example
#   backend: "pytorch"
#   input [ { name: "INPUT__0", data_type: TYPE_FP32, dims: [ 3, 224, 224 ] } ]
#   output [ { name: "OUTPUT__0", data_type: TYPE_FP32, dims: [ 1000 ] } ]
# The first dimension of every tensor must be the batch, of any size; dims leave it out.
"""


@dataclass(frozen=True, slots=True)
class Word:
    """A value of an enumeration, which stands without quotes."""

    name: str


def folders_of(plan: Plan) -> dict[str, str]:
    """Each model's folder, which is its name for Triton: the same on every machine."""
    return file_names(model.name for model in plan.recommendation.models)


def repository(plan: Plan, machine: Machine) -> dict[str, str]:
    """Files of one machine's model repository, by path."""
    folders, parameters = folders_of(plan), parameters_of(plan)
    files = {}
    for served in machine.served:
        folder = folders[served.model.name]
        files[f"{folder}/config.pbtxt"] = config(plan, machine, served, folder, parameters.get(served.model.name, {}))
        files[f"{folder}/1/{PUT_HERE}"] = f"Put {printable(served.model.name)} here, as config.pbtxt says.\n"
    return files


def parameters_of(plan: Plan) -> dict[str, dict[str, str]]:
    """By model: which profile it was planned with, as far as a plan still knows its scenario. Backends do not know
    these parameters and leave them aside; `planner from-triton` reads them."""
    scenario = scenario_of(plan)
    if scenario is None:
        return {}
    planned = {answer.name: answer for answer in plan.recommendation.models} if plan.recommendation else {}
    parameters = {
        m.name: {
            "profile": m.known_as,
            "precision": planned[m.name].precision if len(m.precisions) > 1 else m.variants[0].precision,
            "runtime": planned[m.name].runtime if len(m.runtimes) > 1 else m.variants[0].runtime,
        }
        for m in scenario.models
        if m.name in planned
    }
    return {name: {key: value for key, value in of.items() if value} for name, of in parameters.items()}


def config(plan: Plan, machine: Machine, served: ServedModel, folder: str, parameters: Mapping[str, str]) -> str:
    """`config.pbtxt` of one model on one machine."""
    threads = dict.fromkeys(THREADS, str(machine.cores)) if machine.cores else {}
    told = {**parameters, **threads}
    noted = [{"key": key, "value": {"string_value": value}} for key, value in told.items()]
    fields = {
        "name": folder,
        "max_batch_size": served.batch_size,
        **batching(served, plan.policies),
        "instance_group": instance_groups(machine, served),
        **({"parameters": noted} if noted else {}),
    }
    return "\n".join([*headline(machine, served), TO_FILL_IN, *write(fields), ""])


def headline(machine: Machine, served: ServedModel) -> Iterator[str]:
    """The plan's figures as comments."""
    model, share = served.model, f"{100 * served.share:.4g} % of " if served.share < 1 else ""
    yield (
        f"# {printable(model.name)} on {printable(machine.name)} ({printable(machine.instances.gpu)}): "
        f"{share}{model.offered_rps:.6g} requests a second."
    )
    yield (
        f"# SLO: {percent(model.slo_attainment_target)} % within {seconds(model.slo_s)}. "
        f"Replayed: {percent(model.slo_attainment.mean)} %, p99 {seconds(model.p99_shown_s)}."
    )


def batching(served: ServedModel, policies: Policies) -> dict[str, Any]:
    """The dynamic batcher. Where the plan drops late frames, Triton refuses those that waited for all of the SLO."""
    fields: dict[str, Any] = {}
    if served.batch_size > 1:
        fields["preferred_batch_size"] = [served.batch_size]
        fields["max_queue_delay_microseconds"] = round(served.model.max_queue_delay_s * 1e6)
    if policies.drop in (Drop.LATE, Drop.NEWEST_AND_LATE):
        fields["default_queue_policy"] = {
            "timeout_action": Word("REJECT"),
            "default_timeout_microseconds": round(served.model.slo_s * 1e6),
        }
    return {"dynamic_batching": fields} if fields else {}


def instance_groups(machine: Machine, served: ServedModel) -> list[dict[str, Any]]:
    """So many copies on which GPUs, or on processors; those that share one take turns."""
    groups = []
    for device in sorted(set(served.devices)):
        kind = {"kind": Word("KIND_GPU"), "gpus": [device]} if machine.cores is None else {"kind": Word("KIND_CPU")}
        group = {"count": served.devices.count(device), **kind}
        # All that runs on processors is one device to Triton, so each share of the cores has a turn of its own.
        turn = TURN if machine.cores is None else f"{TURN}-{device}"
        turns = {"rate_limiter": {"resources": [{"name": turn, "count": 1}]}}
        groups.append(group | (turns if machine.replicas_on(device) > 1 else {}))
    return groups


def write(fields: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    """A protobuf message as text."""
    blank = " " * indent
    for name, value in fields.items():
        match value:
            case dict():
                yield f"{blank}{name} {{"
                yield from write(value, indent + 2)
                yield f"{blank}}}"
            case [dict(), *_]:
                yield f"{blank}{name} ["
                for number, item in enumerate(value, 1):
                    yield f"{blank}  {{"
                    yield from write(item, indent + 4)
                    yield f"{blank}  }}{',' if number < len(value) else ''}"
                yield f"{blank}]"
            case list():
                yield f"{blank}{name}: [ {', '.join(map(scalar, value))} ]"
            case _:
                yield f"{blank}{name}: {scalar(value)}"


def scalar(value: str | int | Word) -> str:
    """One value; bytes of a text that are not plain are written in octal."""
    if isinstance(value, Word):
        return value.name
    if isinstance(value, int):
        return str(value)
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in value.encode())
    return f'"{escaped}"'


def what_differs(plan: Plan, fleet: Sequence[Machine]) -> list[str]:
    """Rules that Triton keeps in another way than the plan, a sentence each."""
    sentences = []
    if any(machine.crowd > 1 for machine in fleet):
        sentences.append(
            "GPUs and processors with several models run one batch at a time, by Triton's rate limiter "
            "(`--rate-limit=execution_count`); it lets models take turns, where the plan's rule is "
            f"`{plan.policies.scheduling}`."
        )
    match plan.policies.drop:
        case Drop.NEWEST | Drop.NEWEST_AND_LATE:
            sentences.append(
                f"The plan drops frames by the rule `{plan.policies.drop}`; Triton cannot keep the newest only."
            )
        case Drop.LATE:
            sentences.append(
                "The plan drops a frame that would end late; Triton refuses one that has waited for as long as its SLO."
            )
    if any(machine.cores is not None for machine in fleet):
        sentences.append(on_processors(fleet))
    return sentences


def on_processors(fleet: Sequence[Machine]) -> str:
    """How models run where there is no GPU."""
    counted = sorted({machine.cores for machine in fleet if machine.cores})
    threads = f" on {' or '.join(map(str, counted))} cores, a thread on each" if counted else ""
    return (
        f"On processors (`KIND_CPU`) the plan's times are those of one process{threads}. `config.pbtxt` says so to "
        "ONNX Runtime and PyTorch where the cores are known; another backend must be told in its own way."
    )


def what_the_sender_does(plan: Plan, fleet: Sequence[Machine]) -> Iterator[str]:
    """How requests must be spread over machines, which Triton does not do; a sentence each."""
    spread = {
        model.name: here for model in plan.recommendation.models if len(here := by_machine(fleet, model.name)) > 1
    }
    if spread and plan.policies.routing is not Routing.ROUND_ROBIN:
        yield (
            f"The plan's rule for requests to models on several machines is `{plan.policies.routing}`; whoever sends "
            "them must keep to it, as `check_slo.py` does not."
        )
    for name, here in spread.items():
        if unequal(here, by_replica=True):
            yield f"{shares_sentence(name, here)}: whoever sends requests must keep to that, as `check_slo.py` does."
