""":func:`quadnorm.transfer`: a trained model on any other grid, as well as it can be had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from quadnorm._suggest import unknown
from quadnorm.adapt.models import model_grid
from quadnorm.adapt.transferred import PAIRS, Transferred
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watching.probes import tried_probe
from quadnorm.carry.lines import METHODS


def transfer(
    model: nn.Module,
    resolution: int | Sequence[int],
    placement: str | Sequence[str] | None = None,
    data: Any = None,
    *,
    layout: str | None = None,
    restrict: str | None = None,
) -> Transferred:
    r"""A trained model on any other grid: one module for all of them, the model itself at its training grid.

    With :math:`v = G(R x)` the run at the training grid on the restricted input and P the interpolation to the new
    grid's nodes,

    .. math:: y = P\bigl(v - s\, v_{finest} + a\, \delta\bigr) + g\, (e - P v)

    - :math:`v_{finest}`: the finest scales of the native output, of which networks make noise; s by least squares
      against the targets at the training grid.
    - :math:`e`: the network evaluated at the new nodes with the sums of the native run (:func:`quadnorm.extend`; for
      models of stencils and patches shifted native runs). Its detail is trusted as far as detail of that size is to be
      expected: g is a Wiener gain, from how the targets' detail falls from level to level and how it goes with the
      input's. Outside the training nodes, where P extrapolates, g has another value, from extrapolating the model's own
      output to its outermost nodes.
    - :math:`\delta`: what the new input's detail does at the training nodes: anchored runs (:func:`quadnorm.anchor`)
      with it minus without it.

    Shares are estimated per channel, once for each grid, when the first input on it arrives; what would change little
    is not run. ``transferred.report`` says what is done on each grid and why; :meth:`Transferred.estimate` renews the
    estimates of a grid with inputs of your choice.

    Args:
        model: any module; not copied: training it trains this too.
        resolution: samples per axis of the training grid, a number for all axes or one each.
        placement: where its samples lie, for all axes or one each: ``endpoint``, ``cell``, ``periodic``, ``left``,
            ``interior``. Never assumed: it is needed unless the model says it (``model.placement``).
        data: input and target at the training grid, some ten pairs or more, best such as the model was not trained on:
            (x, y), where x is a tensor, a tuple of arguments or a dict of keyword arguments and y what the model is to
            return. Arrays are taken too, and a ``Dataset`` or ``DataLoader`` of such pairs or of {"x": …, "y": …}.
            Without it the native output stands in for the targets: the network's detail is then trusted too much, and
            nothing is smoothed.
        layout: where the channels of fields are, as for :func:`quadnorm.extend`.
        restrict: how inputs go to the training grid, as for :func:`quadnorm.at_native`. Default: ``nearest`` for
            inputs that are piecewise constant, else ``cubic``.

    >>> import torch
    >>> model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
    >>> x = torch.linspace(0, 1, 9).sin().expand(8, 1, 9) * torch.linspace(1, 2, 8).view(8, 1, 1)
    >>> everywhere = transfer(model, 9, "endpoint", data=(x, x**2))
    >>> torch.equal(everywhere(x), model(x)), everywhere(torch.rand(2, 1, 17)).shape
    (True, torch.Size([2, 1, 17]))
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"transfer needs an nn.Module, got {model!r}")
    if restrict is not None and restrict not in METHODS:
        raise ValueError(unknown("way to restrict", restrict, METHODS))
    example, targets = _pair(model, data)
    sizes, names = model_grid(model, resolution, placement, example)
    if layout == "points":
        raise ValueError(
            "transfer is for models of grids; a model of points runs on others by quadnorm.extend, quadnorm.anchor "
            '(layout="points") or quadnorm.at_native(model, points)'
        )
    probe = tried_probe(model, sizes, names, example, layout)
    transferred = Transferred(model, sizes, names, restrict, probe.layout if probe else layout)
    if probe is not None and example is not None:
        transferred.take_pairs(probe.arguments, targets)
        transferred.take_sources(transferred.some(probe.arguments, 2))
    return transferred


def _pair(model: nn.Module, data: Any) -> tuple[Any, Any]:
    """Inputs, in the form of an example, and targets of ``data``."""
    if data is None:
        return None, None
    if isinstance(data, Dataset):
        data = DataLoader(data, batch_size=PAIRS)
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    if isinstance(data, DataLoader):
        x, y = mapped(lambda t: t.to(like.device), _collected(data))
    else:
        x, y = (_as_tensors(part, like) for part in _two(data))
    return x, y


def _as_tensors(value: Any, like: Tensor) -> Any:
    """The same with tensors in place of NumPy's arrays, on the device and, where numbers are not whole, of the dtype
    of the model's parameters."""
    if isinstance(value, np.ndarray):
        t = torch.from_numpy(np.ascontiguousarray(value)).to(like.device)
        return t.to(like.dtype) if t.is_floating_point() else t
    if isinstance(value, Mapping):
        return {k: _as_tensors(v, like) for k, v in value.items()}
    return type(value)(_as_tensors(v, like) for v in value) if type(value) in (tuple, list) else value


def _two(data: Any) -> tuple[Any, Any]:
    """The pair in ``data`` or in one batch, which may name its parts as neuraloperator's do: {"x": …, "y": …}."""
    if isinstance(data, Mapping) and {"x", "y"} <= data.keys():
        return data["x"], data["y"]
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise ValueError(
            "data must be a pair (x, y) of inputs and targets at the training grid, or a data set or loader of such "
            f"pairs; got {type(data).__name__}" + (f" of {len(data)}" if isinstance(data, Sequence) else "")
        )
    return data[0], data[1]


def _collected(loader: DataLoader[Any]) -> tuple[Any, Any]:
    """The first pairs of a loader, as many as are used."""
    batches: list[tuple[Any, Any]] = []
    count = 0
    for batch in loader:
        batches.append(_two(batch))
        count += max((len(t) for t in tensors(batches[-1][1]) if t.ndim), default=1)
        if count >= PAIRS:
            break
    if not batches:
        raise ValueError("data: the loader has no batch")
    together = [tensors(b) for b in batches]
    if any(len(parts) != len(together[0]) for parts in together):
        raise ValueError("data: the loader's batches hold different numbers of tensors")
    joined = iter([torch.cat(parts) if parts[0].ndim else parts[0] for parts in zip(*together, strict=True)])
    x, y = mapped(lambda _: next(joined), batches[0])
    return x, y
