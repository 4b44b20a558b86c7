"""Pipelines in words."""
