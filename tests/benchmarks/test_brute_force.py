"""Brute force finds what anyone sees: the one GPU that carries next to nothing."""

from argparse import Namespace
from pathlib import Path

from benchmarks.brute_force import Problem, cheapest
from benchmarks.random_scenarios import Kind, Traffic, write
from simulator.world.hardware import CONTEXT_BYTES


def test_the_cheapest_fleet_for_little_is_one_of_the_cheapest_gpus(tmp_path: Path) -> None:
    given = Namespace(kind=Kind.RESIDENT, traffic=Traffic.CAMERAS, load=0.05)
    drawn = write(1, tmp_path, given)
    problem = Problem.read(drawn.folder / "scenario.yaml", drawn.folder / "profiles")
    found = cheapest(problem, gpus_max=2, tries=20, seed=1)
    assert found is not None
    fleet, deployment = found
    assert fleet.usd_per_hour == min(machine.price for machine in problem.scenario.buy.own)
    assert [device.context_bytes for device in deployment.devices] == [CONTEXT_BYTES]
