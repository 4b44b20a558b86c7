"""Long horizons: days of load that rises and falls, and ways to keep GPUs for it side by side."""
