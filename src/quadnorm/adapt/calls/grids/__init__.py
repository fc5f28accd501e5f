"""How sizes move with the grid, and values taken from one grid to another."""
