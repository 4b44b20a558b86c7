"""Assembling: what was measured of a model and a device becomes profiles and a device file. Pure; needs no torch."""
