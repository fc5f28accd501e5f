"""Maps that act on every sample alone, on fields (B, C, N): the same at every resolution, and most of a CPU's work."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._precision import is_batched
from quadnorm._tensors import is_plain

# Hidden activations of one block of points stay in the second-level caches, one share for each thread.
BLOCK_BYTES = 2**20
# A hidden field up to this size is kept for the backward pass: making it again takes longer than reading it back.
KEPT_BYTES = 2**24


def affine(x: Tensor, weight: Tensor, bias: Tensor | None, onto: Tensor | None = None) -> Tensor:
    """W x + b (+ ``onto``): x (B, I, N), weight (O, I) or one per sample (B, O, I), bias (O,) → (B, O, N).

    One batched matrix product with the addition inside; a convolution with 1×1 kernels takes twice as long or more.
    """
    B = x.shape[0]
    w = weight.expand(B, -1, -1)
    if onto is None:
        return torch.bmm(w, x) if bias is None else torch.baddbmm(bias.view(1, -1, 1), w, x)
    y = torch.baddbmm(onto, w, x)
    return y if bias is None else y + bias.view(1, -1, 1)


def plus_product(y: Tensor, weight: Tensor | None, x: Tensor) -> Tensor:
    """The field y (B, C_out, *spatial) with W x added; itself without W."""
    return y if weight is None else affine(x.flatten(2), weight, None, onto=y.flatten(2)).view(y.shape)


class Pointwise(nn.Module):
    r"""A linear map of the channels, :math:`y_j = W x_j + b` at every sample j.

    Shapes: (B, C_in, *spatial) → (B, C_out, *spatial). Initialised as ``nn.Linear``.

    >>> Pointwise(3, 8)(torch.randn(2, 3, 5, 6)).shape
    torch.Size([2, 8, 5, 6])
    """

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in ±1/√C_in."""
        bound = 1 / sqrt(self.weight.shape[1])
        for p in self.parameters():
            nn.init.uniform_(p, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """The map, at every sample."""
        return affine(x.flatten(2), self.weight, self.bias).view(x.shape[0], self.weight.shape[0], *x.shape[2:])

    def extra_repr(self) -> str:
        """What the constructor was given."""
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}, bias={self.bias is not None}"


