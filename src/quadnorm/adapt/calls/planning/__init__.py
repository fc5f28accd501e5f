"""A model's calls on any grid, from watched runs on its training grid and around it."""
