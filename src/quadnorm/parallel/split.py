"""Which samples of a field each rank holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from quadnorm.parallel.collectives import all_parts

Range = tuple[int, int]
Extent = int | Sequence[int] | None  # samples of an axis: of all ranks together, of each rank, or to be asked for


def even(n: int, ranks: int) -> list[Range]:
    """The ranges into which ``Shard`` cuts n samples: ⌈n/P⌉ each, the last ones shorter or empty.

    >>> even(10, 4), even(5, 4)
    ([(0, 3), (3, 6), (6, 9), (9, 10)], [(0, 2), (2, 4), (4, 5), (5, 5)])
    """
    step = -(-n // ranks)
    return [(min(r * step, n), min((r + 1) * step, n)) for r in range(ranks)]


def stacked(extents: Sequence[int]) -> list[Range]:
    """The ranges of shards with the given extents, one after the other.

    >>> stacked([2, 0, 3])
    [(0, 2), (2, 2), (2, 5)]
    """
    ranges, start = [], 0
    for n in extents:
        ranges.append((start, start + n))
        start += n
    return ranges


@dataclass(frozen=True, eq=False)
class Part:
    """One rank's part of a grid, and everybody else's: for each rank, its range along every axis."""

    shape: tuple[int, ...]  # of the whole grid
    ranges: tuple[tuple[Range, ...], ...]
    rank: int

    @property
    def mine(self) -> tuple[Range, ...]:
        """The range along every axis on this rank."""
        return self.ranges[self.rank]

    @property
    def local(self) -> tuple[int, ...]:
        """The shape of this rank's part."""
        return tuple(b - a for a, b in self.mine)

    @property
    def count(self) -> int:
        """Samples of the whole grid."""
        n = 1
        for s in self.shape:
            n *= s
        return n

    @property
    def slices(self) -> tuple[slice, ...]:
        """The part as an index into the whole grid."""
        return tuple(slice(a, b) for a, b in self.mine)


class Split:
    """How one or two spatial axes are split over the ranks of a mesh.

    Args:
        mesh: a one-dimensional :class:`DeviceMesh` or a process group for one axis, a two-dimensional mesh for two.
        axis: the spatial axis (0 is the first after the channels), or one for each dimension of the mesh.
        size: samples of the whole grid along the axis; or a list of every rank's, if they are not what ``Shard`` cuts
            (⌈n/P⌉ each, the last ones fewer); with two axes, one of these for each. None: inputs that are no DTensor
            are measured at every call, by an all-gather of their shapes.
    """

    def __init__(self, mesh: DeviceMesh | dist.ProcessGroup, axis: int | Sequence[int], size: Any = None) -> None:
        self.axes = (axis,) if isinstance(axis, int) else tuple(axis)
        self.mesh = mesh if isinstance(mesh, DeviceMesh) else None
        if isinstance(mesh, DeviceMesh):
            self.group, self.cells, self.counts = _of_mesh(mesh)
        elif isinstance(mesh, dist.ProcessGroup):
            self.group, self.counts = mesh, (dist.get_world_size(mesh),)
            self.cells = tuple((r,) for r in range(self.counts[0]))
        else:
            raise TypeError(f"expected a DeviceMesh or a process group, got {mesh!r}")
        if len(self.axes) != len(self.counts) or len(set(self.axes)) < len(self.axes):
            raise ValueError(
                f"a mesh with {len(self.counts)} dimensions splits {len(self.counts)} different spatial axes, got "
                f"axis={axis!r}; use mesh['space'] with axis=0, or mesh['y', 'x'] with axis=(0, 1)"
            )
        self.size = _sizes(size, self.counts)
        self.rank = dist.get_rank(self.group)
        self.world = dist.get_world_size(self.group)
        self._parts: dict[Any, Part] = {}
        self._now: Part | None = None
        self.memo: dict[Any, Any] = {}  # what is known of weights given at call time, while a forward pass runs

    def __deepcopy__(self, memo: dict[int, Any]) -> Split:
        return self  # a copy of the model runs on the same ranks

    def part_of(self, shape: Sequence[int], extents: Sequence[Extent] | None = None) -> Part:
        """The part here of a grid of ``shape``, cut as ``extents`` say for each split axis, else as Shard does."""
        axes = self._axes(len(shape))
        given = tuple(
            None if e is None or isinstance(e, int) else tuple(e) for e in (extents or self.size or [None] * len(axes))
        )
        key = (tuple(shape), given)
        if key not in self._parts:
            if len(self._parts) > 64:
                self._parts.clear()
            cuts = {}
            for a, g, ranks in zip(axes, given, self.counts, strict=True):
                cuts[a] = even(shape[a], ranks) if g is None or sum(g) != shape[a] else stacked(g)
            ranges = tuple(
                tuple(cuts[a][cell[axes.index(a)]] if a in cuts else (0, n) for a, n in enumerate(shape))
                for cell in self.cells
            )
            self._parts[key] = Part(tuple(shape), ranges, self.rank)
        return self._parts[key]

    def resolve(self, local: Sequence[int]) -> Part:
        """The part that a tensor with these local spatial extents is."""
        local = tuple(local)
        if self._now is not None and self._now.local == local:
            return self._now
        if self.size is None or any(s is None for s in self.size):
            return self._ask(local)
        shape = list(local)
        for a, s in zip(self._axes(len(local)), self.size, strict=True):
            shape[a] = s if isinstance(s, int) else sum(s or ())
        part = self.part_of(shape)
        if part.local != local:
            raise ValueError(
                f"rank {self.rank} got samples of shape {local}, expected {part.local} of the whole {part.shape}: "
                f"{self._says()}; give size= as a list of every rank's samples if they are split in another way"
            )
        return part

    def _ask(self, local: tuple[int, ...]) -> Part:
        axes = self._axes(len(local))
        device = torch.device(self.mesh.device_type) if self.mesh is not None else torch.device("cpu")
        shapes = all_parts(torch.tensor(local, dtype=torch.int64, device=device), self.group).tolist()
        extents = []
        for a, ranks in zip(axes, self.counts, strict=True):
            k = axes.index(a)
            row: list[int | None] = [None] * ranks
            for cell, shape in zip(self.cells, shapes, strict=True):
                if row[cell[k]] not in (None, shape[a]):
                    raise ValueError(f"ranks side by side hold {row[cell[k]]} and {shape[a]} samples along axis {a}")
                row[cell[k]] = shape[a]
            extents.append([int(n or 0) for n in row])
        whole = list(local)
        for a, e in zip(axes, extents, strict=True):
            whole[a] = sum(e)
        for shape in shapes:
            if any(shape[a] != n for a, n in enumerate(local) if a not in axes):
                raise ValueError(f"ranks hold parts of shapes {shapes}, which differ along an axis that is not split")
        return self.part_of(whole, extents)

    @contextmanager
    def at(self, part: Part) -> Iterator[None]:
        """Modules called inside take their inputs to be this part, without asking."""
        before, self._now = self._now, part
        kept, self.memo = self.memo, {}
        try:
            yield
        finally:
            self._now, self.memo = before, kept

    def take(self, x: Tensor, first: int = 2) -> Tensor:
        """The part here of a whole tensor whose spatial axes begin at ``first`` and are as many as are left.

        >>> split = Split(single(), axis=0)
        >>> split.take(torch.zeros(1, 1, 4, 5)).shape
        torch.Size([1, 1, 4, 5])
        """
        part = self.part_of(tuple(x.shape[first:]))
        return x[(*(slice(None) for _ in range(first)), *part.slices)]

    def _axes(self, ndim: int) -> tuple[int, ...]:
        axes = tuple(a + ndim if a < 0 else a for a in self.axes)
        if any(not 0 <= a < ndim for a in axes):
            raise ValueError(f"axis={self.axes} is split, but the field has {ndim} spatial axes")
        return axes

    def _says(self) -> str:
        return ", ".join(f"size={s} along axis {a}" for a, s in zip(self.axes, self.size or (), strict=True))

    def __repr__(self) -> str:
        return f"Split(axes={self.axes}, size={self.size}, rank {self.rank} of {self.world})"


