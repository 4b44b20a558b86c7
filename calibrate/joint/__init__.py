"""Joint training: models that share layers, and what that costs their accuracy."""
