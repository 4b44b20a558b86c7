"""Names of what may be bought."""

from collections.abc import Sequence

from planner.model.candidate import Candidate, Machines, MachineType, OnGpu
from planner.model.parts.merging import Merging
from planner.model.plan import WayOfServing
from planner.units.writing import counted


def candidate_name(candidate: Candidate) -> str:
    """`2 x NC6s_v3 (V100), resident`, `1 x g5.xlarge (A10G), swapped, merged layers`."""
    parts = [machines_name(candidate.machines)]
    if candidate.memory:
        parts.append(candidate.memory)
    if candidate.merging is not Merging.NONE:
        parts.append(f"merged {candidate.merging}")
    return ", ".join(parts)


def way_name(way: WayOfServing) -> str:
    """`each on its own, swapped`, `merged layers, resident`, `1 more GPU, each on its own, resident`."""
    shared = way.candidate.merging
    parts = ["each on its own" if shared is Merging.NONE else f"merged {shared}"]
    if way.gpus_added:
        parts.insert(0, f"{counted(way.gpus_added, 'more GPU')}")
    if way.candidate.memory:
        parts.append(way.candidate.memory)
    return ", ".join(parts)


def machines_name(machines: Sequence[Machines]) -> str:
    """`2 x g4dn.xlarge (T4) + 1 x NC24s_v3 (4 x V100)`; with the place where the name alone does not tell it."""
    return " + ".join(map(_some, machines))


def _some(some: Machines) -> str:
    place = f", {some.provider} {some.region}".rstrip() if some.ambiguous else ""
    return f"{some.count} x {some.instance} ({gpus_name(some.gpu, some.gpu_count)}{place})"


def gpus_name(gpu: str, count: int) -> str:
    """`V100`, `4 x V100`: the GPUs of one machine."""
    return f"{count} x {gpu}" if count > 1 else gpu


def machine_name(machine: MachineType) -> str:
    """`g4dn.xlarge (T4, aws us-east-1)`."""
    place = f"{machine.provider} {machine.region}".strip()
    about = [gpus_name(machine.gpu, machine.gpu_count), *([place] if place else [])]
    return f"{machine.instance} ({', '.join(about)})"


def subject_name(subject: Candidate | MachineType | OnGpu) -> str:
    """Whatever was rejected: `yolov3 on T4`, `3 models on T4`, `T4`."""
    match subject:
        case Candidate():
            return candidate_name(subject)
        case MachineType():
            return machine_name(subject)
        case OnGpu(gpu=gpu, models=()):
            return gpu
        case OnGpu(gpu=gpu, models=(model,)):
            return f"{model} on {gpu}"
        case OnGpu(gpu=gpu, models=models):
            return f"{len(models)} models on {gpu}"
