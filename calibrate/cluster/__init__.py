"""Clusters: every kind of GPU of a Ray cluster is measured."""
