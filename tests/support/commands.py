"""Commands in the test's own process, with no new interpreter that imports everything again."""

import io
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from math import inf

import pytest

from planner import cli
from support.forks import forking


def planner(*words: object, err: io.StringIO | None = None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error, as if both were piped. Its workers are processes, forked."""
    out, err = io.StringIO(), err or io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err), forking():
        patch.setattr(sys, "argv", ["planner", *map(str, words)])
        patch.setattr("planner.console.output.LINE_EVERY_S", inf)  # however slow it is here
        with pytest.raises(SystemExit) as end:
            cli.main()
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


def tracing(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
    """`subprocess.run` of `calibrate.layers.tracing`, in this process, which has imported torch already."""
    import torch

    from calibrate.layers import tracing

    said = io.StringIO()
    with redirect_stderr(said), torch.no_grad():
        code = tracing.main(command[command.index("trace") :])
    return subprocess.CompletedProcess(command, code, b"", said.getvalue().encode())
