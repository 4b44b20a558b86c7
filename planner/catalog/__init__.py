"""GPUs, machines and prices, with sources and dates."""
