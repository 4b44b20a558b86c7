"""Profiles as files: fitted, put together, checked and looked up. Needs no torch."""
