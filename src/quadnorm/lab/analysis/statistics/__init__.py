"""Statistics over seeds."""
