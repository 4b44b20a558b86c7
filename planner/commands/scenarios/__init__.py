"""Commands that make a scenario, or say what one may hold."""
