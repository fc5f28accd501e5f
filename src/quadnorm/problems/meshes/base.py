"""Problems on unstructured meshes: a solved instance is sampled at the vertices of a random mesh."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from math import isqrt
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from quadnorm._suggest import unknown
from quadnorm.measures._cache import CACHE
from quadnorm.problems.base import Array, Problem, Resolution, stream
from quadnorm.problems.meshes.triangulations import FAMILIES, vertices, volumes
from quadnorm.problems.parameters import Decay, Range
from quadnorm.problems.pdes.sine import forcing_amplitudes
from quadnorm.problems.points import CARRIED, POINTS
from quadnorm.problems.solvers import quadratic
from quadnorm.problems.solvers.pool import run
from quadnorm.problems.solvers.products import product

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MeshProblem(Problem):
    """A forcing drawn as a sine series, solved once by finite elements; each sample has its own mesh.

    Resolution n means n² vertices. x is (B, 3 + C_in, n²): the control volume of each vertex (they sum to 1), its two
    coordinates, then the forcing; y is (B, C_out, n²). A volume of 0 marks padding.
    """

    placement: str = POINTS
    mesh: str = "uniform"
    strength: Annotated[float, Range(0, 0.95)] = 0.8  # at 1 the spacing at the boundary is of second order in 1/n
    modes: Annotated[int, Range(1, 256)] = 8
    decay: Decay = 2.0
    fine: Annotated[int, Range(2, 512)] = 48

    placements: ClassVar[tuple[str, ...]] = (POINTS,)
    views: ClassVar[tuple[str, ...]] = ("placement", "mesh", "strength")
    smallest: ClassVar[int] = 4
    block: ClassVar[int] = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mesh not in FAMILIES:
            raise ValueError(f"{self.name}: " + unknown("mesh", self.mesh, FAMILIES))
        if self.fine < 2 * self.modes:
            raise ValueError(
                f"{self.name}: fine must be an int of at least 2·modes = {2 * self.modes}, the finite elements per "
                f"axis; got {self.fine!r}"
            )

    @staticmethod
    @abstractmethod
    def stiffness(forms: quadratic.Forms, *material: float) -> Any:
        """The sparse matrix of the bilinear form, the components of the field one after the other."""

    @property
    def material(self) -> tuple[float, ...]:
        """The material parameters that ``stiffness`` takes."""
        return ()

    def vertices(self, index: int, resolution: int, seed: int = 0) -> F64:
        """The vertices (n², 2) of one sample's mesh; they depend on the family, n, the seed and the index."""
        n = isqrt(self.shape(resolution)[0])
        return vertices(stream(self.name, seed, index, f"mesh {n}"), n, self.mesh, self.strength)

    def shape(self, resolution: Resolution) -> tuple[int, ...]:
        """(n²,): the number of vertices."""
        if isinstance(resolution, bool) or not isinstance(resolution, (int, np.integer)) or resolution < self.smallest:
            raise ValueError(
                f"{self.name}: the resolution of a mesh is one int n of at least {self.smallest}, for n² vertices; "
                f"got {resolution!r}"
            )
        return (int(resolution) ** 2,)

    def nodes(self, resolution: Resolution) -> tuple[F64, ...]:
        """A ValueError: a mesh has no axes."""
        raise ValueError(f"{self.name} has other vertices for each sample, not axes of nodes; use vertices(index, n)")

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        count = len(self.inputs) - len(CARRIED)
        shape = (count, self.modes, self.modes)
        amplitude = forcing_amplitudes(self.modes, self.decay)
        f = np.stack([rng.standard_normal(shape) for rng in self._streams(indices, seed, "f")]) * amplitude
        n = 2 * self.fine + 1
        s = _sines(np.linspace(0, 1, n), self.modes)
        u = np.empty((len(indices), count, n, n))

        def one(i: int) -> None:
            load = product(product(s, f[i]), np.ascontiguousarray(s.T))
            u[i] = quadratic.solve(type(self).stiffness, self.fine, self.material, load)

        quadratic.factored(type(self).stiffness, self.fine, self.material)  # cached before the threads need it
        run([partial(one, i) for i in range(len(indices))], workers)
        return {"f": f, "u": u, "index": np.asarray(indices, np.int64), "seed": np.full(len(indices), seed, np.int64)}

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        x = np.empty((len(instances["f"]), len(self.inputs), *shape))
        y = np.empty((len(x), len(self.outputs), *shape))
        for k, (f, u, index, seed) in enumerate(zip(*(instances[a] for a in ("f", "u", "index", "seed")), strict=True)):
            geometry = self._geometry(int(index), isqrt(shape[0]), int(seed))
            points = np.ascontiguousarray(geometry[1:].T)
            x[k, : len(CARRIED)] = geometry
            sx, sy = (_sines(points[:, axis], self.modes) for axis in (0, 1))  # (N, M)
            x[k, len(CARRIED) :] = (product(sx, f) * sy).sum(-1)
            y[k] = quadratic.evaluate(u, points)
        return x, y

    def _geometry(self, index: int, n: int, seed: int) -> F64:
        """Volume and coordinates, (3, n²). Cached: a study evaluates many models on the same test meshes."""

        def make() -> torch.Tensor:
            points = self.vertices(index, n, seed)
            return torch.from_numpy(np.concatenate([volumes(points)[None], points.T]))

        geometry: F64 = CACHE.get(("mesh", self.name, self.mesh, self.strength, n, seed, index), make).numpy()
        return geometry

    def card(self) -> str:
        chosen = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        meshes = "\n".join(f"  {name}: {about}" for name, about in FAMILIES.items())
        return (
            f"{self.name}: {', '.join(self.inputs)} → {', '.join(self.outputs)}\n\n"
            f"{inspect.cleandoc(type(self).__doc__ or '')}\n\nMeshes, of n² vertices at resolution n:\n{meshes}"
            f"\nParameters: {chosen}."
        )


def _sines(t: F64, modes: int) -> F64:
    """sin(mπt), (len(t), M), m = 1…M."""
    out: F64 = np.sin(np.pi * np.outer(t, np.arange(1, modes + 1)))
    return out
