"""Answers as charts, by matplotlib."""
