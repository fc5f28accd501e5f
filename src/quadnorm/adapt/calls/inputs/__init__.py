"""A model's inputs: where the grid is in them, and inputs to try a model with."""
