"""The zoo: models by name."""
