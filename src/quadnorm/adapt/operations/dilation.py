"""Stencils at the training grid's spacing on a grid that is r times finer: r times the dilation, padding to match.

A convolution of the training grid is an operator, y(u) = Σ_k w_k x(u + k), with u in training spacings. On a finer grid
the same taps lie r samples apart. Beyond the domain the field is continued as the model pads it: periodically, by
reflection, by its last value, or by a ramp that falls to zero at the place of the training grid's first padded sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from quadnorm._tensors import constant
from quadnorm.adapt.watching.calls import Step
from quadnorm.adapt.watching.forms import Form
from quadnorm.adapt.watching.nodes import Nodes, positions
from quadnorm.measures.placement import PLACEMENTS

PADDED = "_quadnorm_padded"  # the attribute of a padded tensor that says what was padded, and how


@dataclass(frozen=True)
class Padded:
    """What ``F.pad`` was given: the tensor, samples before and after for each of its last dimensions, and the mode."""

    source: Tensor
    amounts: tuple[tuple[int, int], ...]  # the last dimension last
    mode: str
    value: float


def note_padding(step: Step, result: Any) -> None:
    """Remember what a padded tensor was made of: a stencil that follows needs it at another width."""
    given = step.arguments
    pads = [int(n) for n in given["pad"]]
    if isinstance(result, Tensor) and min(pads, default=-1) >= 0:
        amounts = tuple((pads[k], pads[k + 1]) for k in range(0, len(pads), 2))[::-1]
        padded = Padded(given["input"], amounts, given.get("mode") or "constant", float(given.get("value") or 0.0))
        setattr(result, PADDED, padded)


@dataclass(frozen=True)
class SampledAxis:
    """n samples of an axis with ``native`` training samples, r times finer, the first at the place ``first``."""

    native: int
    n: int
    ratio: int
    first: float
    wraps: bool


def sampled_axis(nodes: Nodes, form: Form, size: int) -> SampledAxis | None:
    """An axis of a tensor on the new grid, with a ratio of 1 if it does not move; None where the grids do not nest."""
    if not form.moves:
        return SampledAxis(size, size, 1, 0.0, False)
    if not form.on_grid or len(form.axes) != 1 or form.fold != 1:
        return None
    (k,), (extra,) = form.axes, form.extra
    ratio = nodes.ratio(k)
    if ratio is None:
        return None
    placement = nodes.placements[k]
    at = positions(
        placement, nodes.native[k], nodes.shape[k], 1, nodes.origin(k, extra), nodes.origins.get((k, extra), 0)
    )
    wraps = PLACEMENTS[placement].wraps and extra == 0
    return SampledAxis(form.size(nodes.native), size, ratio, float(at[0]), wraps)


@constant
def _continued(axis: SampledAxis, before: int, after: int, mode: str, padded: tuple[bool, bool]) -> Any:
    """Two samples for each place from ``before`` samples before the axis to ``after`` behind it, the share of the
    second (None: nothing), and what is left of both (None: all): index, other index, share, weight."""
    r, n, m = axis.ratio, axis.n, axis.native
    at = np.arange(-before, n + after)
    u = axis.first + at / r
    index, other, share, weight = at.clip(0, n - 1), np.zeros_like(at), np.zeros(len(at)), np.ones(len(at))
    left, right = at < 0, at >= n
    if mode == "circular":
        q = at % (r * m)
        index = q.clip(max=n - 1)
        share = np.where(q > n - 1, (q - (n - 1)) / max(r * m - (n - 1), 1), 0.0)  # the last sample, then the first
    elif mode == "reflect":
        mirrored = np.where(left, -u, np.where(right, 2 * (m - 1) - u, u))
        index = np.rint((mirrored - axis.first) * r).astype(np.int64).clip(0, n - 1)
    elif mode == "replicate":
        ends = np.where(left, 0.0, np.where(right, m - 1.0, u))
        index = np.rint((ends - axis.first) * r).astype(np.int64).clip(0, n - 1)
    elif axis.wraps:
        weight = np.where((left & padded[0]) | (right & padded[1]), 0.0, 1.0)
    else:
        last = axis.first + (n - 1) / r
        falls = np.where(left, (1 + u) / max(1 + axis.first, 1 / r), (m - u) / max(m - last, 1 / r)).clip(0, 1)
        weight = np.where((left & padded[0]) | (right & padded[1]), falls, 1.0)
    parts = index, other, share if share.any() else None, weight if (weight != 1).any() else None
    return tuple(None if t is None else torch.from_numpy(np.ascontiguousarray(t)) for t in parts)


def widened(
    x: Tensor, dim: int, axis: SampledAxis, reach: tuple[int, int], pads: tuple[int, int], mode: str, value: float
) -> Tensor:
    """X with ``reach`` samples more before and behind it, continued as ``pads`` training samples of padding."""
    if reach == (0, 0):
        return x
    index, other, share, weight = _continued(axis, *reach, mode, (pads[0] > 0, pads[1] > 0))
    along = [-1 if k == dim else 1 for k in range(x.ndim)]
    y = x.index_select(dim, index.to(x.device))
    if share is not None:
        part = share.to(x.device, x.dtype).view(along)
        y = y + part * (x.index_select(dim, other.to(x.device)) - y)
    if weight is not None:
        rest = weight.to(x.device, x.dtype).view(along)
        y = y * rest + (value * (1 - rest) if value else 0)
    return y


@dataclass(frozen=True)
class Stencil:
    """A convolution that keeps the number of samples: its input before padding, taps and padding by dimension."""

    x: Tensor
    dims: tuple[int, ...]
    taps: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    mode: str
    value: float


def per_dimension(value: Any, d: int) -> tuple[int, ...]:
    """One number for each of d dimensions."""
    return tuple(int(v) for v in value) if isinstance(value, Sequence) else (int(value),) * d


def stencil_of(step: Step) -> Stencil | None:
    """The stencil of a convolution without strides that returns as many samples as it was given; None for others."""
    given = step.arguments
    x, weight = given["input"], given["weight"]
    d = weight.ndim - 2
    dims, forms = tuple(range(x.ndim - d, x.ndim)), step.forms(x)
    if any(s != 1 for s in per_dimension(given.get("stride", 1), d)) or step.call.name.startswith("conv_transpose"):
        return None
    if any(forms[k].moves for k in range(x.ndim - d)):
        return None
    taps, dilation = tuple(weight.shape[2:]), per_dimension(given.get("dilation", 1), d)
    spans = [e * (k - 1) for e, k in zip(dilation, taps, strict=True)]
    padding, mode, value = given.get("padding", 0), "constant", 0.0
    if padding == "same":
        pads = [(s // 2, s - s // 2) for s in spans]
    else:
        pads = [(p, p) for p in per_dimension(0 if padding == "valid" else padding, d)]
    padded: Padded | None = getattr(x, PADDED, None)
    if padded is not None and len(padded.amounts) <= d:
        before = [(0, 0)] * (d - len(padded.amounts)) + list(padded.amounts)
        if any(sum(p) for p in pads) and any(sum(p) for p in before):
            return None
        if any(sum(p) for p in before):
            x, pads, mode, value = padded.source, before, padded.mode, padded.value
    if any(sum(p) != s for p, s in zip(pads, spans, strict=True)):
        return None
    return Stencil(x, dims, taps, dilation, tuple(pads), mode, value)


def dilated(step: Step) -> Tensor | None:
    """The result of a convolution on the new grid at the training grid's spacing; None where that cannot be."""
    given, stencil = step.arguments, stencil_of(step)
    if stencil is None:
        return None
    x, wide = stencil.x, []
    for k, dim in enumerate(stencil.dims):
        form = step.forms(given["input"])[dim]
        before, after = stencil.pads[k]
        if form.moves and stencil.x is not given["input"]:  # the form is the padded tensor's
            form = Form(form.axes, tuple(e - before - after for e in form.extra), form.fold, form.exact)
        axis = sampled_axis(step.nodes, form, x.shape[dim])
        if axis is None:
            return None
        span = stencil.dilation[k] * (stencil.taps[k] - 1)
        reach = before * axis.ratio, (span - before) * axis.ratio
        x = widened(x, dim, axis, reach, (before, after), stencil.mode, stencil.value)
        wide.append(stencil.dilation[k] * axis.ratio)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(wide) - 1]
    return convolve(x, given["weight"], given.get("bias"), 1, 0, tuple(wide), given.get("groups", 1))
