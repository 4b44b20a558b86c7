"""Sessions: one model measured on several days, GPUs and hosts becomes one profile, which says how far they differ."""
