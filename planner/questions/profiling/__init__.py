"""The costs of one model on one GPU, layer by layer: `planner profile`."""
