"""Where the samples of data lie: declared, stated by the model, or found out from data at two resolutions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from quadnorm.adapt.models import grid_sizes, model_grid, own_placement
from quadnorm.carry.gridcheck import GridCheck, check_grid
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import placements_per_axis

SAME_NODES = ({"left", "periodic"},)


def placement_of_data(fields: Sequence[Tensor]) -> GridCheck | None:
    """What the coarsest and the finest of several resolutions of the same data (B, C, *spatial) say of the placement.

    None where they do not tell.
    """
    ordered = sorted(fields, key=lambda x: x.shape[2:].numel())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return check_grid(ordered[0], ordered[-1])
    except (ValueError, IndexError):  # grids that are not finer on every axis do not tell
        return None


def decided_placement(
    check: GridCheck | None, declared: str | Sequence[str] | None, d: int, own: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """The placement to use: the data's where it is sure, unless it contradicts what was declared, which is an error.

    ``own`` is what the model says of itself. None: neither data nor user nor model says anything.
    """
    names = placements_per_axis(declared, d) if declared is not None else own
    if check is None or not check.sure or len(check.placement) != d:
        return names
    if names is None:
        return check.placement
    if any(not _same_nodes(a, b) for a, b in zip(names, check.placement, strict=True)):
        raise ValueError(
            f"placement={', '.join(names)} was given, but {check}; one of the two is wrong: check how the data was "
            "sampled"
        )
    return names


def _same_nodes(a: str, b: str) -> bool:
    return a == b or any({a, b} == pair for pair in SAME_NODES)


def open_question(placement: tuple[str, ...]) -> str:
    """The question that decides between placements of the same nodes, or nothing."""
    if not any(p in pair for p in placement for pair in SAME_NODES):
        return ""
    return (
        "left and periodic have the same nodes; they differ in whether the domain closes there: does the field at the "
        "right end equal that at the left one? Then it is periodic"
    )


def placed_grid(
    model: nn.Module, resolution: int | Sequence[int], placement: str | Sequence[str] | None, example: Any
) -> tuple[Shape, tuple[str, ...], Any, GridCheck | None]:
    """Samples and placement per axis of the training grid, the example there, and the check that this is based on.

    The placement is what was said, what the model says of itself, or what an example that is a function of the
    resolution shows; an error where none of these tells, or two contradict each other.
    """
    sizes = grid_sizes(model, resolution, example)
    native, check = _at_training_grid(example, sizes)
    names = decided_placement(check, placement, len(sizes), own_placement(model, len(sizes)))
    return *model_grid(model, sizes, names if placement is None else placement), native, check


def _at_training_grid(example: Any, sizes: Shape) -> tuple[Any, GridCheck | None]:
    """The example, and what it says of the placement if it is a function of the resolution."""
    if not callable(example) or isinstance(example, Tensor):
        return example, None
    make: Callable[[Any], Any] = example

    def at(shape: tuple[int, ...]) -> Any:
        sample = make(shape[0] if len(set(shape)) == 1 else shape)
        pair = isinstance(sample, tuple) and len(sample) == 2 and all(isinstance(t, Tensor) for t in sample)
        return sample[0] if pair else sample

    native = at(sizes)
    check = None
    for finer in ([2 * n - 1 for n in sizes], [2 * n for n in sizes], [3 * n for n in sizes]):
        try:
            fine = at(tuple(finer))
        except Exception:  # data exists at some resolutions only
            continue
        if isinstance(native, Tensor) and isinstance(fine, Tensor):
            check = placement_of_data([native, fine])
        break
    return native, check
