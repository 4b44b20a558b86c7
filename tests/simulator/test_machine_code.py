"""Machine code of an older source is forgotten, that of today's is kept."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from support.paths import ROOT

from simulator import machine_code
from simulator.machine_code import KeptCount, MadeOnce, forget_stale, is_kept
from simulator.rules import batching

COUNTING = """
from numba import njit
from simulator.machine_code import by_one

@njit(cache=True)
def count(most):
    total = 0
    for number in range(most):
        total += number % 7
    return total

assert by_one(count)(10) == by_one(count)(10) == 24
print(sum(count.stats.cache_hits.values()), sum(count.stats.cache_misses.values()))
"""

SHARING = """
from simulator.numba_parts import inlined, inner, loop

@inner
def left(whole, parts):
    return whole % parts

@inlined
def half(whole, parts):
    return left(whole, parts) / parts

@loop
def total(most, parts):
    sum_of = 0.0
    for number in range(most):
        sum_of += half(number, parts) + left(number, parts)
    return sum_of

assert total(10, 4) == sum(number % 4 / 4 + number % 4 for number in range(10))
try:
    total(10, 0)
except ZeroDivisionError:
    print(sum(total.stats.cache_hits.values()), sum(total.stats.cache_misses.values()))
"""

ADDRESSED = """
from collections import namedtuple
import numpy as np
from simulator.numba_parts import at, inner, loop

Pair, Turned = namedtuple("Pair", "left right"), namedtuple("Pair", "right left")
Whole = namedtuple("Whole", "pair factor rule")

@inner
def weighed(whole, place):
    return whole.pair.left[place] * whole.factor - whole.pair.right[place] if whole.rule else 0.0

@inner
def left(pair):
    return pair.left[0]

@loop
def total(whole, turned):
    sum_of = left(at(turned)) + left(at(whole.pair))
    for place in range(len(whole.pair.left)):
        sum_of += weighed(at(whole), place)
    return sum_of

