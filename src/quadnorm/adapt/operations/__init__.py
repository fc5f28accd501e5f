"""The one table of operations: what is known of each function that mixes samples.

``base.py`` has the class of an entry and the table. The entries: ``norms.py``, ``reductions.py`` (with softmax and
derivatives), ``fourier.py``, ``attention.py``, ``products.py``, ``padding.py`` and ``stencils.py`` (kernels, pools,
shifts, slices). Importing this room fills the table.
"""

from quadnorm.adapt.operations import attention, fourier, norms, padding, products, reductions, stencils
from quadnorm.adapt.operations.base import TABLE, Operation, anchoring, extending

__all__ = [
    "TABLE",
    "Operation",
    "anchoring",
    "attention",
    "extending",
    "fourier",
    "norms",
    "padding",
    "products",
    "reductions",
    "stencils",
]
