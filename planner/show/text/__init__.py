"""Answers as text in a terminal."""
