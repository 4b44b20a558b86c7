"""Pictures of a model by name, which help imports in no time."""

from enum import StrEnum


class Picture(StrEnum):
    """Pictures of a model."""

    LATENCY = "latency"
    """Run time and rate by batch size: measured points, fit and band."""
    MEMORY = "memory"
    """Memory by kind and batch size, of inference and of training."""
    LAYERS = "layers"
    """Operations and working set of each layer."""
