"""What a plan would do under other circumstances, in words."""
