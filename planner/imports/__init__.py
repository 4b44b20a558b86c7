"""Questions made of what already runs elsewhere."""
