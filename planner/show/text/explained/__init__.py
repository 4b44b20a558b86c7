"""Explanations: why an answer is what it is, and what would change it. Each reads one kind of kept answer alone."""
