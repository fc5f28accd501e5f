"""The Darcy data that the Fourier neural operator was published with, from the .mat files on the user's disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.problems.base import Array, Problem
from quadnorm.problems.files import read_mat
from quadnorm.problems.fine import cubic, select
from quadnorm.problems.stored.fetch import official_file

_RESTRICTIONS = ("index", "bicubic")


@dataclass(frozen=True, kw_only=True)
class DarcyOfficial(Problem):
    """−∇·(a∇u) = 1 on [0, 1]², a ∈ {3, 12}: 1024 + 1024 stored samples on 421².

    Boundary: u = 0. Input → output: log coeff → sol.
    Files: piececonst_r421_N1024_smooth1.mat and …smooth2.mat, MATLAB v5 or v7.3, looked for in ``folder``, or in
    $QUADNORM_DATA, or in the user's data directory. A sample index counts through both files: 0 … 1023 are those of
    smooth1, 1024 … 2047 those of smooth2. ``splits`` names the paper's: 900 for training and 100 for validation from
    smooth1, 200 for the test from smooth2. Stored data have no seed: it must be 0.
    Law: a cosine Gaussian field, covariance ∝ (−Δ+9)^(−2), cut at 0 into 12 and 3.
    Nodes: the 421 stored nodes of an axis are cell centres (j+½)/421; ``sol`` was interpolated there from an endpoint
    grid and is not zero on the outermost nodes. Every grid taken from them includes the first and the last node, so it
    is endpoint-inclusive on [0.0012, 0.9988]; as in the paper, it is treated as endpoint-inclusive on [0, 1].
    Solver: the release's, 5-point scheme; nothing is solved here.
    Restriction: "index" takes the nodes round(linspace(0, 420, n)), which keeps the coefficient two-valued; "bicubic"
    puts a bicubic spline through log coeff and sol, corners aligned, which overshoots at interfaces.
    Cost: reading a file, once per process, takes seconds and 3 GB while it lasts, then 1.4 GB (float32).
    Left open by the paper: how 421² becomes 64², 128², 256² ("by subsampling", "bicubic interpolation"; no stride
    gives these). Chosen: index selection.
    """

    folder: str | None = None
    restriction: str = "index"

    name: ClassVar[str] = "darcy-official"
    inputs: ClassVar[tuple[str, ...]] = ("log coeff",)
    outputs: ClassVar[tuple[str, ...]] = ("sol",)
    views: ClassVar[tuple[str, ...]] = ("placement", "restriction")
    kept: ClassVar[bool] = False  # the files are on disk already: no second copy in the cache
    files: ClassVar[tuple[str, ...]] = ("piececonst_r421_N1024_smooth1.mat", "piececonst_r421_N1024_smooth2.mat")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.restriction not in _RESTRICTIONS:
            raise ValueError(f"{self.name}: " + unknown("restriction", self.restriction, _RESTRICTIONS))

    @property
    def splits(self) -> dict[str, range]:
        """Sample indices of the paper's splits, as far as the files reach."""
        first, second = self._counts()
        train = min(900, first)
        return {
            "train": range(train),
            "val": range(train, min(1000, first)),
            "test": range(first, first + min(200, second)),
        }

    def _counts(self) -> tuple[int, int]:
        one, two = (len(read_mat(official_file(name, self.folder))) for name in self.files)
        return one, two

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        if seed != 0:
            raise ValueError(f"{self.name}: stored samples have no seed, expected 0, got {seed}; choose other indices")
        first = official_file(self.files[0], self.folder)
        count = len(read_mat(first))
        wanted = np.asarray(indices)
        in_second = wanted >= count
        paths = [first] if not in_second.any() else [first, official_file(self.files[1], self.folder)]
        total = sum(len(read_mat(p)) for p in paths)
        if wanted.max() >= total:
            raise IndexError(f"{self.name}: the files hold samples 0 … {total - 1}, got index {wanted.max()}")
        parts: dict[str, Array] = {}
        for number, path in enumerate(paths):
            mask = in_second if number else ~in_second
            if not mask.any():
                continue
            for name, values in _fields(path, path.stat().st_mtime_ns).items():
                out = parts.setdefault(name, np.empty((len(wanted), *values.shape[1:]), values.dtype))
                if out.shape[1:] != values.shape[1:]:
                    raise ValueError(f"{path}: {values.shape[1:]} nodes, the other file has {out.shape[1:]}")
                out[mask] = values[wanted[mask] - number * count]
        return parts

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        coeff, sol = instances["coeff"], instances["sol"]
        stored = coeff.shape[1:]
        if any(n > m for n, m in zip(shape, stored, strict=True)):
            raise ValueError(f"{self.name}: resolution {shape} is finer than the {stored} nodes that are stored")
        grid = (shape[0], shape[1])
        if self.restriction == "index":
            log_a = np.log(select(coeff, "endpoint", grid).astype(np.float64))
            return log_a[:, None], select(sol, "endpoint", grid)[:, None]
        log_a = cubic(np.log(coeff.astype(np.float64)), "endpoint", grid)
        return log_a[:, None], cubic(sol, "endpoint", grid)[:, None]


@lru_cache(maxsize=2)
def _fields(path: Path, _stamp: int) -> dict[str, Array]:
    """Both fields of a file in float32, which holds 3 and 12 exactly; read again when the file changes."""
    fields = {}
    for name in ("coeff", "sol"):
        # A new reader each time: the float64 array is freed before the next one is read.
        fields[name] = read_mat(path, fields=["coeff", "sol"])[name].read().astype(np.float32)
    if not bool((fields["coeff"] > 0).all()):
        raise ValueError(f"{path}: 'coeff' must be positive everywhere, its least value is {fields['coeff'].min():.3g}")
    return fields
