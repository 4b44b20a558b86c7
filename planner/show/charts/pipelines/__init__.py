"""Pipelines as drawings."""
