"""Lists for people to look at: profiles, prices, devices, recordings."""
