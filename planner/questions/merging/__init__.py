"""Merging, swapping or buying: which is cheapest, and joint training."""
