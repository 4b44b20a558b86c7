"""Outages: hosts that fail, counted by how much of the time they are away.

Here are which of them are away together and what that makes late, and replications that show the mean over it.
"""