def _of_mesh(mesh: DeviceMesh) -> tuple[dist.ProcessGroup, tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The group of all ranks of a mesh of one or two dimensions, and each rank's place in it."""
    counts = tuple(int(n) for n in mesh.mesh.shape)
    if len(counts) not in (1, 2):
        raise ValueError(f"the mesh has {len(counts)} dimensions; pass those that split space, as in mesh['space']")
    if len(counts) == 1:
        group = mesh.get_group()
    elif mesh.mesh_dim_names is None:
        raise ValueError("a mesh that splits two axes needs mesh_dim_names, as in ('y', 'x')")
    else:
        group = mesh._flatten().get_group()
    places = {
        dist.get_group_rank(group, int(r)): tuple(int(i) for i in cell)
        for cell, r in zip((mesh.mesh >= 0).nonzero().tolist(), mesh.mesh.flatten().tolist(), strict=True)
    }
    return group, tuple(places[r] for r in range(len(places))), counts


def _sizes(size: Any, counts: tuple[int, ...]) -> tuple[Extent, ...] | None:
    if size is None:
        return None
    each = (size,) if len(counts) == 1 else tuple(size) if isinstance(size, Sequence) else ()
    if len(each) != len(counts):
        raise ValueError(f"size={size!r}: expected one entry for each of the {len(counts)} split axes")
    checked: list[Extent] = []
    for s, ranks in zip(each, counts, strict=True):
        whole = isinstance(s, int) and not isinstance(s, bool) and s > 0
        listed = isinstance(s, Sequence) and len(s) == ranks and all(isinstance(n, int) and n >= 0 for n in s)
        if not (s is None or whole or listed):
            raise ValueError(
                f"size={s!r}: expected the number of samples along the axis, or a list of {ranks}, one for each rank"
            )
        checked.append(tuple(s) if isinstance(s, Sequence) else s)
    return tuple(checked)


def single() -> dist.ProcessGroup:
    """A process group of this process alone, for trying things out; the default group if there is one."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    group: dist.ProcessGroup = dist.new_group([dist.get_rank()])
    return group
