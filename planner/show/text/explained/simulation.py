"""Why a simulation came out as it did: what limits each model, where the time of each GPU goes, what has room."""

from planner.model.plan import GpuAnswer
from planner.model.simulation import Simulation
from planner.show.document import Document, explanation
from planner.show.text.explained.plan import BINDING, bindings, evidence, load_room, occupied, slo_room
from planner.show.text.plan import OUTAGES, outages_line, rules_line, simulation_headline, slo_line
from planner.show.text.reasons import assumption_lines, warning_texts
from planner.show.text.resources import FULLEST, budget_lines, resource_lines
from planner.units.writing import per_second, seconds, share

GPUS_SHOWN = 8
"""GPUs whose time is told, the busiest first."""


def document(run: Simulation) -> Document:
    """The explanation, from the tightest model to what is assumed."""
    few = filter(None, [outages_line(run)])
    lead = [slo_line(run), *few, rules_line(run.policies, run.models)]
    busiest = sorted(run.gpus, key=occupied, reverse=True)
    parts = {
        BINDING: bindings(run),
        "Where the time of the busiest GPUs goes": [f"{gpu.id}: {time_of(gpu)}." for gpu in busiest[:GPUS_SHOWN]],
        "How the SLO is split": budget_lines(run),
        FULLEST: resource_lines(run),
        "What has room": [*load_room(run), *slo_room(run)],
        "Evidence": evidence(run),
        "Warnings": warning_texts([one for one in run.warnings if one.what.code not in OUTAGES]),
        "Assumptions": assumption_lines(run.assumptions),
    }
    return explanation(run.scenario, simulation_headline(run), parts, lead)


def time_of(gpu: GpuAnswer) -> str:
    """`batches run 12 % of the time, weights are waited for 86 %, idle 2 %`, and what that is for each swap."""
    idle = max(0.0, 1 - occupied(gpu))
    parts = [f"batches run {share(gpu.utilization)} of the time"]
    if gpu.load_share:
        parts.append(f"weights are waited for {share(gpu.load_share, 1)}")
    return f"{', '.join([*parts, f'idle {share(idle)}'])}{each_swap(gpu)}"


def each_swap(gpu: GpuAnswer) -> str:
    """`; at 27.3/s each swap waits 31.6 ms, for 4.40 ms of batches`: 0.862 / 27.3 and 0.12 / 27.3 of a second."""
    if not gpu.swaps_per_s:
        return ""
    wait_s, run_s = gpu.load_share / gpu.swaps_per_s, gpu.utilization / gpu.swaps_per_s
    return f"; at {per_second(gpu.swaps_per_s)} each swap waits {seconds(wait_s)}, for {seconds(run_s)} of batches"
