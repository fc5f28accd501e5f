"""Why equal weights miss the mean on a boundary-refined mesh, node by node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadnorm.lab.theory.meshes.bias import Array
from quadnorm.lab.theory.meshes.fields import box_field
from quadnorm.lab.theory.meshes.tensor import refined, tensor
from quadnorm.lab.theory.statement import Check, Evidence, Statement

SIZE, STRENGTH, STRIP = 64, 2.0, 0.1


@dataclass(frozen=True)
class Mechanism:
    """The parts of the two means Σ u/N and Σ |V| u on an n × n grid; arrays (n, n) unless noted.

    ``difference`` = u/N − |V| u = ``mismatch`` · u is what each node adds to the error; it sums to equal − volumes.
    """

    nodes: Array  # (n,), the same on both axes
    edges: Array  # (n+1,), the boundaries of the control volumes
    field: Array
    volume: Array
    exact: float

    @property
    def mismatch(self) -> Array:
        return 1 / self.field.size - self.volume

    @property
    def equal_shares(self) -> Array:
        return self.field / self.field.size

    @property
    def volume_shares(self) -> Array:
        return self.volume * self.field

    @property
    def difference(self) -> Array:
        return self.mismatch * self.field

    @property
    def equal(self) -> float:
        """The mean with equal weights."""
        return float(self.equal_shares.sum())

    @property
    def volumes(self) -> float:
        """The mean with control volumes."""
        return float(self.volume_shares.sum())

    def strip(self, width: float = STRIP) -> Array:
        """Whether a node is within ``width`` of the boundary; booleans."""
        near = np.minimum(self.nodes, 1 - self.nodes) < width
        return np.asarray(near[:, None] | near[None, :])


def mechanism(n: int = SIZE, strength: float = STRENGTH) -> Mechanism:
    """Π sin πx, exact mean 4/π², on the boundary-refined n × n grid.

    >>> parts = mechanism()
    >>> round(parts.exact, 3), round(parts.volumes, 3), round(parts.equal, 3)
    (0.405, 0.405, 0.166)
    """
    x = refined(n, strength)
    points, weights, _ = tensor(x, x)
    field = box_field("sines", 2)
    edges = np.concatenate([[0.0], (x[1:] + x[:-1]) / 2, [1.0]])
    return Mechanism(x, edges, field.values(points).reshape(n, n), weights.reshape(n, n), field.mean)


def measure() -> Evidence:
    """Both means and the exact one; shares of nodes and of area in a strip at the boundary and in the rest."""
    parts = mechanism()
    strip = parts.strip()
    rows = tuple(
        {
            "where": where,
            "share of nodes": float(at.mean()),
            "share of area": float(parts.volume[at].sum()),
            "mean of the field": float(parts.volume_shares[at].sum() / parts.volume[at].sum()),
            "adds, equal": float(parts.equal_shares[at].sum()),
            "adds, volumes": float(parts.volume_shares[at].sum()),
            "difference": float(parts.difference[at].sum()),
        }
        for where, at in (
            (f"within {STRIP:g} of the boundary", strip),
            ("the rest", ~strip),
            ("all", np.full_like(strip, True)),
        )
    )
    gap = parts.equal - parts.volumes
    area = 1 - (1 - 2 * STRIP) ** 2
    numbers = (
        Check("mean with equal weights / exact", parts.equal / parts.exact, 0.35, 0.5),
        Check("mean with control volumes / exact", parts.volumes / parts.exact, 0.997, 1.003),
        Check("|Σ contributions − (equal − volumes)|", abs(float(parts.difference.sum()) - gap), 0.0, 1e-13),
        Check("strip: share of nodes / share of area", float(strip.mean()) / area, 1.5, float("inf")),
        Check("strip: volumes of its nodes / its area", float(parts.volume[strip].sum()) / area, 0.9, 1.1),
        Check("corner: its volume · N", float(parts.volume[0, 0]) * parts.volume.size, 0.0, 0.1),
    )
    return Evidence((), numbers, rows, (f"{SIZE}² nodes, strength {STRENGTH:g}; the paper has 0.171 and 0.417",))


STATEMENT = Statement(
    name="mechanism",
    text="On a boundary-refined 64² mesh most nodes lie in a thin strip at the boundary, which has little area and "
    "small values: equal weights give the strip too much weight, control volumes weigh it by its area.",
    formula="Σ u_i/N − Σ |V_i| u_i = Σ (1/N − |V_i|) u_i",
    label="fig:nonuniform-mechanism",
    measure=measure,
)
