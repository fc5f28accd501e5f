"""For the tests of other libraries: does a model give the same field on another grid?

>>> import torch
>>> from torch import nn
>>> from quadnorm.testing import assert_grid_consistent
>>> pointwise = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GELU(), nn.Conv2d(4, 1, 1))
>>> assert_grid_consistent(pointwise, 17, "endpoint", rtol=1e-6)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.drift import drift as relative_drift
from quadnorm.adapt.models import check_module, model_grid, trial_copy
from quadnorm.adapt.report import size_text
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watching.forms import refined_grid
from quadnorm.adapt.watching.layouts import regridded
from quadnorm.adapt.watching.probes import make_probe
from quadnorm.adapt.watching.watch import trial_output
from quadnorm.measures.base import Shape

__all__ = ["assert_grid_consistent", "grid_drift"]


def grid_drift(
    model: nn.Module,
    resolution: int | Sequence[int],
    placement: str | Sequence[str] | None = None,
    *,
    finer: int | Sequence[int] | None = None,
    example: Any = None,
    layout: str | None = None,
) -> float:
    r"""How far the output moves when a smooth input is sampled on a finer grid.

    .. math:: \text{drift} = \lVert R\,G_n(x_n) - G_{n_0}(x_{n_0}) \rVert_2 \,/\, \lVert G_{n_0}(x_{n_0}) \rVert_2

    with :math:`x_n` the same smooth functions sampled at n nodes, and R the values at the training nodes (those of the
    other grid if it is coarser; the largest of several outputs). A model that is a function of fields has 0, up to what
    its input loses between the nodes: O(h²) and smaller. :func:`quadnorm.audit` gives the same number for data.

    Args:
        model: any module on fields; it is not touched, and run in evaluation mode.
        resolution, placement, example, layout: of the training grid, as for :func:`quadnorm.extend`.
        finer: the other grid; default twice as fine, with the training nodes among its nodes where they can be.
    """
    check_module(model, "test")
    sizes, names = model_grid(model, resolution, placement)
    trial = trial_copy(model).eval()
    probe = make_probe(trial, sizes, names, example, layout, partial(trial_output, trial))
    shape: Shape = probe.finer if finer is None else model_grid(model, finer, names)[0]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        outputs = [trial(*args, **kwargs) for args, kwargs in (probe.smooth(sizes), probe.smooth(shape))]
    common = tuple(map(min, sizes, shape))
    native, moved = (
        regridded(y, grid, common, names, probe.layout, "cubic", True)
        for y, grid in zip(outputs, (sizes, shape), strict=True)
    )
    for a, b in zip(tensors(native), tensors(moved), strict=True):
        if a.shape != b.shape:
            raise ValueError(
                f"the model gives shape {tuple(a.shape)} at {size_text(sizes)} and, at the same nodes of "
                f"{size_text(shape)}, {tuple(b.shape)}; a drift needs outputs on the grid of the inputs"
            )
    return relative_drift(moved, native, names)


def assert_grid_consistent(
    model: nn.Module,
    resolution: int | Sequence[int],
    placement: str | Sequence[str] | None = None,
    *,
    rtol: float = 1e-2,
    finer: int | Sequence[int] | None = None,
    example: Any = None,
    layout: str | None = None,
) -> None:
    """Raise an AssertionError if :func:`grid_drift` is larger than ``rtol``; for tests of models and layers.

    >>> import pytest, torch
    >>> with pytest.raises(AssertionError, match="the output moves by .* from 17×17 to 33×33, more than rtol=0.001"):
    ...     assert_grid_consistent(nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4)), 17, "endpoint", rtol=1e-3)
    """
    drift = grid_drift(model, resolution, placement, finer=finer, example=example, layout=layout)
    if not drift <= rtol:
        sizes, names = model_grid(model, resolution, placement)
        other = size_text(refined_grid(sizes, names) if finer is None else model_grid(model, finer, names)[0])
        raise AssertionError(
            f"the output moves by {drift:.2g} of its norm from {size_text(sizes)} to {other}, more than rtol={rtol:g}; "
            "quadnorm.audit tells which operation does it"
        )
