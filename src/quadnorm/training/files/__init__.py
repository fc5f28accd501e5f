"""Files of a run: its folder, its checkpoints, and models read back from them."""
