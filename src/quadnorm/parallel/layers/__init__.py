"""Norms, attention, spectral convolutions and whole operators whose sums run over all ranks."""
