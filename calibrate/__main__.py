"""`python -m calibrate`."""

import sys

from calibrate.cli import main

if __name__ == "__main__":
    sys.exit(main())
