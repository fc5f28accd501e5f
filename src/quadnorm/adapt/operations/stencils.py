"""What relates samples to their neighbours or to an order: kernels, pools, patches, shifts, slices, running sums."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.operations.base import Carried, each_dimension, register
from quadnorm.adapt.operations.dilation import dilated, stencil_of
from quadnorm.adapt.operations.padding import dimensions
from quadnorm.adapt.report import Reason, size_text
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watching.calls import Call, Step, WeightedStep
from quadnorm.adapt.watching.forms import Form
from quadnorm.adapt.watching.functions import index_items


class Convolution(Carried):
    """A kernel of several samples, or one with strides; a kernel of one sample mixes nothing."""

    parameters: tuple[str, ...] = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")

    def mixes(self, step: Step) -> bool:
        given = step.arguments
        stride = given.get("stride", 1)
        strides = stride if isinstance(stride, (tuple, list)) else (stride,)
        return any(k != 1 for k in given["weight"].shape[2:]) or any(s != 1 for s in strides)

    def dilates(self, step: Step) -> bool:
        return stencil_of(step) is not None

    def replay(self, step: Step) -> Any:
        result = dilated(step) if step.nodes.dilates else None
        return super().replay(step) if result is None else result

    def cause(self, step: Step) -> str:
        kernel, stride = tuple(step.arguments["weight"].shape[2:]), step.arguments.get("stride", 1)
        strides = tuple(stride) if isinstance(stride, (tuple, list)) else (stride,) * len(kernel)
        patches = kernel == strides and any(k > 1 for k in kernel)
        return (Reason.PATCHES if patches else Reason.KERNELS).text(size_text(kernel))


class Along(Carried):
    """What works along one dimension, or several, such as differences, shifts and running sums.

    ``place``: where the dimension stands among the arguments by position.
    """

    def __init__(
        self, reason: Reason, place: int = 1, default: int | None = None, relates_neighbours: bool = True
    ) -> None:
        super().__init__(reason, relates_neighbours)
        self.place, self.default = place, default

    def mixes(self, step: Step) -> bool:
        """Whether the dimension runs over samples; where none is named, whether any does."""
        call = step.call
        dim = call.kwargs.get("dim", call.kwargs.get("dims", call.kwargs.get("axis")))
        if dim is None and len(call.args) > self.place:
            dim = call.args[self.place]
            if call.name == "flip" and isinstance(dim, int):
                dim = call.args[self.place :]
        dim = self.default if dim is None else dim
        forms = call.argument_forms[0]
        dims = range(len(forms)) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
        return any(isinstance(d, int) and forms[d].moves for d in dims)


class Roll(Along):
    """``roll``: by the same distance where the axis is periodic."""

    parameters: tuple[str, ...] = ("input", "shifts", "dims")

    def dilates(self, step: Step) -> bool:
        forms = step.forms(step.arguments["input"])
        dims = self._dims(step)
        wrapped = (
            f.on_grid
            and len(f.axes) == f.fold == 1
            and not any(f.extra)
            and step.nodes.placements[f.axes[0]] == "periodic"
            for f in (forms[dim] for dim in dims)
            if f.moves
        )
        return bool(dims) and all(wrapped)

    @staticmethod
    def _dims(step: Step) -> tuple[int, ...]:
        dims = step.arguments.get("dims")
        return () if dims is None else tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)

    def replay(self, step: Step) -> Any:
        given, dims = step.arguments, self._dims(step)
        shifts = given["shifts"] if isinstance(given["shifts"], (tuple, list)) else (given["shifts"],)
        forms = step.forms(given["input"])
        ratios = [step.nodes.ratio(forms[dim].axes[0]) if forms[dim].moves else 1 for dim in dims]
        if not step.nodes.dilates or not self.dilates(step) or any(r is None for r in ratios):
            return super().replay(step)
        return torch.roll(given["input"], [s * (r or 1) for s, r in zip(shifts, ratios, strict=True)], dims)


class Recurrence(Carried):
    """A recurrent layer along the samples; not one over a sequence that each sample has."""

    def mixes(self, step: Step) -> bool:
        call = step.call
        first = bool(call.kwargs.get("batch_first", call.args[8] if len(call.args) > 8 else False))
        return call.argument_forms[0][1 if first and len(call.argument_forms[0]) == 3 else 0].moves


class Solve(Carried):
    """Linear algebra in which a dimension of samples goes."""

    def mixes(self, step: Step) -> bool:
        return bool(step.call.lost_axes)


class Slice(Carried):
    """``x[…]``, ``narrow``, ``select``, …: samples of a stencil, or padding cut off, or waves of a spectrum."""

    parameters: tuple[str, ...] = ("input", "index")
    anchored = Reason.CUT

    def mixes(self, step: Step) -> bool:
        """Whether samples of the grid itself are left out, or every second one: not where padding is cut off."""
        return self._cuts(step.call) and not self.picks_waves(step)

    @staticmethod
    def _cuts(call: Call) -> bool:
        if not call.result_forms:
            return False
        before = {(k, e) for f in call.argument_forms[0] if f.on_grid for k, e in zip(f.axes, f.extra, strict=True)}
        inexact = {f.axes for f in call.argument_forms[0] if f.moves and not f.exact}
        for f in call.result_forms[0]:
            if f.moves and not f.exact and f.axes not in inexact:
                return True
            if f.on_grid and any(e < 0 and (k, e) not in before for k, e in zip(f.axes, f.extra, strict=True)):
                return True
        return bool(call.lost_axes)

    def picks_waves(self, step: Step) -> bool:
        """Whether a fixed number of waves is taken from a spectrum, which is complex, and the other axes left."""
        x: Tensor = next(iter(tensors((step.args, step.kwargs))))
        if not x.is_complex() or not step.call.result_forms:
            return False
        before, after = (
            {form for form in forms[0] if form.moves} for forms in (step.call.argument_forms, step.call.result_forms)
        )
        return bool(step.call.lost_axes) and after <= before

    def origin_shifts(self, call: Call, ndim: int) -> dict[int, int]:
        items = index_items(self.arguments(call.args, call.kwargs).get("index"), ndim) or []
        return {
            dim: -item.start
            for dim, item in enumerate(items)
            if isinstance(item, slice) and isinstance(item.start, int) and item.start > 0
        }


class Index(Slice):
    """``x[…]``: padding is cut off where it ends in space."""

    def sums(self, step: WeightedStep) -> bool:
        """Whether padded samples are left out; what leaves out samples of the grid is a shift or a stencil."""
        if not step.call.result_forms or len(step.call.argument_forms[0]) != len(step.call.result_forms[0]):
            return False
        extras = [
            pair
            for before, after in dimensions(step)
            if _shortened(before, after)
            for pair in zip(before.extra, after.extra, strict=True)
        ]
        pads = [(k, e) for before, after in dimensions(step) if _shortened(before, after) for k, e in before.padding()]
        return (
            bool(extras)
            and all(e0 > e1 >= 0 or e0 == e1 for e0, e1 in extras)
            and all(pad in step.nodes.summed for pad in pads)
        )

    def anchor(self, step: WeightedStep) -> Any:
        x, nodes = step.args[0], step.nodes
        items = index_items(step.args[1], x.ndim)
        if items is None:
            return step.run()
        for dim, (before, after) in enumerate(dimensions(step)):
            if _shortened(before, after) and len(before.axes) == 1:
                k = before.axes[0]
                start = nodes.origin(k, before.extra[0]) - nodes.origin(k, after.extra[0])
                items[dim] = slice(start, start + nodes.shape[k] + nodes.extra(k, after.extra[0]))
        return step.func(x, tuple(items))


def _shortened(before: Form, after: Form) -> bool:
    return before.on_grid and after.on_grid and before.axes == after.axes and before.extra != after.extra


register(each_dimension("conv", "conv_transpose"), Convolution(Reason.KERNELS))
register(each_dimension("avg_pool", "max_pool", "lp_pool", "fractional_max_pool"), Carried(Reason.POOLS))
register(each_dimension("max_pool_with_indices", "max_unpool"), Carried(Reason.POOLS))
register(" ".join(f"{a}max_pool{d}d_with_indices" for a in ("", "adaptive_") for d in (1, 2, 3)), Carried(Reason.POOLS))
register("interpolate upsample grid_sample upsample_nearest upsample_bilinear", Carried(Reason.RESAMPLED))
register("unfold fold pixel_shuffle pixel_unshuffle im2col col2im", Carried(Reason.PATCHES))
register("gumbel_softmax", Along(Reason.SHARED, place=4, default=-1, relates_neighbours=False))
register("roll", Roll(Reason.SHIFTED, place=2))
register("diff", Along(Reason.SHIFTED, place=2, default=-1))
register("gradient", Along(Reason.SHIFTED, place=9))
register("cumsum cumprod cummax cummin logcumsumexp cumulative_trapezoid flip fliplr flipud", Along(Reason.ORDERED))
register("rot90", Along(Reason.ORDERED, place=2))
register("sort argsort", Along(Reason.ORDERED, default=-1))
register("topk", Along(Reason.ORDERED, place=2, default=-1))
register("gru lstm rnn_tanh rnn_relu", Recurrence(Reason.ORDERED, relates_neighbours=True))
register("hfft ihfft hfft2 ihfft2 hfftn ihfftn stft istft", Carried(Reason.FOURIER, relates_neighbours=True))
register("index_select gather take_along_dim scatter scatter_add index_add", Along(Reason.INDEXED))
register("solve inv pinv cholesky qr svd eigh det", Solve(Reason.INDEXED, relates_neighbours=True))
register("getitem", Index(Reason.SHIFTED, relates_neighbours=True))
register("narrow select unbind split chunk", Slice(Reason.SHIFTED, relates_neighbours=True))
