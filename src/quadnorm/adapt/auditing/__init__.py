"""Which part of a model depends on the grid, and by how much."""
