"""Units and figures as people write and read them."""
