"""How long a training job takes, what memory and money it needs."""
