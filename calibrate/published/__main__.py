"""`python -m calibrate.published FOLDER`: writes the shipped points anew from tables of published measurements."""

import sys
from pathlib import Path

from calibrate.published.collect import write
from calibrate.published.points import DATA

if __name__ == "__main__":
    write(Path(sys.argv[1]), DATA)
