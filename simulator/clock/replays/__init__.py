"""What replays of one deployment have in common: arrivals that were drawn, and its queues as machine code has them."""
