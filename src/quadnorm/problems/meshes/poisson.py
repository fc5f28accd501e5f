"""Poisson's equation on random triangle meshes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from quadnorm.problems.meshes.base import MeshProblem
from quadnorm.problems.solvers.quadratic import Forms


@dataclass(frozen=True, kw_only=True)
class PoissonMesh(MeshProblem):
    """−Δu = f on [0, 1]², sampled at the vertices of unstructured meshes.

    Boundary: u = 0. Input → output: (control volume, x, y, f) → u at each vertex.
    Law: f = Σ c(m,n) sin(mπx) sin(nπy), m, n = 1…8, c = s·ξ·(m²+n²)^(−p/2), p = 2, ξ standard normal; s makes the
    expected mean square of f equal to 1. f depends on seed and sample, not on the mesh.
    Nodes: the vertices of a random mesh, another one for each sample and resolution; the volumes are those of the
    lumped mass matrix (a third of the triangles around a vertex) and sum to 1.
    Solver: scikit-fem, biquadratic elements on 48×48 squares, one sparse LU for all samples; the finite element
    function is evaluated at the vertices, so all meshes sample the same u. Relative L² error against the series
    û = f̂/(π²(m²+n²)) about 10⁻⁵; order 3 observed as the squares are refined. Quadratic triangles on the random meshes
    themselves converge to the same u.
    Cost: about 3 ms to solve on one busy core (after 0.5 s once); sampling takes 10 ms at 32² vertices and 45 ms at
    64², nearly all of it for the triangulation; 75 KB on disk.
    Left open by the paper: it names meshes as future work. Chosen: as above.
    """

    name: ClassVar[str] = "poisson-mesh"
    inputs: ClassVar[tuple[str, ...]] = ("volume", "x", "y", "f")
    outputs: ClassVar[tuple[str, ...]] = ("u",)

    @staticmethod
    def stiffness(forms: Forms, *material: float) -> Any:
        return forms["xx"] + forms["yy"]
