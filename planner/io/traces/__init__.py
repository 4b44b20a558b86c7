"""Recorded arrivals: read from plain CSV and from the forms in which recordings are published, summed up, written."""
