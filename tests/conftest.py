"""Property tests draw the same examples on every run; `--hypothesis-profile=default` draws new ones."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
