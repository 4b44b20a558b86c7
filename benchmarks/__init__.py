"""Speed of simulator and planner, as ratios against a baseline that runs beside them."""
