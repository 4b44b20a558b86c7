"""Placing: which batches, on which GPU, beside which models."""
