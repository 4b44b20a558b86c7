"""Measurement: what real models cost on real devices, as Profiles."""
