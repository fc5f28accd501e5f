"""Sums over samples in a model's own calls, taken on a new grid under the training grid's measure."""
