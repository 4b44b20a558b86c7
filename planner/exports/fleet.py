"""Fleet: a plan seen machine by machine, which is how it is deployed."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.plans import Instances, ModelAnswer, Plan, Recommendation
from planner.scenario import Merging
from simulator.errors import InputError


class ExportError(InputError):
    """A plan that cannot be exported, or a folder that must not be written to; one line a person can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model on one machine."""

    model: ModelAnswer
    batch_size: int
    cards: tuple[int, ...]
    """Index of the card of each of its replicas, ascending."""
    share: float
    """Of all the model's requests, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that serves something."""

    name: str
    instances: Instances
    """Its type."""
    served: tuple[Served, ...]

    def replicas_on(self, card: int) -> int:
        """How many replicas, of all models, run on a card."""
        return sum(served.cards.count(card) for served in self.served)


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


def machines(best: Recommendation) -> list[Machine]:
    """The machines that serve something, in the order of their cards."""
    hosts = list(dict.fromkeys(gpu.host for gpu in best.gpus))
    kinds = kinds_of(best, hosts)
    found = [Machine(name=host, instances=kinds[host], served=served_on(best, host)) for host in hosts]
    served = {one.model.name for machine in found for one in machine.served}
    if lost := [model.name for model in best.models if model.name not in served]:
        raise ExportError(f"models: {lost[0]} is on no card of `gpus`. Plan again.")
    return [machine for machine in found if machine.served]


def kinds_of(best: Recommendation, hosts: Sequence[str]) -> dict[str, Instances]:
    """Which type each host is of: its name is that of the type, with a number."""
    types = {kind.instance: kind for kind in best.instances}
    if len(types) < len(best.instances):
        raise ExportError("instances: two types of machines share a name, so that none knows its own. Plan them apart.")
    if lost := [host for host in hosts if host.rpartition("-")[0] not in types]:
        raise ExportError(f"gpus: host {lost[0]} is of no type in `instances` ({', '.join(types)}). Plan again.")
    return {host: types[host.rpartition("-")[0]] for host in hosts}


def served_on(best: Recommendation, host: str) -> tuple[Served, ...]:
    """What a host serves."""
    cards = [gpu.id for gpu in best.gpus if gpu.host == host]
    found = []
    for model in best.models:
        here = [replica for replica in model.replicas if replica.gpus[0] in cards]
        total = sum(replica.share for replica in model.replicas)
        if here:
            found.append(
                Served(
                    model=model,
                    batch_size=max(replica.batch_size for replica in here),
                    cards=tuple(sorted(cards.index(replica.gpus[0]) for replica in here)),
                    share=sum(replica.share for replica in here) / total if total else len(here) / len(model.replicas),
                )
            )
    return tuple(found)
