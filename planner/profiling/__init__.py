"""What one model costs on one GPU, layer by layer: `planner profile`."""
