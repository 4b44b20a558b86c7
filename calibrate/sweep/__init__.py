"""Sweeps: which points are measured next, in a process of their own, and never lost."""
