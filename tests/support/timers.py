"""Times that do not hang on what else the machine does: recorded, or of this process alone."""

import time
from collections.abc import Callable, Iterable

from calibrate.devices.timer import CpuTimer, Sample


class BusyTimer(CpuTimer):
    """Where the clock stands, the time that processors worked for this process."""

    def time(self, run: Callable[[], object]) -> Sample:
        """Run it once."""
        begun_s = time.process_time()
        run()
        busy_s = time.process_time() - begun_s
        return Sample(busy_s, busy_s)


class ReplayTimer:
    """Gives recorded samples, in order, and runs nothing. Its clock stands still between them."""

    def __init__(self, recorded: Iterable[Sample | float]) -> None:
        self._samples = (sample if isinstance(sample, Sample) else Sample(sample) for sample in recorded)
        self._elapsed_s = 0.0

    def time(self, run: Callable[[], object]) -> Sample:
        """The next recorded sample; `EOFError` at the end of the recording."""
        sample = next(self._samples, None)
        if sample is None:
            raise EOFError("the recording holds no more samples. Record more, or ask for fewer repeats")
        self._elapsed_s += sample.wall_s
        return sample

    def now_s(self) -> float:
        """Recorded seconds so far."""
        return self._elapsed_s
