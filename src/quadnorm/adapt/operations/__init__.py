"""The one table of operations."""

from quadnorm.adapt.operations import attention, fourier, norms, padding, products, reductions, stencils

__all__ = ["attention", "fourier", "norms", "padding", "products", "reductions", "stencils"]