class PointwiseMLP(nn.Module):
    r"""Two linear maps with a GELU between, :math:`y_j = W_2\,\mathrm{GELU}(W_1 x_j + b_1) + b_2` at every sample j.

    On a CPU the wide hidden field is made block by block. A large one is made again for the derivative, which is faster
    than writing it to memory, and what remains for the backward pass is x alone; a small one (16 MiB) is kept.

    Shapes: (B, C_in, N) → (B, C_out, N); ``onto`` (B, C_out, N) is added if given.

    >>> PointwiseMLP(3, 16, 1)(torch.randn(2, 3, 50)).shape
    torch.Size([2, 1, 50])
    """

    def __init__(self, in_channels: int, hidden: int, out_channels: int) -> None:
        super().__init__()
        self.first = Pointwise(in_channels, hidden)
        self.second = Pointwise(hidden, out_channels)

    def forward(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """The map at every sample, added to ``onto`` if given."""
        args = (x, self.first.weight, self.first.bias, self.second.weight, self.second.bias)
        if x.device.type != "cpu" or not is_plain(*args, onto) or torch.is_autocast_enabled("cpu"):
            return plain_mlp(*args, onto)  # type: ignore[arg-type]
        hidden = x.shape[0] * self.first.weight.shape[0] * x.shape[2] * x.element_size()
        keep = torch.is_grad_enabled() and hidden <= KEPT_BYTES
        y: Tensor = _BlockedMLP.apply(*args, onto, keep)
        return y


def plain_mlp(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, onto: Tensor | None) -> Tensor:
    """The formula."""
    return affine(nn.functional.gelu(affine(x, w1, b1)), w2, b2, onto)


def plain_gradient(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    """Derivatives of :func:`plain_mlp` by x, w1, b1, w2, b2, for the derivative g by its value."""
    pre = affine(x, w1, b1)
    act = nn.functional.gelu(pre)
    hidden = torch.ops.aten.gelu_backward(affine(g, w2.t(), None), pre)
    back = torch.bmm(hidden, x.transpose(1, 2)).sum(0), hidden.sum((0, 2)), torch.bmm(g, act.transpose(1, 2)).sum(0)
    return affine(hidden, w1.t(), None), *back, g.sum((0, 2))


def _blocks(x: Tensor, hidden: int) -> list[tuple[slice, slice]]:
    """All blocks, as (samples, points): several whole samples where they are small, a part of one where it is large."""
    B, _, N = x.shape
    points = max(64, BLOCK_BYTES * torch.get_num_threads() // (hidden * x.element_size()))
    samples = max(1, points // max(N, 1))
    return [
        (slice(b, min(b + samples, B)), slice(n, min(n + points, N)))
        for b in range(0, B, samples)
        for n in range(0, N, points)
    ]


class _BlockedMLP(torch.autograd.Function):
    # Everything is written into the same few buffers: new memory would not be in the cache.

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, onto: Tensor | None, keep: bool
    ) -> Tensor:
        c1, c2 = b1[:, None], b2[:, None]
        y = c2.repeat(x.shape[0], 1, x.shape[2]) if onto is None else onto + c2
        hidden = _Hidden(x, w1.shape[0], keep)
        ctx.save_for_backward(x, w1, b1, w2, hidden.space if keep else None)
        for b, s in hidden.blocks:
            pre, act = hidden.of(b, s)
            _product(w1, x[b, :, s], out=pre).add_(c1)
            torch.ops.aten.gelu.out(pre, out=act)
            _add_product(y[b, :, s], w2, act)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, w1, b1, w2, kept = ctx.saved_tensors
        onto = g if ctx.needs_input_grad[5] else None
        # Derivatives of the derivative, or many at once: plain operations.
        if torch.is_grad_enabled() or is_batched(g) or not is_plain(g):
            return *plain_gradient(x, w1, b1, w2, g), onto, None
        gx = torch.empty_like(x, memory_format=torch.contiguous_format) if ctx.needs_input_grad[0] else None
        g1, gb1, g2 = (torch.zeros_like(t) for t in (w1, b1, w2))
        hidden, scratch = _Hidden(x, w1.shape[0], False, kept), _Hidden(x, w1.shape[0], False)
        for b, s in hidden.blocks:
            xs, gs = x[b, :, s], g[b, :, s]
            (pre, act), (ga, gh) = hidden.of(b, s), scratch.of(b, s)
            if kept is None:
                _product(w1, xs, out=pre).add_(b1[:, None])
                torch.ops.aten.gelu.out(pre, out=act)
            _add_outer(g2, gs, act)
            _product(w2.t(), gs, out=ga)
            torch.ops.aten.gelu_backward.grad_input(ga, pre, grad_input=gh)
            _add_outer(g1, gh, xs)
            gb1 += gh.sum((0, 2))
            if gx is not None:
                _product(w1.t(), gh, out=gx[b, :, s])
        return gx, g1, gb1, g2, g.sum((0, 2)), onto, None


def _product(w: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """W x of one block: w (O, I), x (b, I, n) → (b, O, n). One sample by itself: a batched product costs more."""
    if x.shape[0] == 1:
        torch.mm(w, x[0], out=out[0])
    else:
        torch.bmm(w.expand(x.shape[0], -1, -1), x, out=out)
    return out


def _add_product(y: Tensor, w: Tensor, x: Tensor) -> None:
    """Add W x to y, shapes as for :func:`_product`."""
    if x.shape[0] == 1:
        y[0].addmm_(w, x[0])
    else:
        y.baddbmm_(w.expand(x.shape[0], -1, -1), x)


def _add_outer(total: Tensor, g: Tensor, x: Tensor) -> None:
    """Add Σ g xᵀ over samples and points to ``total`` (O, I)."""
    if x.shape[0] == 1:
        total.addmm_(g[0], x[0].t())
    else:
        total.addbmm_(g, x.transpose(1, 2))


class _Hidden:
    """Two hidden fields (B, H, N), block by block: memory for all blocks if they are kept, else for one of them."""

    def __init__(self, x: Tensor, channels: int, keep: bool, space: Tensor | None = None) -> None:
        self.blocks = _blocks(x, channels)
        self.channels, self.points, self.keep = channels, x.shape[2], keep or space is not None
        largest = max(((b.stop - b.start) * (s.stop - s.start) for b, s in self.blocks), default=0)
        numbers = channels * (x.shape[0] * x.shape[2] if self.keep else largest)
        self.space = x.new_empty(2, numbers) if space is None else space

    def of(self, b: slice, s: slice) -> Iterator[Tensor]:
        """The fields of one block, (samples, H, points)."""
        samples, points = b.stop - b.start, s.stop - s.start
        start = (b.start * self.points + s.start) * self.channels if self.keep else 0
        shape = samples, self.channels, points
        return (t[start : start + samples * self.channels * points].view(shape) for t in self.space)
