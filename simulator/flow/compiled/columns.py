"""Columns: the stages, stations, queues and GPUs of a world with pipelines, as machine code reads and writes them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FACTORS = 1024
"""Factors on batch times that are drawn at once, by queue."""
NEVER, LATE, NEWEST, NEWEST_AND_LATE = range(4)
"""What queues give up."""
Rows = NDArray[np.void]
INT, FLOAT, BOOL = "i8", "f8", "?"


def _rows(**fields: str) -> np.dtype[np.void]:
    return np.dtype(list(fields.items()), align=True)


STAGE = _rows(
    begin=INT,  # of its items and places
    count=INT,  # items that came
    is_model=BOOL,
    is_fed=BOOL,  # by the source, at stations
    way=INT,
    way_end=INT,
    join=INT,
    join_end=INT,
    station=INT,
    station_end=INT,
    delays=INT,  # before its items at stations, -1 for none
)
ITEM = _rows(frame=INT, work_s=FLOAT, home=INT, owner=INT)
"""Of each that may come: the station where it must go, -1 for any; of each place, the queue where it goes."""
PLACE = _rows(item=INT, came_s=FLOAT, start_s=FLOAT, finish_s=FLOAT, station=INT, next=INT)
"""Items in the order in which they came; `next`: the place that ends in the same event, -1 for none."""
WAY = _rows(stage=INT, begin=INT)
"""To a stage that follows, and where it begins in `begins`."""
JOIN = _rows(stage=INT, begin=INT)
"""A stage that waits for several, and where frame 0 has its row in `joined`."""
JOINED = _rows(item=INT, left=INT)
FRAME = _rows(arrival_s=FLOAT, left=INT, is_lost=BOOL, answered_s=FLOAT, lost_s=FLOAT)
SOURCE = _rows(first=INT, frame=INT, end=INT, stage=INT, stage_end=INT)
"""A pipeline: its frames, the next of them, and its stages."""
STATION = _rows(
    server=INT,
    server_end=INT,
    speed=FLOAT,
    capacity=FLOAT,
    outstanding=INT,
    load=FLOAT,
    has_begun=BOOL,  # any item
)
USE = _rows(station=INT, start_s=FLOAT, finish_s=FLOAT)
QUEUE = _rows(
    gpu=INT,
    stage=INT,
    begin=INT,  # of its rows in `waiting` and in the log
    head=INT,
    end=INT,
    rows=INT,
    cap=INT,
    drop=INT,
    delay_s=FLOAT,
    slo_s=FLOAT,
    longest_s=FLOAT,
    booked_s=FLOAT,
    rest=INT,
    rest_s=FLOAT,
    used=INT,  # of its factors; -1: they are all 1
    dealt=INT,  # when it got something last
    delays=INT,  # before its batches, where whoever serves takes time
)
WAITING = _rows(came_s=FLOAT, place=INT, frame=INT)
BATCH = _rows(start_s=FLOAT, finish_s=FLOAT, count=INT)
GPU = _rows(
    begin=INT,  # of its queues
    end=INT,
    last=INT,  # the queue that ran last
    entries=INT,  # in the agenda
    sleep=INT,  # so many so far
    is_awake=BOOL,
    is_rung=BOOL,
    is_waking=BOOL,
    queue=INT,  # of the batch that runs
    size=INT,
    slowdown=FLOAT,  # beside stations that work
    usual_share=FLOAT,
)
ENTRY = _rows(ready_s=FLOAT, priority=FLOAT, queue=INT)
EVENT = _rows(at_s=FLOAT, order=INT, what=INT, who=INT, which=INT)
CLOCK = _rows(
    now_s=FLOAT,
    horizon_s=FLOAT,
    events=INT,
    room=INT,  # for events, before any one brings as many as can be
    order=INT,
    uses=INT,
    deals=INT,
    empty=INT,  # the queue whose factors are used up, -1 for none
    is_full=BOOL,  # the agenda of some GPU
    in_turn=BOOL,
    by_deadline=BOOL,
    is_delayed=BOOL,  # whoever serves takes time
    draw=INT,  # the address of what draws delays
)
SPARE = _rows(item=INT, first=INT, last=INT)


class Columns(NamedTuple):
    """A world; each field has rows of the kind above, those of all stages or GPUs one after another."""

    clock: Rows
    stages: Rows
    items: Rows
    places: Rows
    ways: Rows
    begins: NDArray[np.int64]
    joins: Rows
    join_after: NDArray[np.int64]
    """By stage: the joins that wait for it."""
    joined: Rows
    frames: Rows
    sources: Rows
    stations: Rows
    free_s: NDArray[np.float64]
    """When each server of each station will be free."""
    uses: Rows
    queues: Rows
    waiting: Rows
    log: Rows
    service_s: NDArray[np.float64]
    """By queue and batch size."""
    factors: NDArray[np.float64]
    """By queue: `FACTORS` on the times of its next batches."""
    wake_s: NDArray[np.float64]
    """The next `DELAYS` of each of those that differ."""
    follow_s: NDArray[np.float64]
    used: NDArray[np.int64]
    """How many of these are used up, and of those: two columns."""
    gpus: Rows
    agenda: Rows
    events: Rows
    spare: Rows
    """Room to reckon in."""
