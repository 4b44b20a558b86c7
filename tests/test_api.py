"""Every command as a call; docs/python.md, which is run as a test, has a session."""

import importlib
import pkgutil

import pytest
import typer
from answers import PLAN

import planner
from planner import cli
from simulator.errors import InputError

SHOWN_BY_OTHERS = {"prices_status"}
"""What says nothing that another call does not: `prices_show` gives the dates."""


def commands():
    """Their names, as calls."""
    for name, command in typer.main.get_command(cli.app).commands.items():
        for below in getattr(command, "commands", {"": None}):
            yield f"{name} {below}".strip().replace(" ", "_").replace("-", "_")


@pytest.mark.parametrize("name", sorted({*commands()} - SHOWN_BY_OTHERS))
def test_every_command_is_a_call(name):
    assert callable(getattr(planner, name))
    assert name in planner.__all__


def test_no_module_takes_the_place_of_a_call():
    modules = [module.name for module in pkgutil.iter_modules(planner.__path__)]
    for name in set(modules) - {"__main__"}:
        importlib.import_module(f"planner.{name}")
    assert not {*planner.__all__} & {*modules}
    assert all(callable(getattr(planner, name)) for name in planner.__all__)


def test_what_a_person_can_mend_is_one_kind_of_error(tmp_path):
    with pytest.raises(InputError, match=r"absent\.yaml"):
        planner.plan(tmp_path / "absent.yaml")
    with pytest.raises(InputError, match="Titan"):
        planner.simulate("scenarios/trace.yaml", "Titan", 1)
    with pytest.raises(InputError, match="either gpu and count, or plan"):
        planner.simulate("scenarios/trace.yaml", "V100")
    for count in (0, 10**9):
        with pytest.raises(InputError, match=f"from 1 to 10,000, got {count}"):
            planner.simulate("scenarios/trace.yaml", "V100", count)
    with pytest.raises(InputError, match=r'Write \["headroom=1 %"\]'):
        planner.plan("scenarios/trace.yaml", overrides="headroom=1 %")
    with pytest.raises(InputError, match=r"must be one of triton, .* got lambda"):
        planner.export(PLAN, "lambda", tmp_path)
