"""The nouns of planning: scenarios and plans."""
