"""Training and evaluation: configs, the loop, checkpoints that resume bit for bit, errors at every resolution."""
