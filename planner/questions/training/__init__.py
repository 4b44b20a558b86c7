"""Time, memory and cost of a training."""
