"""The data of an audit: the same fields at several resolutions, which two are compared, what lies between samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from torch import Tensor, nn

from quadnorm.adapt.drift import relative
from quadnorm.adapt.report import size_text
from quadnorm.adapt.trees import mapped
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape

Resolution = int | tuple[int, ...]
MakeInput = Callable[[Any], "Tensor | tuple[Tensor, Tensor]"]


@dataclass(frozen=True)
class AuditData:
    """Inputs (B, C, *spatial), and targets where there are any, by resolution; the training resolution comes first."""

    inputs: dict[Resolution, Tensor]
    targets: dict[Resolution, Tensor]
    channels_last: bool  # whether the model takes (B, *spatial, C)
    fields: list[Tensor]  # the inputs in order
    grids: list[Shape]
    labels: list[str]
    compared: int  # the index of the resolution that is compared with the training resolution

    @property
    def coarse_and_fine(self) -> tuple[Tensor, Tensor]:
        """The input at these two, the one with fewer samples first."""
        coarse, fine = sorted((self.fields[0], self.fields[self.compared]), key=lambda x: prod(x.shape[2:]))
        return coarse, fine

    def between(self, names: tuple[str, ...]) -> tuple[Tensor, Traits]:
        """The finer of the two inputs without what lies between the coarser one's samples, and the shares of that."""
        coarse, fine = self.coarse_and_fine
        smooth, detail = _between(fine, tuple(coarse.shape[2:]), names)
        finer = any(n > n0 for g in self.grids for n, n0 in zip(g, self.grids[0], strict=True))
        target = list(self.targets.values())[self.compared] if self.targets and finer else None
        if target is None or target.ndim != len(names) + 2:
            return smooth, Traits(detail, None, finer)
        return smooth, Traits(detail, _between(target, self.grids[0], names)[1], finer)


@dataclass(frozen=True)
class Traits:
    """``detail`` and ``target_detail``: the shares of the finer input and target that lie between the coarser grid's
    samples; ``finer``: whether any grid is finer than the training grid."""

    detail: float
    target_detail: float | None
    finer: bool


def _between(x: Tensor, sizes: Shape, names: tuple[str, ...]) -> tuple[Tensor, float]:
    smooth = carry(carry(x, sizes, names), tuple(x.shape[2:]), names)
    return smooth, relative(smooth, x)


class ChannelsFirst(nn.Module):
    """A model of fields (B, *spatial, C), called with (B, C, *spatial)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        """The model's outputs, those with as many axes as the input with their channels first."""
        return mapped(lambda y: y.movedim(-1, 1) if y.ndim == x.ndim else y, self.model(x.movedim(1, -1)))


def layout_of_inputs(shapes: Sequence[Shape]) -> str:
    """``first`` or ``last``: the axes whose lengths differ between resolutions are the grid's, the channels' is not.

    >>> layout_of_inputs([(1, 3, 17, 17), (1, 3, 33, 33)]), layout_of_inputs([(1, 17, 3), (1, 33, 3)])
    ('first', 'last')
    """
    second, last = ({shape[k] for shape in shapes} for k in (1, -1))
    return "last" if len(second) > 1 and len(last) == 1 else "first"


def read_data(make_input: MakeInput, resolutions: Sequence[Resolution]) -> AuditData:
    """Make the inputs at all resolutions, and refuse those that cannot be compared."""
    inputs, targets = _made(make_input, resolutions)
    last = layout_of_inputs([tuple(x.shape) for x in inputs.values()]) == "last"
    if last:
        inputs, targets = ({n: t.movedim(-1, 1) for n, t in fields.items()} for fields in (inputs, targets))
    _check_grids(inputs, resolutions)
    fields, labels = list(inputs.values()), [str(n) if isinstance(n, int) else size_text(n) for n in inputs]
    grids = [tuple(x.shape[2:]) for x in fields]
    return AuditData(inputs, targets, last, fields, grids, labels, grids.index(compared_with(grids[0], grids)))


def compared_with(native: Shape, grids: Sequence[Shape]) -> Shape:
    """The grid whose run is compared with the training grid's: the finest, or the coarsest where none is finer.

    >>> compared_with((33,), [(33,), (65,), (17,)]), compared_with((65,), [(65,), (33,), (17,)])
    ((65,), (17,))
    """
    others = [g for g in grids if g != native]
    finest = max(others, key=prod)
    return finest if prod(finest) > prod(native) else min(others, key=prod)


def _made(
    make_input: MakeInput, resolutions: Sequence[Resolution]
) -> tuple[dict[Resolution, Tensor], dict[Resolution, Tensor]]:
    if not callable(make_input):
        raise TypeError(
            "an audit needs a function make_input(n) that gives the same fields at resolution n, as a tensor or a pair "
            f"(input, target); got {type(make_input).__name__}"
        )
    if not isinstance(resolutions, Sequence) or len(set(resolutions)) < 2:
        raise ValueError(f"an audit needs the training resolution and at least one other, got {resolutions!r}")
    inputs: dict[Resolution, Tensor] = {}
    targets: dict[Resolution, Tensor] = {}
    for n in resolutions:
        sample = make_input(n)
        x, y = sample if isinstance(sample, tuple) else (sample, None)
        if not isinstance(x, Tensor) or x.ndim < 3:
            what = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"make_input({n!r}) must give a tensor (B, C, *spatial) or a pair of them, got {what}")
        inputs[n] = x
        if y is not None:
            targets[n] = y
    if len({x.ndim for x in inputs.values()}) > 1:
        shapes = " and ".join(str(tuple(x.shape)) for x in inputs.values())
        raise ValueError(f"make_input gave different numbers of axes at different resolutions: {shapes}")
    return inputs, targets


def _check_grids(inputs: dict[Resolution, Tensor], resolutions: Sequence[Resolution]) -> None:
    """Refuse inputs (B, C, *spatial) that are not the same fields on different grids."""
    shapes = {tuple(x.shape[2:]) for x in inputs.values()}
    if len(shapes) != len(inputs):
        raise ValueError(f"make_input gave the same grid for different resolutions: {sorted(shapes)}")
    in_a_row = [n for n in resolutions if inputs[n].ndim == 3 and inputs[n].shape[2] == _all_samples(n) > 1]
    if in_a_row:
        n = in_a_row[0]
        raise ValueError(
            f"make_input({n!r}) gave {_all_samples(n)} samples in a row, which do not say how they make a grid; "
            "wrap the model in a module that takes (B, C, *spatial) and puts the samples in a row itself"
        )
    if len({x.shape[:2] for x in inputs.values()}) > 1:
        shapes_given = " and ".join(str(tuple(x.shape)) for x in inputs.values())
        raise ValueError(
            "make_input gave different batches or channels at different resolutions; expected the same fields as "
            f"(B, C, *spatial) or (B, *spatial, C), got {shapes_given}"
        )


def _all_samples(n: Resolution) -> int:
    """How many samples a grid with n samples per axis has, if it has two axes or as many as n says."""
    return n * n if isinstance(n, int) else prod(n) if len(n) > 1 else 0
