"""Serving on a real device, in real time."""
