"""Pipelines on the clock as machine code: the world in columns, the same events, and what became of it."""
