"""What a set of models could share, what of it to share so that each keeps its accuracy, and what that costs."""
