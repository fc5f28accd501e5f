"""The one entrance to the weighted core.

Eager tensors go through the custom op ``quadnorm::norm``, or, if nothing has wrapped them, straight to its kernels. The
backward keeps only x, the weights and the statistics.
``torch.compile`` and ``torch.export`` see plain operations in an order that fuses well (the former takes the weights as
a tensor of their own, made by an op it cannot fuse); forward-mode AD and functorch see the plain formula, which has all
derivatives.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import handle_torch_function, has_torch_function

from quadnorm.norms.kernels import dispatch, formula, traced
from quadnorm.norms.weights import inspectable


def normalize(
    x: Tensor,
    w: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    groups: int = 1,
    eps: float = 1e-5,
    centre: bool = True,
) -> Tensor:
    """γ·(x − μ)·rstd + β for x (B, C, *spatial) and weights w (1 or B, N) that sum to 1; without ``centre``, μ = 0."""
    if has_torch_function((x, w)):  # one call to modes, as PyTorch's own norms are
        y: Tensor = handle_torch_function(normalize, (x, w), x, w, weight, bias, groups, eps, centre)
        return y
    dtype = formula.statistics_dtype(x)
    weight = weight if weight is None or weight.dtype == dtype else weight.to(dtype)
    bias = bias if bias is None or bias.dtype == dtype else bias.to(dtype)
    if torch.compiler.is_compiling():
        return traced.forward(x, w, weight, bias, groups, eps, centre)
    if _needs_formula(x, w, weight, bias):
        return formula.forward(x, w, weight, bias, groups, eps, centre)
    # Plain tensors skip the custom op: its dispatch in Python would be a third of a small layer's time.
    if inspectable(x, w, weight, bias):
        if not torch.is_grad_enabled():
            return dispatch.forward(_flat(x), w, weight, bias, groups, eps, centre)[0].reshape(x.shape)
        plain: Tensor = _Plain.apply(x, w, weight, bias, groups, eps, centre)  # type: ignore[no-untyped-call]
        return plain
    through_op: Tensor = norm(x, w, weight, bias, groups, eps, centre)[0]
    return through_op


def _needs_formula(*tensors: Tensor | None) -> bool:
    """Whether a tangent or a functorch transform that differentiates is involved: a custom op knows neither."""
    if forward_ad._current_level < 0 and not torch._C._are_functorch_transforms_active():
        return False
    unpack: Any = forward_ad.unpack_dual
    if any(t is not None and unpack(t).tangent is not None for t in tensors):
        return True
    functorch = torch._C._functorch
    for t in tensors:
        while t is not None and functorch.is_functorch_wrapped_tensor(t):
            if functorch.is_gradtrackingtensor(t):
                return True
            t = functorch.get_unwrapped(t)
    return False


def _flat(x: Tensor) -> Tensor:
    return x.flatten(2).contiguous()


@torch.library.custom_op("quadnorm::norm", mutates_args=())
def norm(
    x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float, centre: bool
) -> tuple[Tensor, Tensor]:
    """Output like x, and the statistics (3, B, G) that its backward needs."""
    y, stats = dispatch.forward(_flat(x), w, weight, bias, groups, eps, centre)
    return y.reshape(x.shape), stats


@torch.library.custom_op("quadnorm::norm_backward", mutates_args=())
def norm_backward(
    g: Tensor, x: Tensor, w: Tensor, weight: Tensor | None, stats: Tensor, eps: float, centre: bool
) -> tuple[Tensor, Tensor]:
    """Gradient for x, and Σ g and Σ g·ŷ over the samples, (2, B, C)."""
    return _gradient(g, x, w, weight, stats, eps, centre)


def _gradient(
    g: Tensor, x: Tensor, w: Tensor, weight: Tensor | None, stats: Tensor, eps: float, centre: bool
) -> tuple[Tensor, Tensor]:
    dx, sums = dispatch.backward(_flat(g), _flat(x), w, weight, stats, eps, centre)
    return dx.reshape(x.shape), sums


@norm.register_fake
def _(
    x: Tensor, w: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float, centre: bool
) -> tuple[Tensor, Tensor]:
    stats = x.new_empty((3, x.shape[0], groups), dtype=formula.statistics_dtype(x))
    return torch.empty_like(x, memory_format=torch.contiguous_format), stats


@norm_backward.register_fake
def _(
    g: Tensor, x: Tensor, w: Tensor, weight: Tensor | None, stats: Tensor, eps: float, centre: bool
) -> tuple[Tensor, Tensor]:
    sums = stats.new_empty((2, x.shape[0], x.shape[1]))
    return torch.empty_like(x, memory_format=torch.contiguous_format), sums


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, w, weight, bias, groups, eps, centre = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(x, w, weight, output[1])
    ctx.options = groups, eps, centre, bias is not None


def _backward(ctx: Any, g: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    x, w, weight, stats = ctx.saved_tensors
    groups, eps, centre, has_bias = ctx.options
    wrt_w = ctx.needs_input_grad[1]
    if torch.is_grad_enabled():  # somebody will differentiate again: the formula can, the kernel cannot
        dx, dweight, dbias, dw = formula.backward(g, x, w, weight, groups, eps, centre, wrt_w)
    else:
        kernel = _gradient if inspectable(g) else norm_backward
        dx, sums = kernel(g, x, w, weight, stats, eps, centre)
        dbias, dweight = sums.sum(1)
        dw = _weights_gradient(x, w, weight, stats, sums, centre) if wrt_w else None
    return dx, dw, dweight if weight is not None else None, dbias if has_bias else None, None, None, None


norm.register_autograd(_backward, setup_context=_setup)


class _Plain(torch.autograd.Function):
    """The op for tensors that no tracer or transform has wrapped: the same kernels, the same backward."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        x, w, weight, bias, groups, eps, centre = inputs
        y, stats = dispatch.forward(_flat(x), w, weight, bias, groups, eps, centre)
        ctx.save_for_backward(x, w, weight, stats)
        ctx.options = groups, eps, centre, bias is not None
        return y.reshape(x.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _backward(ctx, grads[0], grads[0])


def _weights_gradient(x: Tensor, w: Tensor, weight: Tensor | None, stats: Tensor, sums: Tensor, centre: bool) -> Tensor:
    """The last line of :func:`formula.backward`'s docstring, one batch entry at a time."""
    B, C = x.shape[:2]
    G = stats.shape[2]
    dw = torch.zeros(B, w.shape[1], dtype=w.dtype, device=w.device)
    h = (sums if weight is None else sums * weight).reshape(2, B, G, C // G).mean(3)  # (2, B, G)
    for b in range(B):
        high, low, rstd = stats[:, b, :, None, None]
        xhat = (x[b].reshape(G, C // G, -1).to(w.dtype) - high - low) * rstd
        dw[b] = -(xhat.square().sum(1) * h[1, b, :, None] / 2).sum(0)
        if centre:
            dw[b] -= (xhat.sum(1) * h[0, b, :, None]).sum(0)
    return dw.sum(0, keepdim=True) if w.shape[0] == 1 else dw


# --- vmap ------------------------------------------------------------------------------------------------------------


def _looped(op: Any, size: int, dims: tuple[int | None, ...], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """One call per entry, for parameters that differ between the entries."""
    moved = [a if d is None else a.movedim(d, 0) for a, d in zip(args, dims, strict=True)]
    calls = [op(*(a if d is None else a[i] for a, d in zip(moved, dims, strict=True))) for i in range(size)]
    return tuple(torch.stack(parts) for parts in zip(*calls, strict=True)), (0, 0)


def _folded(t: Tensor, dim: int | None, size: int) -> Tensor:
    """(V, B, …) as (V·B, …)."""
    t = t.expand(size, *t.shape) if dim is None else t.movedim(dim, 0)
    return t.flatten(0, 1)


def _folded_weights(w: Tensor, dim: int | None, size: int, B: int) -> Tensor:
    """Weights for V·B entries; shared ones stay shared."""
    if dim is None and w.shape[0] == 1:
        return w
    w = w.expand(size, *w.shape) if dim is None else w.movedim(dim, 0)  # (V, 1 or B, N)
    return w.expand(size, B, w.shape[-1]).flatten(0, 1)


@norm.register_vmap
def _(info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
    size, (x, w, weight, bias, groups, eps, centre) = info.batch_size, args
    if dims[2] is not None or dims[3] is not None:
        return _looped(norm, size, dims, args)
    xs = _folded(x, dims[0], size)
    B = xs.shape[0] // size
    y, stats = norm(xs, _folded_weights(w, dims[1], size, B), weight, bias, groups, eps, centre)
    return (y.unflatten(0, (size, B)), stats.unflatten(1, (size, B))), (0, 1)


@norm_backward.register_vmap
def _(info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
    size, (g, x, w, weight, stats, eps, centre) = info.batch_size, args
    if dims[3] is not None:
        return _looped(norm_backward, size, dims, args)
    gs, xs = _folded(g, dims[0], size), _folded(x, dims[1], size)
    B = xs.shape[0] // size
    ss = stats.unsqueeze(1).expand(3, size, *stats.shape[1:]) if dims[4] is None else stats.movedim(dims[4], 1)
    dx, sums = norm_backward(gs, xs, _folded_weights(w, dims[2], size, B), weight, ss.flatten(1, 2), eps, centre)
    return (dx.unflatten(0, (size, B)), sums.unflatten(1, (size, B))), (0, 1)
