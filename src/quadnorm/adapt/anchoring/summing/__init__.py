"""Sums over samples in a model's own calls, taken on a new grid under the training grid's measure.

``model.py`` has the model that runs so, and the run itself: each call is met before it is made, and if it has a row in
``table.py``, the row's function gives the result. In it every new sample counts as many training samples as it stands
for: ``weights.py`` says how many. The other modules have the rows, one for each family of functions: ``reductions.py``,
``norms.py``, ``shares.py`` (softmax), ``products.py``, ``attention.py``, ``fourier.py``, ``padding.py`` and
``derivatives.py``. ``units.py`` marks what stays in units of the new grid's spacing.

Importing this room fills the table.
"""

from quadnorm.adapt.anchoring.summing import (
    attention,
    derivatives,
    fourier,
    norms,
    padding,
    products,
    reductions,
    shares,
)

__all__ = ["attention", "derivatives", "fourier", "norms", "padding", "products", "reductions", "shares"]
