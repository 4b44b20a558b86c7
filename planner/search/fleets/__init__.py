"""Fleets: which are tried, cheapest first, until one meets every SLO, and what stands beside it."""
