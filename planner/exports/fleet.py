"""Fleet: a plan seen machine by machine, which is how it is deployed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.catalog.mig import is_slice
from planner.model.parts.merging import Merging
from planner.model.plan import Instances, ModelAnswer, Plan, Recommendation
from planner.model.statement import Code
from simulator.errors import InputError
from simulator.world.hardware import device_option


class ExportError(InputError):
    """A plan that cannot be exported, or a folder that must not be written to; one line a person can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model on one machine."""

    model: ModelAnswer
    batch_size: int
    devices: tuple[int, ...]
    """Index of the GPU of each of its replicas, ascending."""
    share: float
    """Share of all the model's requests, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that serves something."""

    name: str
    instances: Instances
    """Its type."""
    served: tuple[ServedModel, ...]
    cores: int | None = None
    """Of each of its processes where it has no GPU, 0 where nobody says how many; None: it has GPUs."""

    def replicas_on(self, device: int) -> int:
        """How many replicas, of all models, run on a GPU."""
        return sum(served.devices.count(device) for served in self.served)

    @property
    def crowd(self) -> int:
        """Replicas on the GPU that has most of them."""
        return max(self.replicas_on(device) for served in self.served for device in served.devices)


def deployable(plan: Plan, target: str) -> Recommendation:
    """The recommendation; ExportError where nothing can be deployed, or where a server could not run it as planned."""
    best = plan.recommendation
    if not best.feasible:
        raise ExportError("the plan is infeasible: there is nothing to deploy. `planner explain` says what would help.")
    if merged := [way for way in plan.merging if way.chosen and way.merging is not Merging.NONE]:
        raise ExportError(
            f"the plan stores layers once that several models share ({merged[0].merging}), which {target} cannot: "
            "each model would need its own. Plan again with --set merging=none."
        )
    if sliced := next((one for one in best.instances if is_slice(one.gpu) and one.gpu_count > 1), None):
        raise ExportError(
            f"{sliced.instance} has {sliced.gpu_count} slices of a GPU ({sliced.gpu}), of which a process sees one: "
            f"{target} would leave the others idle. Plan again with whole GPUs, or with a machine for each slice."
        )
    for model in best.models:
        if model.mode == "swapped":
            raise ExportError(
                f"{model.name} takes turns in GPU memory with other models, which {target} cannot: "
                "it keeps all loaded, and they do not fit. Plan again with --set memory=resident."
            )
        if any(len(replica.gpus) > 1 for replica in model.replicas):
            raise ExportError(
                f"{model.name} is cut into stages on several GPUs, which {target} cannot do without code of yours. "
                "Plan again with a GPU it fits on, e.g. --set buy.gpus=[H100]."
            )
    return best


def processors(plan: Plan) -> dict[str, int]:
    """Cores of a process by the kind of processor, which is no GPU; 0 where it was measured and is in no catalog."""
    kinds = {one.gpu for one in plan.recommendation.instances}
    measured = {kind: 0 for kind in kinds if device_option(kind) == "cpu"}
    said = [one for one in plan.assumptions if one.code is Code.PROCESSOR]
    return measured | {kind: round(one.figures["cores"]) for one in said for kind in one.subjects}


def machines(best: Recommendation, cores: Mapping[str, int] | None = None) -> list[Machine]:
    """The machines that serve something, in the order of their GPUs; `cores` as `processors` gives them."""
    types = {gpu.host: best.instances[gpu.machines] for gpu in best.gpus}
    found = []
    for host, one in types.items():
        devices = [gpu.id for gpu in best.gpus if gpu.host == host]
        served_here = filter(None, (served_by(model, devices) for model in best.models))
        found.append(Machine(name=host, instances=one, served=tuple(served_here), cores=(cores or {}).get(one.gpu)))
    served = {one.model.name for machine in found for one in machine.served}
    if lost := [model.name for model in best.models if model.name not in served]:
        raise ExportError(f"models: {lost[0]} is on no GPU of `gpus`. Plan again.")
    return [machine for machine in found if machine.served]


def served_by(model: ModelAnswer, devices: Sequence[str]) -> ServedModel | None:
    """A model's replicas on some GPUs; None where it has none there."""
    here = [replica for replica in model.replicas if replica.gpus[0] in devices]
    if not here:
        return None
    # Where a model is asked nothing, its replicas count alike.
    total = sum(replica.share for replica in model.replicas)
    share = sum(replica.share for replica in here) / total if total else len(here) / len(model.replicas)
    return ServedModel(
        model=model,
        batch_size=max(replica.batch_size for replica in here),
        devices=tuple(sorted(devices.index(replica.gpus[0]) for replica in here)),
        share=share,
    )
