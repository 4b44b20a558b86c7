"""Run by Python at start where this folder is on PYTHONPATH: torch has a GPU in imitation, and torchvision imports."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from support import cuda, torchvision_guard

torchvision_guard.activate()
cuda.activate_on_import()
