"""Where the nodes of an axis lie, from its coordinates: one placement, or a clear error."""
