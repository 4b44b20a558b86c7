"""Studies: one question at many points - axes, searches for thresholds, and what matters most."""