numbers = np.arange(3.0), np.ones(3)
print(total(Whole(Pair(*numbers), 2.0, True), Turned(*numbers)))
"""

MISSPELT = ADDRESSED.replace("whole.factor", "whole.factory")


def test_code_is_kept_as_long_as_its_source(tmp_path):
    source, kept = tmp_path / "compiled.py", tmp_path / "__pycache__"
    source.write_text("one = 1\n")
    forget_stale(source)
    ours = [kept / "compiled.run-1.py311.nbi", kept / "compiled.run-1.py311.1.nbc"]
    others = [kept / "compiled.cpython-311.pyc", kept / "other.run-1.py311.nbi"]
    for file in (*ours, *others):
        file.touch()
    forget_stale(source)
    assert all(file.exists() for file in (*ours, *others))
    source.write_text("two = 2\n")
    forget_stale(source)
    assert not any(file.exists() for file in ours)
    assert all(file.exists() for file in others)
    ours[0].touch()
    forget_stale(source)
    assert ours[0].exists()


def test_code_is_forgotten_with_a_source_that_it_uses(tmp_path):
    source, used, kept = tmp_path / "exchanges.py", tmp_path / "rounds.py", tmp_path / "__pycache__"
    source.touch()
    used.write_text("one = 1\n")
    forget_stale(source, used)
    ours = kept / "exchanges.improve-1.py311.nbi"
    ours.touch()
    forget_stale(source, used)
    assert ours.exists()
    used.write_text("two = 2\n")
    forget_stale(source, used)
    assert not ours.exists()


def test_code_is_kept_only_if_it_was_made_of_these_sources(tmp_path):
    source, used, kept = tmp_path / "exchanges.py", tmp_path / "rounds.py", tmp_path / "__pycache__"
    source.touch()
    used.write_text("one = 1\n")
    assert not is_kept(source, used)
    forget_stale(source, used)
    assert not is_kept(source, used)
    (kept / "exchanges.improve-1.py311.nbi").touch()
    assert is_kept(source, used)
    used.write_text("two = 2\n")
    assert not is_kept(source, used)


def test_code_that_is_made_meanwhile_pays_at_once(tmp_path):
    """Not before its longest function is there: who asked while that is being made would make it too."""
    source, kept = tmp_path / "turns.py", tmp_path / "__pycache__"
    source.touch()
    turns = MadeOnce(10**6, "turns", "serve", source)
    forget_stale(source)
    assert not turns.pays
    (kept / "turns.begin-1.py311.nbi").touch()
    assert not turns.pays
    (kept / "turns.serve-9.py311.nbi").touch()
    assert turns.pays


def test_code_is_forgotten_with_the_constants_in_it(tmp_path, monkeypatch):
    source, constants, kept = tmp_path / "turns.py", tmp_path / "batching.py", tmp_path / "__pycache__"
    source.touch()
    constants.write_text("EPSILON_S = 1e-9\n")
    monkeypatch.setattr(machine_code, "CONSTANTS", (constants,))
    forget_stale(source)
    (ours := kept / "turns.serve-1.py311.nbi").touch()
    assert is_kept(source)
    constants.write_text("EPSILON_S = 1e-6\n")
    assert not is_kept(source)
    forget_stale(source)
    assert not ours.exists()


def test_every_module_is_there_whose_constants_are_in_the_code():
    assert all(path.is_file() for path in machine_code.CONSTANTS)
    assert Path(str(batching.__file__)) in machine_code.CONSTANTS


def test_a_folder_that_cannot_be_written_is_left(tmp_path):
    source = tmp_path / "compiled.py"
    source.touch()
    (tmp_path / "__pycache__").touch()  # a file, so that nothing can be kept
    forget_stale(source)
    assert (tmp_path / "__pycache__").is_file()


def test_a_count_is_kept_from_run_to_run(tmp_path):
    path = tmp_path / "__pycache__" / "turns.txt"
    assert KeptCount(path).earlier == 0
    KeptCount(path).keep(41)
    assert KeptCount(path).earlier == 41
    path.write_text("half a num")
    assert KeptCount(path).earlier == 0
    KeptCount(tmp_path / "none" / "at" / "all").keep(1)  # a folder that cannot be made holds no count


def test_of_processes_that_need_code_at_once_one_makes_it(tmp_path):
    """Each says how often it took the code from disk, and how often it made it."""
    pytest.importorskip("numba")
    (tmp_path / "counting.py").write_text(COUNTING, encoding="utf-8")
    (tmp_path / "__pycache__").mkdir()
    begin, environment = [sys.executable, "counting.py"], {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [subprocess.Popen(begin, stdout=subprocess.PIPE, cwd=tmp_path, env=environment) for _ in range(2)]
    said = sorted(process.communicate()[0] for process in processes)
    assert said == [b"0 1\n", b"1 0\n"]


def test_a_numba_with_other_insides_makes_parts_as_it_does():
    pytest.importorskip("numba")
    from simulator.numba_parts import LoopCompiler, PartCompiler, options_of

    for compiler in (LoopCompiler, PartCompiler):
        assert options_of(compiler, version("numba"))["pipeline_class"] is compiler
        assert "pipeline_class" not in options_of(compiler, "0.61.0")


def test_parts_are_kept_with_what_calls_them(tmp_path):
    """They do what Python does, and raise what it raises: in the process that makes them and in one that finds them."""
    pytest.importorskip("numba")
    (tmp_path / "sharing.py").write_text(SHARING, encoding="utf-8")
    begin, environment = [sys.executable, "sharing.py"], {**os.environ, "PYTHONPATH": str(ROOT)}
    said = [subprocess.check_output(begin, cwd=tmp_path, env=environment) for _ in range(2)]
    assert said == [b"0 1\n", b"1 0\n"]
    assert {path.name.split("-")[0] for path in (tmp_path / "__pycache__").glob("*.nbi")} == {"sharing.total"}


@pytest.mark.parametrize("without_code", ["", "1"])
def test_parts_read_named_tuples_by_their_addresses(tmp_path, without_code):
    """1 + 0, and (0 + 1 + 2) x 2 - 3: two tuples of one name and one type, whose fields stand in another order."""
    pytest.importorskip("numba")
    (tmp_path / "addressed.py").write_text(ADDRESSED, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": without_code}
    assert subprocess.check_output([sys.executable, "addressed.py"], cwd=tmp_path, env=environment) == b"4.0\n"


def test_a_field_that_a_named_tuple_lacks_is_named(tmp_path):
    pytest.importorskip("numba")
    (tmp_path / "misspelt.py").write_text(MISSPELT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.run(
        [sys.executable, "misspelt.py"], cwd=tmp_path, env=environment, capture_output=True, check=False
    ).stderr
    assert b"Unknown attribute 'factory'" in said
