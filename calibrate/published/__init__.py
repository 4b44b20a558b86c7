"""Published: what others measured, under one name for each model, GPU, runtime and precision (no torch)."""
