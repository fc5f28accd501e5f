"""Problems whose samples are stored on disk, each set of instances at one or several grids."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from quadnorm.carry.grids import carry, nested
from quadnorm.measures.placement import placements_per_axis
from quadnorm.problems.base import Array, Problem, Resolution
from quadnorm.problems.points import POINTS

Reader = Callable[[Sequence[int]], tuple[Array, Array]]


@dataclass(frozen=True)
class Store:
    """Samples on one grid: ``read([0, 5])`` gives the inputs (2, C_in, *shape) and outputs (2, C_out, *shape)."""

    label: str
    count: int
    shape: tuple[int, ...]
    read: Reader


@dataclass(frozen=True, kw_only=True)
class StoredProblem(Problem):
    """Base class of problems that are read from files: no seed, no cache, only the stored grids and their subgrids.

    A set ("train", "val", "test") is a list of stores: the same instances at several resolutions. Sample indices count
    through the sets in that order, so that index 0 is the first training sample. Samples at a grid that is not stored
    are selected from the coarsest stored grid that contains its nodes.
    """

    views: ClassVar[tuple[str, ...]] = ()
    kept: ClassVar[bool] = False  # the files are on disk already

    @abstractmethod
    def sets(self) -> Mapping[str, Sequence[Store]]:
        """The stores of each set; every store of a set holds the same instances."""

    @property
    def splits(self) -> dict[str, range]:
        """Sample indices of each set."""
        ranges, start = {}, 0
        for name, stores in self.sets().items():
            ranges[name] = range(start, start + stores[0].count)
            start += stores[0].count
        return ranges

    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        if seed != 0:
            raise ValueError(f"{self.name}: stored samples have no seed, expected 0, got {seed}; choose other indices")
        total = max(s.stop for s in self.splits.values())
        if max(indices) >= total:
            held = ", ".join(f"{len(s)} {name} samples" for name, s in self.splits.items())
            raise IndexError(
                f"{self.name}: the files hold {held}, indices 0 … {total - 1}; got index {max(indices)}. "
                "Ask for fewer samples (samples.train, samples.val, samples.test)"
            )
        return {"index": np.asarray(indices, dtype=np.int64)}

    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        index = instances["index"]
        rows, parts = [], []
        for name, members in self.splits.items():
            here = np.flatnonzero((index >= members.start) & (index < members.stop))
            if here.size:
                rows.append(here)
                parts.append(self._read(name, (index[here] - members.start).tolist(), shape))
        back = np.argsort(np.concatenate(rows), kind="stable")
        # In the precision of the files; the caller casts, so that float64 files give float64 data if these are wanted.
        x, y = (np.concatenate(side)[back] if len(side) > 1 else side[0] for side in zip(*parts, strict=True))
        return x, y

    def _read(self, name: str, samples: Sequence[int], shape: tuple[int, ...]) -> tuple[Array, Array]:
        stores = self.sets()[name]
        for store in stores:
            if store.shape == shape:
                return store.read(samples)
        if self.placement == POINTS:
            held = ", ".join(str(s.shape[0]) for s in stores)
            raise ValueError(f"{self.name}: the {name} samples are stored at {held} points, got {shape[0]}")
        names = placements_per_axis(self.placement, self.dim)
        for store in sorted(stores, key=lambda s: s.shape):
            if all(n <= m and nested(p, n, m) for p, n, m in zip(names, shape, store.shape, strict=True)):
                x, y = (torch.from_numpy(np.asarray(part)) for part in store.read(samples))
                return carry(x, shape, self.placement).numpy(), carry(y, shape, self.placement).numpy()
        grids = ", ".join("×".join(map(str, s.shape)) for s in stores)
        raise ValueError(
            f"{self.name}: the {name} samples are stored at {grids}, got {'×'.join(map(str, shape))}; choose one of "
            f"these, or a grid whose {' and '.join(dict.fromkeys(names))} nodes are among theirs, or have them "
            "interpolated from one of these (quadnorm eval RUN --samples bicubic --source GRID)"
        )

    def dataset_many(
        self,
        indices: Iterable[int] | int,
        resolutions: Sequence[Resolution],
        seed: int = 0,
        *,
        dtype: torch.dtype = torch.float32,
        workers: int = 1,
        progress: Any = None,
    ) -> list[tuple[Tensor, Tensor]]:
        """The same as ``sample_many``: the files are on disk already and need no copy in the cache."""
        wanted = self.indices(indices)
        pairs = self.sample_many(wanted, resolutions, seed, dtype=dtype, workers=workers)
        if progress is not None:
            progress(len(wanted), len(wanted))
        return pairs
