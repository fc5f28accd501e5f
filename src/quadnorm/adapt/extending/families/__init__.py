"""One module for each family of functions that mix samples: what is kept of a call of the native run, and how the run
on the new grid uses it.

``table.py`` is the table of all of them. ``norms.py`` keeps means and variances, ``shares.py`` the total of a softmax,
``products.py`` and ``attention.py`` keys and values, ``fourier.py`` spectra (with ``spectra.py``, the waves as such)
and ``spectral_conv.py`` the coefficients of this package's spectral convolution. ``interpolated.py`` takes the rest,
which has no formula between the training nodes.

Importing this room fills the table.
"""

from quadnorm.adapt.extending.families import (
    attention,
    fourier,
    interpolated,
    norms,
    products,
    shares,
    spectral_conv,
)

__all__ = ["attention", "fourier", "interpolated", "norms", "products", "shares", "spectral_conv"]
