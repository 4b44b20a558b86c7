"""Exports: a plan in the words of the programs that run it, watch it or draw it."""
