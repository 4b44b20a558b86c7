"""Replays: how long, how often, and what they say of a plan."""
