"""Tensor-product grids with dense nodes at both ends, at one end, as Chebyshev's nodes, or perturbed at random."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import numpy as np

from quadnorm.lab.theory.meshes.bias import Array
from quadnorm.lab.theory.meshes.family import Family, Mesh, evidence
from quadnorm.lab.theory.meshes.fields import box_field
from quadnorm.lab.theory.statement import Evidence, Statement
from quadnorm.measures import Grid

STRENGTH = 3.0
SIZES = (17, 33, 65, 129, 257)
Nodes = Callable[[int, np.random.Generator], Array]


def crowded(s: Array, strength: float) -> Array:
    """Numbers in [0, 1] moved towards both ends: ½(1 + tanh(β(2s−1))/tanh β); unchanged for β = 0.

    >>> crowded(np.array([0.0, 0.5, 1.0]), 1.5)
    array([0. , 0.5, 1. ])
    """
    if strength == 0:
        return s
    return np.asarray(0.5 * (1 + np.tanh(strength * (2 * s - 1)) / np.tanh(strength)))


def refined(n: int, strength: float = STRENGTH) -> Array:
    """Nodes that are dense at both ends of [0, 1]; evenly spaced for β = 0.

    The spacing is largest in the middle; there it is, in the limit, cosh²β times the spacing at the ends.

    >>> refined(5, 2.0).round(3)
    array([0.   , 0.105, 0.5  , 0.895, 1.   ])
    """
    return crowded(np.linspace(0, 1, n), strength)


def chebyshev(n: int) -> Array:
    """Extrema of Chebyshev's polynomial on [0, 1]: ½(1 − cos πj/(n−1)).

    >>> chebyshev(3)
    array([0. , 0.5, 1. ])
    """
    x: Array = np.sin(pi / 2 * np.linspace(0, 1, n)) ** 2  # exact at both ends
    return x


def graded(n: int, power: float = 2.0) -> Array:
    """Nodes that are dense at the left end: (j/(n−1))^power.

    >>> graded(3)
    array([0.  , 0.25, 1.  ])
    """
    return np.asarray(np.linspace(0, 1, n) ** power)


def perturbed(n: int, rng: np.random.Generator, size: float = 0.35) -> Array:
    """Even nodes, the inner ones moved at random by up to ``size`` < ½ of the spacing; the ends stay."""
    x = np.linspace(0, 1, n)
    x[1:-1] += rng.uniform(-size, size, n - 2) / (n - 1)
    return x


def tensor(*nodes: Array) -> Mesh:
    """The grid of these nodes with its control volumes; h = 1/(n−1) of the first axis."""
    shape = tuple(x.size for x in nodes)
    measure = Grid.from_coordinates(*nodes, bounds=((0.0, 1.0),) * len(nodes))
    points = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(nodes))
    return Mesh(points, measure.weights(shape).numpy().ravel(), 1 / (shape[0] - 1))


def _family(name: str, about: str, nodes: Nodes, counting: tuple[float, float], draws: int = 1) -> Family:
    return Family(
        name,
        about,
        lambda n, rng: tensor(nodes(n, rng), nodes(n, rng)),
        box_field("sines", 2),
        SIZES,
        counting,
        draws=draws,
    )


STAYS = (-0.1, 0.2)  # the bias with equal weights tends to a constant
TENSOR = (
    _family("even", "j/(n−1), ends included", lambda n, rng: np.linspace(0, 1, n), (0.85, 1.15)),
    _family("perturbed", "even, moved at random by up to 0.35 h", perturbed, (0.85, 1.15), 8),
    _family("graded", "(j/(n−1))²", lambda n, rng: graded(n), STAYS),
    _family("chebyshev", "½(1 − cos πj/(n−1))", lambda n, rng: chebyshev(n), STAYS),
    _family("boundary-refined", f"tanh, strength {STRENGTH:g}", lambda n, rng: refined(n), STAYS),
)


def measure() -> Evidence:
    """Five families of 17² to 257² nodes."""
    return evidence(TENSOR)


STATEMENT = Statement(
    name="meshes-tensor",
    text="On uneven tensor grids equal weights give mean, variance and output a bias that does not vanish with "
    "refinement; with control volumes the error is O(h²). On even and on randomly perturbed grids it is O(h) with "
    "equal weights.",
    formula="Σ p_i u(x_i) − ⨍u = O(h²) for p_i = |V_i|/|Ω|, and → ∫u(x(s)) ds − ∫u dx ≠ 0 for p_i = 1/N",
    label="fig:nonuniform-bias",
    measure=measure,
)
