"""How the sizes of a tensor's axes move with the grid, read off runs on grids that differ in one axis each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Form:
    r"""The size of one axis of a tensor as a function of the grid.

    ``axes`` are the grid axes that it moves with. Where ``exact``, the size is fold · Π (n_k + extra_k) over these
    axes: the samples themselves (fold 1, extra 0), padded samples (n + 9), tokens (n·m), batch and samples in one axis
    (B·n). ``extra`` is that of the training grid; padding by a share of the samples has another one on other grids
    (:meth:`quadnorm.adapt.calls.grids.nodes.Nodes.extra`). Other sizes (n/2, n//2 + 1) move in another way. No axes: a
    constant.
    """

    axes: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()
    fold: int = 1
    exact: bool = True

    @property
    def moves(self) -> bool:
        """Whether the size depends on the grid."""
        return bool(self.axes)

    @property
    def on_grid(self) -> bool:
        """Whether the axis runs over samples at the grid's own spacing."""
        return self.exact and bool(self.axes)

    def sizes(self, grid: Shape) -> Shape:
        """Samples along each of ``axes`` on a grid with the training grid's number of padded ones."""
        return tuple(grid[k] + e for k, e in zip(self.axes, self.extra, strict=True))

    def size(self, grid: Shape) -> int:
        """The axis' size on such a grid, where ``exact``."""
        return self.fold * prod(self.sizes(grid))


@dataclass(frozen=True)
class PaddedLength:
    """The length of a padded grid axis, on the training grid and where that axis is refined."""

    axis: int
    native: int
    refined: int


def form(
    native: Shape, refined: Sequence[int], size: int, sizes: Sequence[int], padded: Sequence[PaddedLength] = ()
) -> Form:
    """The form of an axis that has ``size`` on the native grid and ``sizes[k]`` when axis k alone has ``refined[k]``.

    ``padded`` are the lengths that padding has been seen to make; without them n + 2·round(n/4) would look like any
    other size that moves.

    >>> form((33, 33), (65, 65), 33, (65, 33)), form((33, 33), (65, 65), 42, (42, 74)).extra
    (Form(axes=(0,), extra=(0,), fold=1, exact=True), (9,))
    >>> form((33, 33), (65, 65), 1089, (2145, 2145)).axes, form((33, 33), (65, 65), 17, (17, 33)).exact
    ((0, 1), False)
    >>> form((33,), (65,), 49, (97,), [PaddedLength(0, 49, 97)]).extra
    (16,)
    """
    axes = tuple(k for k, s in enumerate(sizes) if s != size)
    if not axes:
        return Form()
    if len(axes) == 1 and sizes[axes[0]] - size == refined[axes[0]] - native[axes[0]]:
        return Form(axes, (size - native[axes[0]],))
    lengths = []  # per axis: what it may be long, such that the size is a multiple of it on both grids
    for k in axes:
        known = {p.native for p in padded if p.axis == k and size * p.refined == sizes[k] * p.native}
        step, moved = refined[k] - native[k], sizes[k] - size
        plain, rest = divmod(step * size, moved)  # size ∝ n_k + e: moved / size = step / (n_k + e)
        lengths.append(sorted(known | ({plain} if not rest and plain > 0 else set()), reverse=True))
    for chosen in product(*lengths):  # the longest first: the least is left to be a batch
        fold, rest = divmod(size, prod(chosen))
        if rest == 0 and fold:
            return Form(axes, tuple(n - native[k] for n, k in zip(chosen, axes, strict=True)), fold)
    return Form(axes, (0,) * len(axes), exact=False)


Forms = tuple[Form, ...]


def moving(forms: Forms) -> frozenset[int]:
    """The grid axes that a tensor's shape moves with."""
    return frozenset(k for f in forms for k in f.axes)
