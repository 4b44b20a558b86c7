"""What models share, what sharing is worth, and whether to merge, swap or buy."""
