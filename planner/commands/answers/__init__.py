"""Commands on an answer that was kept."""
