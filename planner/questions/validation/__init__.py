"""A deployment run for real beside the same deployment simulated."""
