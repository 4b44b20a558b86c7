"""Recorded times where a device would take them."""

from collections.abc import Callable, Iterable

from calibrate.devices.timer import Sample


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
