"""Fields whose mean and mean square are known in closed form: on the unit box in any dimension, and on the sphere."""

from __future__ import annotations

from math import e, pi

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.lab.theory.meshes.bias import Array, ExactField

CUT = 1 / pi  # irrational: never a node of a grid with rational nodes


def _sines(p: Array) -> Array:
    return np.asarray(np.sin(pi * p).prod(axis=1))


# name: (values, ⨍u and ⨍u² of one factor, and whether the field is a product of one factor per axis)
_BOX = {
    "sines": (_sines, 2 / pi, 1 / 2, True),  # zero on the boundary, as solutions often are
    "parabolas": (lambda p: (4 * p * (1 - p)).prod(axis=1), 2 / 3, 8 / 15, True),
    "exponential": (lambda p: np.exp(p.sum(axis=1)), e - 1, (e**2 - 1) / 2, True),  # not zero there, not symmetric
    "bumps": (lambda p: (np.sin(pi * p) ** 2).prod(axis=1), 1 / 2, 3 / 8, True),  # value and slope are zero there
    "cosines": (lambda p: np.cos(pi * p).prod(axis=1), 0.0, 1 / 2, True),  # odd about the middle of each axis
    "step": (lambda p: (p[:, 0] < CUT).astype(np.float64), CUT, CUT, False),
    "constant": (lambda p: np.ones(len(p)), 1.0, 1.0, False),
}
BOX_FIELDS = tuple(_BOX)


def box_field(name: str, dim: int = 2) -> ExactField:
    """A field on [0, 1]^dim by name; moments of products are powers of those of one factor.

    sines Π sin πx; parabolas Π 4x(1−x); exponential e^Σx; bumps Π sin² πx; cosines Π cos πx; step 1 where x₁ < 1/π;
    constant 1.

    >>> field = box_field("parabolas", dim=2)
    >>> round(field.mean, 6), round(field.variance, 6)  # (2/3)², (8/15)² − (2/3)⁴
    (0.444444, 0.086914)
    """
    if name not in _BOX:
        raise ValueError(unknown("field", name, BOX_FIELDS))
    if dim < 1:
        raise ValueError(f"expected one dimension or more, got dim={dim}")
    values, mean, square, product = _BOX[name]
    k = dim if product else 1
    return ExactField(name, values, mean**k, square**k)


def sphere_field() -> ExactField:
    """z² + z + xy on the unit sphere, a sum of harmonics of degree 0 to 2; points (N, 3).

    ⨍z² = 1/3, ⨍z⁴ = 1/5, ⨍x²y² = 1/15 and odd monomials vanish: mean 1/3, mean square 1/5 + 1/3 + 1/15 = 3/5.

    >>> sphere_field().values(np.array([[0.0, 0.0, 1.0]]))
    array([2.])
    """
    return ExactField("harmonics", lambda p: p[:, 2] ** 2 + p[:, 2] + p[:, 0] * p[:, 1], 1 / 3, 3 / 5)
