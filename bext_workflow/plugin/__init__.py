"""Plugins: the hooks that they implement, how they are found, and what the host knows of them."""
