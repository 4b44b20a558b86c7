"""What is answered about a training: options as data, which of them is best, and what to know of them."""
