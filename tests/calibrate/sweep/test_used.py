"""What is measured is used: every figure that a calibration keeps is read by something else than what measures it."""

import re
from pathlib import Path

import pytest
from support import cuda
from support.paths import ROOT

from calibrate.devices.device import FIRST_OPENING, find_device
from calibrate.devices.timer import StopRule
from calibrate.io.points import Point, PointOutcome, Settings, Status, What
from calibrate.layers.modules import trace
from calibrate.library.lookup import find_profiles
from calibrate.sweep import assemble
from calibrate.sweep.journal import Header
from calibrate.sweep.measure import measure
from calibrate.zoo.zoo import build
from planner.catalog.catalog import load_catalog
from planner.show.charts.profiles import KINDS

MEASURING = {"measure.py", "rates.py", "loads.py", "probes.py", "knees.py", "worker.py"}
QUICK = StopRule(seconds=0.02, at_least=3, at_most=4, warm_up_s=0.0)
POINTS = (
    *(Point(what=what, model="lenet", batch=batch) for what in (What.MEMORY, What.LATENCY) for batch in (1, 2)),
    *(Point(what=what, model="lenet", batch=2, optimizer="sgd") for what in (What.MEMORY, What.TRAINING)),
    Point(what=What.LOAD, model="lenet"),
    Point(what=What.SOAK, model="lenet", batch=2),
)


def quoted_in(paths: list[Path]) -> set[str]:
    return {name for path in paths for name in re.findall(r'"(\w+)"', path.read_text(encoding="utf-8"))}


READERS = [
    path
    for room in ("calibrate", "planner")
    for path in (ROOT / room).rglob("*.py")
    if not (path.parts[-2] in ("sweep", "devices") and path.name in MEASURING)
]


@pytest.fixture(scope="module")
def outcomes() -> list[PointOutcome]:
    """All points of a model on a GPU that tells everything."""
    with pytest.MonkeyPatch.context() as patch, cuda.imitated(kernel_s=1e-5):
        patch.setattr("calibrate.sweep.rates.ROW_S", 0.1)
        patch.setattr("calibrate.devices.watch.EVERY_S", 0.01)
        FIRST_OPENING.clear()
        device = find_device("cuda:0")
        device.open()
        built = build("lenet", place="cuda:0")
        values, details = trace(built, Settings())
        layers = Point(what=What.LAYERS, model="lenet")
        taken = [PointOutcome(point=layers, status=Status.OK, values=values, details=details)]
        for point in POINTS:
            figures = measure(built, device, point, QUICK)
            taken.append(PointOutcome(point=point, status=Status.OK, **figures._asdict()))
    return taken


def test_every_figure_is_read_by_something(outcomes: list[PointOutcome]) -> None:
    read = quoted_in(READERS) | {f"{kind}_bytes" for kind in KINDS}
    kept = {name for one in outcomes for names in (one.values, one.samples, one.details) for name in names}
    assert {"sustained_s", "busy_s", "energy_j", "pinned_s", "optimizer_bytes"} <= kept, "all was measured"
    assert kept - read == set()


def test_every_field_of_a_profile_is_read_by_something(outcomes: list[PointOutcome], tmp_path: Path) -> None:
    """The reader of profiles refuses fields that it does not know; of what stands beside, somebody reads each."""
    provenance = {"gpu": "H100", "memory_bytes": 85_000_000_000, "date": "2026-11-25T00:00:00+00:00", "driver": "580"}
    path, _ = assemble.write(outcomes, Header(provenance=provenance, seed=1), tmp_path)
    (profile,) = find_profiles([tmp_path], load_catalog().gpus).for_model("lenet")
    assert profile.context_bytes
    raw = assemble.read(path)
    assert raw is not None
    others = [one for one in READERS if one.parent.name != "assembling" and one.name != "assemble.py"]
    assert raw["measured"].keys() - quoted_in(others) == set()
