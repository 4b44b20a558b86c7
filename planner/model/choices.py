"""Choices that a command line offers too: names alone, which help imports in no time."""

from enum import StrEnum


class PriceKind(StrEnum):
    """How instances are paid for."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED_1Y = "reserved-1y"
    RESERVED_3Y = "reserved-3y"


class HorizonWay(StrEnum):
    """A way to keep machines for a load that rises and falls."""

    FIXED = "fixed"
    """The same number at all times, on demand."""
    SCHEDULED = "scheduled"
    """On demand by a timetable: each hour of the calendar has its number of machines."""
    AUTOSCALED = "autoscaled"
    """On demand, as many as the load wants, with a floor or without."""
    RESERVED = "reserved"
    """A reserved base of any size. The rest, if any, is on demand, by a timetable or as the load wants."""
    SPOT = "spot"
    """Machines that may be taken away, in any number over time, beside a base at any other price, or none."""
    OWN = "own"
    """Machines of one's own. The rest, if any, is rented in any other way."""


class Target(StrEnum):
    """Programs that a plan can be exported to."""

    TRITON = "triton"
    SKYPILOT = "skypilot"
    KUBERNETES = "kubernetes"
    RAY_SERVE = "ray-serve"
    OPENMETRICS = "openmetrics"
    PERFETTO = "perfetto"


class Picture(StrEnum):
    """Pictures of what was measured of a model."""

    LATENCY = "latency"
    """Run time and rate by batch size: measured points, fit and band."""
    MEMORY = "memory"
    """Memory by kind and batch size, of inference and of training."""
    LAYERS = "layers"
    """Operations and working set of each layer."""


class MeasurementFormat(StrEnum):
    """Tools whose files are read."""

    TRTEXEC_LOG = "trtexec-log"
    TRTEXEC_TIMES = "trtexec-times"
    TRTEXEC_PROFILE = "trtexec-profile"
    PERF_ANALYZER = "perf-analyzer"
    MODEL_ANALYZER = "model-analyzer"
    GENAI_PERF = "genai-perf"
    VLLM = "vllm"
    MLPERF = "mlperf"
    ULTRALYTICS = "ultralytics"
    TIMM = "timm"
    TIMM_JSON = "timm-json"
    TORCH_BENCHMARK = "torch-benchmark"
    CSV = "csv"


class PriceListFormat(StrEnum):
    """Price lists that are read."""

    SKYPILOT = "skypilot"
    GPUHUNT = "gpuhunt"
    AWS = "aws"
    AZURE = "azure"
    INFRACOST = "infracost"
    CSV = "csv"
    PRICES = "prices"
    """A prices.csv as plans take it."""


class PublicList(StrEnum):
    """Providers whose prices can be fetched; not GCP, whose list has no price of a GPU and its machine together."""

    AWS = "aws"
    AZURE = "azure"
    HYPERSTACK = "hyperstack"
    LAMBDA = "lambda"
    NEBIUS = "nebius"
    RUNPOD = "runpod"
    SEEWEB = "seeweb"
    VAST = "vast"


class EncodedCodec(StrEnum):
    """Ways in which engines pack video."""

    H264 = "h264"
    HEVC = "hevc"
    AV1 = "av1"


class Preset(StrEnum):
    """Presets of NVIDIA's encoders, from the quickest to the one of best quality."""

    P1 = "p1"
    P2 = "p2"
    P3 = "p3"
    P4 = "p4"
    P5 = "p5"
    P6 = "p6"
    P7 = "p7"


class HostWork(StrEnum):
    """Usual work of a core, which `planner calibrate --what host` times."""

    DECODE = "decode"
    RESIZE = "resize"
    LETTERBOX = "letterbox"
    CROP = "crop"
    SUPPRESS = "suppress"
    TRACK = "track"


class Codec(StrEnum):
    """Ways in which video is packed, with ten bits for a colour where that takes an engine another time."""

    H264 = "h264"
    HEVC = "hevc"
    HEVC_10BIT = "hevc-10bit"
    VP9 = "vp9"
    VP9_10BIT = "vp9-10bit"
    AV1 = "av1"

    @property
    def is_deep(self) -> bool:
        """Ten bits for a colour."""
        return self in (Codec.HEVC_10BIT, Codec.VP9_10BIT)
