"""Bias on meshes: of one mesh of your own (:func:`bias`), of a sequence of them (:func:`sweep`), of named families.

>>> import numpy as np
>>> from quadnorm import voronoi_weights
>>> points = np.random.default_rng(0).random((400, 2)) ** 2       # crowded at one corner
>>> measured = bias(points, voronoi_weights(points, bounds=((0, 1), (0, 1))), box_field("exponential", dim=2))
>>> measured.counting.mean > 0.5 > 0.01 > measured.quadrature.mean
True
"""

from __future__ import annotations

from quadnorm._suggest import unknown
from quadnorm.lab.theory.meshes.bias import Bias, ExactField, MomentErrors, bias
from quadnorm.lab.theory.meshes.clouds import CLOUDS
from quadnorm.lab.theory.meshes.family import Family, Mesh, Sweep, sweep
from quadnorm.lab.theory.meshes.fields import BOX_FIELDS, box_field, sphere_field
from quadnorm.lab.theory.meshes.simplices import SIMPLICES
from quadnorm.lab.theory.meshes.sphere import SPHERE
from quadnorm.lab.theory.meshes.tensor import TENSOR

__all__ = [
    "BOX_FIELDS",
    "FAMILIES",
    "Bias",
    "ExactField",
    "Family",
    "Mesh",
    "MomentErrors",
    "Sweep",
    "bias",
    "box_field",
    "family",
    "sphere_field",
    "sweep",
]

FAMILIES: dict[str, Family] = {f.name: f for f in (*TENSOR, *SIMPLICES, *CLOUDS, *SPHERE)}


def family(name: str) -> Family:
    """The family of that name.

    >>> family("chebyshev").meshes(5)[0].points.shape
    (25, 2)
    """
    if name not in FAMILIES:
        raise ValueError(unknown("family of meshes", name, FAMILIES))
    return FAMILIES[name]
