"""Making: the files of data that are shipped, made anew of what they come from. None of it is installed."""
