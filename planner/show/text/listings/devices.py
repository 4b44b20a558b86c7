"""What was probed of a device, for people to look at."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from calibrate.io.points import FRAME_SIZES, PASSED_BYTES, WORKERS_MAX
from calibrate.library.reading import PRECISIONS
from planner.io.raw import numbers_in, part_of
from planner.show.document import Column, Document, Items, Rows, Table
from planner.show.terminal import terminal
from planner.units.writing import (
    Screen,
    counted,
    gigabytes_a_second,
    microseconds,
    per_second,
    seconds,
    size_text,
    watts,
)

FRAME_STEPS = ("decode", "resize", "letterbox", "crop")
"""Work of a processor on frames, as it is probed."""
PROBED: Sequence[tuple[str, str, Callable[[float], str], Mapping[str, str]]] = (
    (
        "Copies",
        "copy",
        gigabytes_a_second,
        {
            "to_device_pinned_bytes_per_s": "to the device from pinned memory",
            "to_device_pageable_bytes_per_s": "to the device from pageable memory",
            "from_device_pinned_bytes_per_s": "from the device to pinned memory",
            "from_device_pageable_bytes_per_s": "from the device to pageable memory",
            "host_bytes_per_s": "within main memory",
        },
    ),
    (
        "Copies begin after",
        "copy",
        microseconds,
        {
            "to_device_pinned_t0_s": "to the device from pinned memory",
            "to_device_pageable_t0_s": "to the device from pageable memory",
            "from_device_pinned_t0_s": "from the device to pinned memory",
            "from_device_pageable_t0_s": "from the device to pageable memory",
            "host_t0_s": "within main memory",
        },
    ),
    ("Its own memory", "device_copy", gigabytes_a_second, {"bytes_per_s": "read and written"}),
    (
        "Products of matrices",
        "matmul",
        lambda rate: f"{rate / 1e12:.3g} TFLOP/s",
        {f"{precision}_flops": f"at {precision}" for precision in PRECISIONS},
    ),
    ("Smallest operation", "launch", microseconds, {"queued_s": "queued", "synchronised_s": "waited for"}),
    (
        "Pictures loaded",
        "loader",
        per_second,
        {f"workers_{count}_samples_per_s": f"with {counted(count, 'worker')}" for count in range(WORKERS_MAX + 1)},
    ),
    (
        "One core takes",
        "host",
        seconds,
        {
            **{f"{step}_{w}x{h}_s": f"to {step} {w}x{h}" for step in FRAME_STEPS for w, h in FRAME_SIZES},
            "suppress_s": "to suppress overlapping boxes of 300",
            "track_s": "to track 50 objects",
        },
    ),
    (
        "Context",
        "context",
        size_text,
        {
            "lazy_bytes": "with kernels loaded when used",
            "eager_bytes": "with all of them loaded at once",
            "rss_bytes": "of the process",
        },
    ),
    ("Idle", "idle", watts, {"power_w": "with a context", "bare_power_w": "without one"}),
)
"""Single figures of probes: title, probe, how a figure is written, and what each is of."""


def device_show(raw: Mapping[str, Any], screen: Screen) -> str:
    """All that was probed of a device, by its file."""
    kind, values = (
        part_of(raw, "gpu"),
        {name: part_of(raw, "probes", name, "values") for name in part_of(raw, "probes")},
    )
    facts = [
        f"Source: {kind.get('source', '')}.",
        *(f"{what}: {text}." for what, text in _probed(values).items() if text),
        *_knees(part_of(raw, "probes", "knees")),
        *_told(part_of(raw, "probes")),
        *(f"Assumed: {text}" for text in raw.get("assumptions", [])),
        *(f"Doubt: {text}" for text in raw.get("doubts", [])),
    ]
    curve = Table(_pass_columns(part_of(raw, "probes", "knees", "samples")))
    name = str(kind.get("name", ""))
    return terminal(Document(name=name, headline=name, lead=[Items(facts, bullets=False), curve]), screen)


def _probed(values: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Sentences of single figures, by their title; empty where they were not probed."""
    return {
        title: ", ".join(f"{write(values[probe][key])} {of}" for key, of in figures.items() if key in values[probe])
        for title, probe, write, figures in PROBED
        if probe in values
    }


def _told(probes: Mapping[str, Any]) -> Iterator[str]:
    """What the loader did for each picture, and what could not be measured."""
    if work := part_of(probes, "loader", "details").get("work"):
        yield f"Loading a picture: {work}."
    for name in probes:
        if why := part_of(probes, name, "details").get("left_out"):
            yield f"Not measured by `{name}`: {why}."


def _knees(probe: Mapping[str, Any]) -> list[str]:
    """`A pass over a working set, each number read and written, slows down past 2.10 MB and 33.55 MB.`"""
    if not probe:
        return []
    sizes = [f"{size / 1e6:.2f} MB" for size in numbers_in(part_of(probe, "details").get("knees_bytes"))]
    past = f"slows down past {' and '.join(sizes)}" if sizes else "slows down at no size"
    return [f"A pass over a working set, each number read and written, {past}."]


def _pass_columns(samples: Mapping[str, Any]) -> list[Column]:
    """Time and rate of one pass, by size."""
    rows = Rows([(size, median(taken)) for size in PASSED_BYTES if (taken := numbers_in(samples.get(f"{size}_s")))])
    if not rows.items:
        return []
    return [
        rows.figures("working set", lambda row: f"{row[0] / 1e6:.2f} MB"),
        rows.figures("one pass", lambda row: f"{row[1] * 1e6:,.3g} us" if row[1] < 1e-3 else seconds(row[1])),
        rows.figures("rate", lambda row: gigabytes_a_second(2 * row[0] / row[1])),
    ]
