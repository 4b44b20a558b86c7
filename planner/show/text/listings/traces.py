"""A recording for people to look at."""

from planner.io.traces.summary import TraceSummary
from planner.show.document import Document, Items, Text
from planner.show.terminal import terminal
from planner.units.writing import Screen, counted, per_second


def trace_summary(name: str, summary: TraceSummary, screen: Screen) -> str:
    """Rate and burstiness of a recording, and where it is busiest."""
    windows = [
        f"{counted(w.count, 'arrival')} in {w.length_s:g} s from {w.start_s:,.0f} s "
        f"({per_second(w.count / w.length_s)})"
        for w in summary.busiest
    ]
    peaks = [("second", summary.peak_to_mean_1s)] if summary.duration_s >= 1 else []
    peaks += [("minute", summary.peak_to_mean_1min)] if summary.duration_s >= 60 else []
    times = ", ".join(f"the busiest {unit} {peak:.1f} times" for unit, peak in peaks)
    gaps = f"cv of gaps {summary.gap_cv:.2f} (1: Poisson, more: bursty)"
    about = Document(
        name=name,
        headline=f"{name}: {summary.count:,} arrivals in {summary.duration_s:,.1f} s",
        lead=[
            *(Text(f"{note[0].upper()}{note[1:]}") for note in summary.notes),
            Text(f"Mean rate {per_second(summary.mean_rate_rps)}; {gaps}."),
            Text(f"Against the mean, {times}." if peaks else ""),
            Text("Busiest windows:" if windows else ""),
            Items(windows, bullets=False),
        ],
    )
    return terminal(about, screen)
