"""Decisions that need no clock: who is next, what is batched, what must leave memory."""
