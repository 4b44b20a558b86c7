"""What a calibration of one model on a T4 leaves, made up: for tests of what is done with it."""

from pathlib import Path

import numpy as np

from calibrate.io.points import Point, PointOutcome, Settings, Status, What
from calibrate.sweep import assemble
from calibrate.sweep.journal import Header

PROVENANCE = {
    "gpu": "T4",
    "gpu_name": "Tesla T4",
    "gpu_uuid_sha256": "a",
    "memory_bytes": 15_843_721_216,
    "power_limit_w": 70.0,
    "driver": "570.1",
    "torch": "2.13.0",
    "host_cpu": "EPYC",
    "host_cores": 8,
    "date": "2026-07-20T12:00:00+00:00",
}
DEFAULT = Settings()
TIMES_S = {1: 0.010, 2: 0.012, 4: 0.018, 8: 0.034, 16: 0.066}
WEIGHTS = 102_000_000


def outcomes(
    factor: float, seed: int, cv: float = 0.02, held: float = 20e6, settings: Settings = DEFAULT
) -> list[PointOutcome]:
    """A model's points in a session that takes `factor` times as long, each run with a spread of its own."""
    draw = np.random.default_rng(seed)

    def ok(what: What, batch: int = 0, **more) -> PointOutcome:
        return PointOutcome(
            point=Point(what=what, model="net", batch=batch, settings=settings), status=Status.OK, **more
        )

    def runs(time_s: float) -> list[float]:
        return list(time_s * factor * (1 + cv * draw.standard_normal(40)))

    return [
        ok(
            What.LAYERS, values={"flops_per_sample": 8.2e9, "activation_bytes_per_sample": 20e6}, details={"layers": []}
        ),
        ok(What.LOAD, values={"weight_bytes": WEIGHTS}, samples={"pinned_s": runs(0.0105), "pageable_s": runs(0.021)}),
        *(
            ok(What.MEMORY, b, values={"allocated_bytes": WEIGHTS + held * b, "weights_bytes": WEIGHTS})
            for b in TIMES_S
        ),
        *(
            ok(What.LATENCY, b, samples={"wall_s": runs(time_s)}, values={"power_w": 60.0})
            for b, time_s in TIMES_S.items()
        ),
    ]


def session(folder: Path, factor: float, seed: int, **changed) -> Path:
    """What a calibration left in a folder."""
    date = f"2026-07-{20 + seed:02}T12:00:00+00:00"
    assemble.write(outcomes(factor, seed), Header(provenance=PROVENANCE | {"date": date} | changed, seed=1), folder)
    return folder
