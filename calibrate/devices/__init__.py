"""Devices: what CUDA and processors have in common, their timers, their memory, and what may be wrong with them."""
