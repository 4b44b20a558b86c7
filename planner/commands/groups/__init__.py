"""Commands of two words, such as `planner prices show`."""
