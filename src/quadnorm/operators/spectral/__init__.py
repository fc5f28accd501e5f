"""Spectral convolution: Fourier sums with explicit nodes, weights and period."""
