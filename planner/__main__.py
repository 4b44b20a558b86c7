"""`python -m planner` is `planner`."""

import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is still imported is a line too; what `timeout` sends is one."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        from planner.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted before there was an answer.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
