"""`python -m calibrate.joint`."""

import os
import sys

from calibrate.joint.train import main

if __name__ == "__main__":
    os.dup2(2, 1)  # what the user's code prints is no answer of ours
    sys.exit(main())
