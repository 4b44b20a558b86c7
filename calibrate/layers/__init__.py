"""Layers: a model taken apart into modules, operations and bytes."""
