"""Run by Python at start where this folder is on PYTHONPATH: lets torchvision be imported on any torch."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from support import torchvision_guard

torchvision_guard.activate()
