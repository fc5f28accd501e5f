"""The one entrance to the weighted core.

Plain tensors go to a kernel, whose backward keeps only x, the weights and the statistics. Compilers, exporters,
tracers, functional transforms, forward-mode AD, fake tensors and other subclasses get the formula in plain operations,
which has all derivatives.
"""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from quadnorm._tensors import is_plain, recorded_before_dispatch
from quadnorm.norms.kernels import dispatch, formula
from quadnorm.norms.kernels.inputs import Inputs, fill_values, has_no_fill_values, without_fill_values


def normalize(
    x: Tensor,
    w: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    groups: int = 1,
    eps: float = 1e-5,
    centre: bool = True,
    holes: bool = False,
) -> Tensor:
    """γ·(x − μ)·rstd + β for x (B, C, *spatial) and weights w (1 or B, N) that sum to 1; without ``centre``, μ = 0.

    With ``holes``, NaN, infinite and fill values at samples of weight 0 are read as 0.
    """
    watched = has_torch_function((x, w))
    if holes and (watched or not is_plain(x, w, weight, bias) or not dispatch.triton_serves(x)):
        if watched or not has_no_fill_values(x):
            x = without_fill_values(x, w)  # sweeps of its own, which only Triton's kernel saves
        holes = False
    # One call to modes, as PyTorch's own norms are. A recorder must be seen here: modes see no other mode behind them.
    if watched and not recorded_before_dispatch():
        seen: Tensor = handle_torch_function(normalize, (x, w), x, w, weight, bias, groups, eps, centre)
        return seen
    weight, bias = _per_channel(weight, "weight", x, w), _per_channel(bias, "bias", x, w)
    if not is_plain(x, w, weight, bias):
        return formula.forward(x, w, weight, bias, groups, eps, centre)
    if torch.is_grad_enabled():
        options = groups, eps, centre, holes
        y: Tensor = Normalize.apply(x, w, weight, bias, options)
        return y
    return dispatch.forward(Inputs(x, w, weight, bias, groups, eps, centre, holes))[0]


def _per_channel(p: Tensor | None, name: str, x: Tensor, w: Tensor) -> Tensor | None:
    """γ or β in the statistics' dtype, if it has one number per channel: kernels read that many in any case."""
    if p is None:
        return None
    if p.ndim != 1 or p.shape[0] != x.shape[1]:
        raise ValueError(
            f"{name} has shape {tuple(p.shape)}; expected one number for each of the {x.shape[1]} channels, "
            f"{(x.shape[1],)}"
        )
    return p if p.dtype == w.dtype else p.to(w.dtype)


class Normalize(torch.autograd.Function):
    """The kernels as one differentiable operation."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        """The tensors of :class:`Inputs`, one by one (PyTorch looks for none inside others), and the other fields."""
        x, w, weight, bias, ctx.options = given
        y, stats = dispatch.forward(Inputs(x, w, weight, bias, *ctx.options))
        ctx.save_for_backward(x, w, weight, stats)
        ctx.has_bias = bias is not None
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, w, weight, stats = ctx.saved_tensors
        given = Inputs(x, w, weight, None, *ctx.options)
        wrt_w = ctx.needs_input_grad[1]
        # Whoever differentiates again, or many gradients at once, needs the formula; the kernel knows neither.
        if torch.is_grad_enabled() or not is_plain(grads[0], x):
            dx, dweight, dbias, dw = backward_by_formula(grads[0], given, wrt_w)
        else:
            dx, dbias, dweight, dw = dispatch.backward(given, grads[0], stats, wrt_w)
        return dx, dw, dweight if weight is not None else None, dbias if ctx.has_bias else None, None


def backward_by_formula(g: Tensor, given: Inputs, wrt_w: bool) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients for x, γ, β and, if asked for, the weights, in operations that can be differentiated again."""
    x, w, weight, _, groups, eps, centre, holes = given
    if not holes:
        return formula.backward(g, x, w, weight, groups, eps, centre, wrt_w)
    present = without_fill_values(x, w)
    dx, dweight, dbias, dw = formula.backward(g, present, w, weight, groups, eps, centre, wrt_w)
    return torch.where(fill_values(x, w), torch.zeros_like(dx), dx), dweight, dbias, dw
