"""How the sizes of a tensor's axes move with the grid, read off runs on grids that differ in one axis each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from quadnorm.measures.base import Shape


@dataclass(frozen=True)
class Form:
    r"""The size of one axis of a tensor as a function of the grid.

    ``axes`` are the grid axes that it moves with. Where ``exact``, the size is fold · Π (n_k + extra_k) over these
    axes: the samples themselves (fold 1, extra 0), padded samples (n + 9), tokens (n·m), batch and samples in one axis
    (B·n). Other sizes (n/2, n//2 + 1) move in another way. No axes: a constant.
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
        """Samples along each of ``axes`` on the given grid, padding included."""
        return tuple(grid[k] + e for k, e in zip(self.axes, self.extra, strict=True))

    def size(self, grid: Shape) -> int:
        """The axis' size on the given grid, where ``exact``."""
        return self.fold * prod(self.sizes(grid))


def form(native: Shape, refined: Sequence[int], size: int, sizes: Sequence[int]) -> Form:
    """The form of an axis that has ``size`` on the native grid and ``sizes[k]`` when axis k alone has ``refined[k]``.

    >>> form((33, 33), (65, 65), 33, (65, 33)), form((33, 33), (65, 65), 42, (42, 74)).extra
    (Form(axes=(0,), extra=(0,), fold=1, exact=True), (9,))
    >>> form((33, 33), (65, 65), 1089, (2145, 2145)).axes, form((33, 33), (65, 65), 17, (17, 33)).exact
    ((0, 1), False)
    """
    axes = tuple(k for k, s in enumerate(sizes) if s != size)
    if not axes:
        return Form()
    if len(axes) == 1:
        (k,) = axes
        step, moved = refined[k] - native[k], sizes[k] - size
        if moved == step:
            return Form(axes, (size - native[k],))
        fold, rest = divmod(moved, step)
        if rest == 0 and fold > 1 and size % fold == 0:
            return Form(axes, (size // fold - native[k],), fold)
        return Form(axes, (0,), exact=False)
    extra = []
    for k in axes:  # size ∝ n_k + e: moved / size = step / (n_k + e)
        step, moved = refined[k] - native[k], sizes[k] - size
        along, rest = divmod(step * size, moved)
        if rest or along <= 0:
            return Form(axes, (0,) * len(axes), exact=False)
        extra.append(along - native[k])
    fold, rest = divmod(size, prod(native[k] + e for k, e in zip(axes, extra, strict=True)))
    return Form(axes, tuple(extra), fold) if rest == 0 else Form(axes, tuple(extra), exact=False)


Forms = tuple[Form, ...]


def moving(forms: Forms) -> frozenset[int]:
    """The grid axes that a tensor's shape moves with."""
    return frozenset(k for f in forms for k in f.axes)
