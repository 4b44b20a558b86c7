"""Statements: what an answer says, as a code with its subjects and figures. `planner.words` makes sentences of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Code(StrEnum):
    """What is said."""

    # Why a candidate was rejected
    OFFERED_FOR_LESS = "offered-for-less"
    NO_PRICE = "no-price"
    NOT_SOLD = "not-sold"
    NOT_MADE = "not-made"
    GPU_NOT_OWNED = "gpu-not-owned"
    GPU_NOT_PRICED = "gpu-not-priced"
    NO_PROFILE = "no-profile"
    MODEL_TOO_LARGE = "model-too-large"
    SAMPLE_TOO_SLOW = "sample-too-slow"
    NO_GPU_LEFT = "no-gpu-left"
    GPU_TOO_FULL = "gpu-too-full"
    HOST_TOO_FULL = "host-too-full"
    TOO_BUSY = "too-busy"
    FEW_TURNS = "few-turns"
    LONG_WAIT = "long-wait"
    OVERLOADED = "overloaded"
    QUEUES_GREW = "queues-grew"
    MISSED = "missed"
    MISSED_IN_DRAWS = "missed-in-draws"
    NOT_PROVEN = "not-proven"
    NOT_JUDGED = "not-judged"
    TOO_MANY_GPUS = "too-many-gpus"
    TOO_FEW_MACHINES = "too-few-machines"
    TOO_DEAR = "too-dear"
    # What would help
    LOWER_PRICE = "lower-price"
    OTHER_PRICE = "other-price"
    ALLOW_RETIRED = "allow-retired"
    ALLOW_RETIRED_PURCHASE = "allow-retired-purchase"
    NAME_PROVIDERS = "name-providers"
    PRICE_THE_GPU = "price-the-gpu"
    MEASURE = "measure"
    AS_SAID = "as-said"
    LARGER_GPU = "larger-gpu"
    CUT_OVER = "cut-over"
    RAISE_LATENCY = "raise-latency"
    RAISE_LATENCY_WITH_WAITING = "raise-latency-with-waiting"
    RAISE_ANY_LATENCY = "raise-any-latency"
    ONE_MORE_MACHINE = "one-more-machine"
    MORE_MEMORY = "more-memory"
    MORE_GPUS = "more-gpus"
    ALLOW_SWAPPING = "allow-swapping"
    FEWER_CAMERAS = "fewer-cameras"
    LOWER_RATE = "lower-rate"
    LESS_DEMAND = "less-demand"
    LOWER_SLO = "lower-slo"
    LONGER_HORIZON = "longer-horizon"
    ANY_LONGER_HORIZON = "any-longer-horizon"
    MORE_REPLICATIONS = "more-replications"
    RAISE_MAX_GPUS = "raise-max-gpus"
    RAISE_COUNT = "raise-count"
    OTHER_MACHINE = "other-machine"
    RAISE_MAX_COST = "raise-max-cost"
    # What must be added to a reason or a remedy
    NOTHING_PREDICTS = "nothing-predicts"
    CUTTING_IS_NO_HELP = "cutting-is-no-help"
    OTHERS_MISS_TOO = "others-miss-too"
    MISSED_IN_A_REPLAY = "missed-in-a-replay"
    # Warnings
    DOUBT = "doubt"
    STALE_PRICE = "stale-price"
    STALE_PRICES = "stale-prices"
    SPOT = "spot"
    RETIRED = "retired"
    PREDICTED = "predicted"
    BATCHES_END = "batches-end"
    PARTLY_ASSUMED = "partly-assumed"
    WINDOWS = "windows"
    FEW_OUTAGES = "few-outages"
    UNPROVEN = "unproven"
    CUT_OFF = "cut-off"
    ACCURACY_ASSUMED = "accuracy-assumed"
    TRAINING_COST_UNKNOWN = "training-cost-unknown"
    CHEAPER_NOW = "cheaper-now"
    ACCURACY_LOST = "accuracy-lost"
    ACCURACY_UNKNOWN = "accuracy-unknown"
    # Assumptions
    OF_PROFILES = "of-profiles"
    CONTEXT = "context"
    POWER_BY_PACE = "power-by-pace"
    IDLE_POWER = "idle-power"
    PROCESSOR = "processor"
    STAGES_BY_WEIGHTS = "stages-by-weights"
    SHARED_LINK = "shared-link"
    PAGEABLE_RATE = "pageable-rate"
    DISK_RATE = "disk-rate"
    HOST_MEMORY = "host-memory"
    REPRICED = "repriced"
    OF_MERGING = "of-merging"
    SPARES = "spares"
    # Why to measure
    MIGHT_DO_IT = "might-do-it"
    WIDEST_BAND = "widest-band"
    LEAST_ROOM = "least-room"
    # What helps to read a difference
    NO_LONGER_FEASIBLE = "no-longer-feasible"
    FEASIBLE_NOW = "feasible-now"
    SAME_ARRIVALS = "same-arrivals"
    OTHER_ARRIVALS = "other-arrivals"
    SAME_SEED = "same-seed"
    OTHER_SEEDS = "other-seeds"
    OLD_FLEET_MEETS = "old-fleet-meets"
    OLD_FLEET_REJECTED = "old-fleet-rejected"
    NEW_FLEET_MET = "new-fleet-met"
    NEW_FLEET_REJECTED = "new-fleet-rejected"
    HIDDEN_CHANGES = "hidden-changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that an answer says."""

    code: Code
    subjects: tuple[str, ...] = ()
    """Whom or what it is about: models, instances, GPUs, dates, as the code asks."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """By name, with the unit in the name."""
    text: str = ""
    """Words that somebody else wrote, such as an assumption in a profile."""

    def __hash__(self) -> int:
        return hash((self.code, self.subjects, tuple(sorted(self.figures.items())), self.text))
