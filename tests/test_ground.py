"""The ground the project stands on: import directions, a light command line, and what an installation contains."""

import ast
import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder
from support.paths import ROOT

PACKAGES = ("simulator", "calibrate", "planner")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

MODULES_AFTER_HELP = """
import json, sys
from planner.cli import main

sys.argv = ["planner", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("\\n" + json.dumps(sorted(sys.modules)))
"""


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([command, "--no-cache"], cwd=root, capture_output=True, text=True, check=False)


def test_imports_keep_their_direction() -> None:
    linted = lint_imports(ROOT)
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our packages, to be changed."""
    folder = tmp_path_factory.mktemp("copied")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            here = folder / file.relative_to(ROOT)
            here.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, here)
    return folder


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("simulator/world/hardware.py", "import calibrate"),
        ("calibrate/__init__.py", "import planner"),
        ("planner/model/plan.py", "import torch"),
        ("simulator/world/hardware.py", "import pynvml"),
        ("simulator/world/hardware.py", "import pydantic"),
        ("planner/model/plan.py", "def late(): import planner.search.plan"),
    ],
)
def test_an_import_against_the_direction_is_found(copied: Path, module: str, line: str) -> None:
    file = copied / module
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{text}\n{line}\n", encoding="utf-8")
    linted = lint_imports(copied)
    file.write_text(text, encoding="utf-8")
    assert linted.returncode == 1
    assert "BROKEN" in linted.stdout


@cache
def parsed() -> dict[str, ast.Module]:
    """What stands in each module of ours."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("[!_]*.py")]
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files)
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in zip(names, files, strict=True)}


def modules_used(tree: ast.Module) -> Iterator[str]:
    """What is imported, wherever that stands."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(room), names=names):
                yield from (room, *(f"{room}.{one.name}" for one in names))
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=name)]):
                yield name


def test_no_module_imports_one_that_imports_it_back() -> None:
    """Also not in a function, or by its name."""
    assert len(parsed()) > 300
    used = {name: {*modules_used(tree)} & {*parsed()} - {name} for name, tree in parsed().items()}
    assert "simulator.clock.adding_up" in used["simulator.clock.replays.places"]  # by its name
    TopologicalSorter(used).prepare()


def test_no_folder_is_full() -> None:
    """A dozen modules can be taken in at a glance."""
    folders = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert not [folder for folder in folders if len(list(folder.glob("[!_]*.py"))) > 12]


def choices_in(tree: ast.Module) -> list[frozenset[object]]:
    """The values of each StrEnum in a module."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    enums = [one for one in classes if any(isinstance(base, ast.Name) and base.id == "StrEnum" for base in one.bases)]
    return [
        frozenset(
            line.value.value
            for line in one.body
            if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
        )
        for one in enums
    ]


def test_nothing_lies_at_the_top_by_mistake() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs a clone")
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folders = {line.split("/")[0] for line in kept.splitlines() if "/" in line}
    assert folders == {".ci", "benchmarks", "calibrate", "docs", "planner", "scenarios", "simulator", "tests"}


def test_no_choice_is_written_twice() -> None:
    """What help offers is what the planner knows: a copy would fall behind."""
    twice = 'class A(StrEnum):\n    X = "x"\nclass B(StrEnum):\n    Y = "x"\n'
    assert len(set(choices_in(ast.parse(twice)))) == 1
    choices = [values for tree in parsed().values() for values in choices_in(tree)]
    assert len(choices) == len(set(choices))


def test_tests_lie_where_the_code_lies() -> None:
    folders = {path.parent for package in PACKAGES for path in (ROOT / "tests" / package).rglob("test_*.py")}
    assert not [folder for folder in folders if not (ROOT / folder.relative_to(ROOT / "tests")).is_dir()]


def test_help_loads_nothing_heavy() -> None:
    command = [sys.executable, "-c", MODULES_AFTER_HELP]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "planner.cli" in loaded
    assert loaded.isdisjoint({"torch", "pynvml", "numpy", "scipy", "simpy", "numba", "pydantic", "yaml"})


def test_versions_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert PROJECT["version"] == citation["version"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    files = (path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    assert {path.as_posix() for path in files if "__pycache__" not in path.parts} <= held
    assert {"planner/shipped/video.yaml", "planner/shipped/training/resnet50.yaml", "planner/shipped/cases.csv"} <= held
