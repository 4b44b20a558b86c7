"""Sessions: one model measured on several days, cards and hosts becomes one profile, which says how far they differ."""
