"""The clock: SimPy processes that serve, train and scale, what they recorded, and what that means."""
