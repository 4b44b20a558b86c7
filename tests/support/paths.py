"""Where things lie."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"
DATA = ROOT / "tests" / "data"
PUBLIC = Path(os.environ.get("PLANNER_TEST_DATA", ROOT.parent / "shared" / "data"))
"""Public measurements that are too large to keep beside the tests; those who need them skip where they are not."""
