"""The calls of a model's forward, seen as they happen: which mix the samples of a grid, and along which axes."""
