"""PDEBench's Darcy flow, from the file on the user's disk, on its own grid and on coarser ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from quadnorm.problems.base import Array
from quadnorm.problems.files import FieldFile, read_pdebench
from quadnorm.problems.stored.base import Store, StoredProblem
from quadnorm.problems.stored.fetch import official_file

FIELDS = ("nu", "tensor")


@dataclass(frozen=True, kw_only=True)
class DarcyPdebench(StoredProblem):
    """−∇·(ν∇u) = β on [0, 1]², ν ∈ {0.1, 1}, β = 1: PDEBench's 10000 samples on 128².

    Boundary: u = 0. Input → output: ν → u, fields nu and tensor.
    Files: 2D_DarcyFlow_beta1.0_Train.hdf5 of "PDEBench Datasets", DOI 10.18419/darus-2986, looked for in ``folder``, or
    in $QUADNORM_DATA, or in the user's data directory. Needs h5py, the extra ``data``.
    Law: as published; a Gaussian field cut into two values.
    Nodes: cell centres. The values are cell averages.
    Solver: the publisher's; nothing is solved here.
    Restriction: means of blocks, which are the averages over the larger cells, for grids that divide the stored one.
    Cost: 1.3 GB on disk; samples are read as they are needed.
    Left open by the paper: this set is not in it.
    """

    placement: str = "cell"
    folder: str | None = None

    name: ClassVar[str] = "darcy-pdebench"
    inputs: ClassVar[tuple[str, ...]] = ("ν",)
    outputs: ClassVar[tuple[str, ...]] = ("u",)
    placements: ClassVar[tuple[str, ...]] = ("cell",)
    files: ClassVar[tuple[str, ...]] = ("2D_DarcyFlow_beta1.0_Train.hdf5",)

    def sets(self) -> Mapping[str, Sequence[Store]]:
        """All samples in one set, on the grid of the file."""
        path = official_file(self.files[0], self.folder)
        file = _opened(path, path.stat().st_mtime_ns)
        shape = file[FIELDS[0]].shape

        def read(samples: Sequence[int]) -> tuple[Array, Array]:
            x, y = (np.asarray(file.tensor(name, list(samples))) for name in FIELDS)
            return x, y

        return {"train": [Store(path.name, shape[0], shape[1:], read)]}

    def _read(self, name: str, samples: Sequence[int], shape: tuple[int, ...]) -> tuple[Array, Array]:
        (store,) = self.sets()[name]
        if any(m % n for n, m in zip(shape, store.shape, strict=True)):
            raise ValueError(
                f"{self.name}: cells of {store.shape} cannot be averaged to {shape}; give a number that divides "
                f"{store.shape[0]}"
            )
        (n1, n2), (m1, m2) = shape, store.shape
        x, y = (f.reshape(*f.shape[:2], n1, m1 // n1, n2, m2 // n2).mean((3, 5)) for f in store.read(samples))
        return x, y


@lru_cache(maxsize=1)
def _opened(path: Path, _stamp: int) -> FieldFile:
    """The file, its arrays still on the disk; opened again when it changes."""
    return read_pdebench(path, fields=FIELDS)
