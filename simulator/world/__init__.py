"""Nouns of the simulated world: hardware, models, profiles, deployments, workloads. Frozen, units in names."""
