"""Readiness: what a plan would do were machines away, the load another, or the scenario changed."""
