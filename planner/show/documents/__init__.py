"""Answers as documents: what is shown of each, once for terminal, Markdown and page."""
