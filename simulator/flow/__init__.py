"""Pipelines on the clock: items that pass from stage to stage, where they wait meanwhile, and what they add up to."""
