"""Where the channels of a tensor are, and the way to (B, C, *spatial) and back."""

from typing import Any, Literal

from torch import Size, Tensor

from quadnorm._suggest import unknown
from quadnorm.measures.base import whole_number

Layout = Literal["first", "last"] | tuple[int, ...]

_NAMES: dict[str, Layout] = {"first": "first", "channels_first": "first", "last": "last", "channels_last": "last"}


def checked_layout(layout: Any) -> Layout:
    """``"first"``, ``"last"``, or the grid's shape for tokens (B, N, C)."""
    if isinstance(layout, str):
        if layout not in _NAMES:
            raise ValueError(unknown("layout", layout, _NAMES) + "; or the shape of the tokens' grid, as in (33, 33)")
        return _NAMES[layout]
    if isinstance(layout, (tuple, list)) and layout:
        sizes = tuple(n for n in map(whole_number, layout) if n is not None and n > 0)
        if len(sizes) == len(layout):
            return sizes
    raise ValueError(f"layout must be 'first', 'last' or the shape of the tokens' grid, as in (33, 33), got {layout!r}")


def to_channels_first(x: Tensor, layout: Layout) -> Tensor:
    """A view of x as (B, C, *spatial)."""
    if layout == "first":
        return x
    if layout == "last":
        if x.ndim < 3:
            raise ValueError(f"expected (B, *spatial, C) with at least one spatial axis, got shape {tuple(x.shape)}")
        return x.movedim(-1, 1)
    N = 1
    for n in layout:
        N *= int(n)
    if x.ndim != 3 or x.shape[1] != N:
        raise ValueError(
            f"expected tokens (B, N, C) with N = {N} on a grid of shape {layout}, got shape {tuple(x.shape)}; "
            f"set layer.layout to the new grid's shape"
        )
    return x.movedim(-1, 1).reshape(x.shape[0], x.shape[2], *layout)


def from_channels_first(y: Tensor, shape: Size, layout: Layout) -> Tensor:
    """The inverse of :func:`to_channels_first`."""
    if layout == "first":
        return y
    return y.flatten(2).movedim(1, -1).reshape(shape)
