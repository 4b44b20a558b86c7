"""Which models share which GPU of a fleet, with which batch sizes; a GPU is judged by its duty cycle."""
