"""The simulated world: hardware, models, demand, deployments, and the clock that runs them."""
