"""Neural operators whose spatial sums know their measure."""

from quadnorm.operators.spectral import SpectralConv

__all__ = ["SpectralConv"]
