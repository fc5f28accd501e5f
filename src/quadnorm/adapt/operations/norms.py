"""Norms over samples: statistics of the native run are applied to new samples, or taken under the training measure."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.adapt.operations.base import Operation, register
from quadnorm.adapt.operations.reductions import mean_square, moments
from quadnorm.adapt.report import Reason
from quadnorm.adapt.watching.calls import Step, WeightedStep

Dims = tuple[int, ...]
Moments = tuple[Tensor, Tensor]  # mean, and mean square about it


def _counted_moments(x: Tensor, dims: Dims, centre: bool) -> Moments:
    """Mean (zero without ``centre``) and mean square about it, dimensions kept."""
    y = x.to(sum_dtype(x))
    if not centre:
        return y.new_zeros(()), y.square().mean(dims, keepdim=True)
    v, m = torch.var_mean(y, dims, keepdim=True, correction=0)
    return m, v


def scaled(x: Tensor, stats: Moments, eps: float, weight: Any, bias: Any) -> Tensor:
    """γ(x − m)/√(v + ε) + β as one multiplication and addition."""
    m, v = stats
    scale = torch.rsqrt(v + eps)
    if weight is not None:
        scale = scale * weight.to(scale.dtype)
    shift = -m * scale
    if bias is not None:
        shift = shift + bias.to(scale.dtype)
    if scale.numel() > x.numel() or x.dtype != scale.dtype:
        return (x.to(scale.dtype) * scale + shift).to(x.dtype)
    return torch.addcmul(shift, x, scale)


def _per_channel(p: Tensor | None, x: Tensor) -> Tensor | None:
    """γ or β, one number for each channel, as a factor of x (B, C, *spatial)."""
    return None if p is None else p.reshape(1, -1, *[1] * (x.ndim - 2))


class ChannelNorm(Operation):
    """A norm with its channels at dimension 1; all that follows is space."""

    reason = Reason.NORMED
    extended = Reason.KEEPS_MOMENTS

    def groups(self, given: dict[str, Any]) -> int | None:
        """Groups of channels per batch entry; None: one mean for the whole batch."""
        channels: int = given["input"].shape[1]
        return channels

    def scaled(self, given: dict[str, Any], stats: Moments) -> Tensor:
        """The input with these statistics taken off."""
        x = given["input"]
        weight, bias = (_per_channel(given.get(name), x) for name in ("weight", "bias"))
        return scaled(x, stats, given.get("eps", 1e-5), weight, bias)

    def keep(self, step: Step) -> Moments | None:
        x, groups = step.arguments["input"], self.groups(step.arguments)
        inner = {0, *range(2, x.ndim)} if groups is None else set(range(2, x.ndim))
        return _group_moments(x, groups) if set(step.moving(x)) <= inner else None

    def replay(self, step: Step) -> Tensor:
        given, stats = step.arguments, step.kept
        if stats is None:
            x = given["input"]
            stats = _group_moments(step.restricted(x, list(range(2, x.ndim))), self.groups(given))
        return self.scaled(given, stats)

    def sums(self, step: WeightedStep) -> bool:
        return self.mixes(step) and self.groups(step.arguments) is not None

    def anchor(self, step: WeightedStep) -> Tensor:
        given = step.arguments
        x, groups = given["input"], self.groups(given)
        v, m = moments(step, x, list(range(2, x.ndim)), 0)
        if groups is not None and groups != x.shape[1]:  # a group's variance: within its channels and between them
            m_g, square = (
                t.reshape(t.shape[0], groups, -1, *t.shape[2:]).mean(2, keepdim=True) for t in (m, v + m.square())
            )
            v_g = (square - m_g.square()).clamp_min(0)
            m, v = (t.expand(-1, -1, x.shape[1] // groups, *[1] * (x.ndim - 2)).flatten(1, 2) for t in (m_g, v_g))
        return self.scaled(given, (m, v))


def _group_moments(x: Tensor, groups: int | None) -> Moments:
    """Mean and variance of every channel's group, (B or 1, C, 1, …)."""
    if groups is None:
        return _counted_moments(x, (0, *range(2, x.ndim)), True)
    y = x.reshape(x.shape[0], groups, -1, *x.shape[2:]) if groups != x.shape[1] else x
    m, v = _counted_moments(y, tuple(range(2, y.ndim)), True)
    if groups == x.shape[1]:
        return m, v
    shape = (*x.shape[:2], *[1] * (x.ndim - 2))
    per = x.shape[1] // groups
    m, v = (t.flatten(1).repeat_interleave(per, 1).reshape(shape) for t in (m, v))
    return m, v


class GroupNormCall(ChannelNorm):
    """``F.group_norm``."""

    parameters: tuple[str, ...] = ("input", "num_groups", "weight", "bias", "eps")

    def groups(self, given: dict[str, Any]) -> int | None:
        return int(given["num_groups"])


class InstanceNormCall(ChannelNorm):
    """``F.instance_norm``, and the lower level's form with nine arguments; running statistics are no sum."""

    running, affine = ("running_mean", "running_var"), ("weight", "bias")
    flag, default = "use_input_stats", True  # the argument that says whether statistics are the input's

    def arguments(self, args: Any, kwargs: Any) -> dict[str, Any]:
        first = (*self.affine, *self.running) if len(args) == 9 else (*self.running, *self.affine)
        names = ("input", *first, self.flag, "momentum", "eps")
        return dict(zip(names, args, strict=False)) | super().arguments((), kwargs)

    def mixes(self, step: Step) -> bool:
        return bool(step.call.axes) and bool(step.arguments.get(self.flag, self.default))

    def harmless(self, step: Step) -> Reason | None:
        return None if self.mixes(step) else Reason.RUNNING


class BatchNorm(InstanceNormCall):
    """``F.batch_norm``: statistics of a batch are not those of a grid, and are not anchored."""

    flag, default = "training", False

    def groups(self, given: dict[str, Any]) -> int | None:
        return None

    def cause(self, step: Step) -> str:
        tracked = step.arguments.get("running_mean") is not None
        return (Reason.BATCH_TRAINING if tracked else Reason.BATCH).text()


class TrailingNorm(Operation):
    """A norm over trailing axes, of which some are space: layer norm."""

    parameters: tuple[str, ...] = ("input", "normalized_shape", "weight", "bias", "eps")
    reason = Reason.NORMED
    extended = Reason.KEEPS_STATISTICS
    centred = True  # whether the mean is subtracted

    def dims(self, given: dict[str, Any]) -> list[int]:
        """The dimensions that ``normalized_shape`` stands for."""
        x, shape = given["input"], given["normalized_shape"]
        k = len(shape) if isinstance(shape, (tuple, list)) else 1
        return list(range(x.ndim - k, x.ndim))

    def mixes(self, step: Step) -> bool:
        return bool(set(self.dims(step.arguments)) & set(step.moving(step.arguments["input"])))

    def scaled(self, step: Step, stats: Moments) -> Tensor:
        """The input with these statistics taken off; γ and β, which have a value per sample, at the new nodes."""
        given = step.arguments
        x, eps = given["input"], given.get("eps")
        if eps is None:
            eps = 1e-5 if self.centred else torch.finfo(x.dtype).eps
        forms = step.forms(x)[x.ndim - len(self.dims(given)) :]
        weight, bias = (
            None if given.get(name) is None else step.nodes.carried(given[name], forms) for name in ("weight", "bias")
        )
        return scaled(x, stats, eps, weight, bias)

    def keep(self, step: Step) -> Moments | None:
        """The native statistics; None where other dimensions move too, so that they must be taken anew."""
        x, dims = step.arguments["input"], self.dims(step.arguments)
        return _counted_moments(x, tuple(dims), self.centred) if set(step.moving(x)) <= set(dims) else None

    def replay(self, step: Step) -> Tensor:
        x, dims, stats = step.arguments["input"], self.dims(step.arguments), step.kept
        if stats is None:
            stats = _counted_moments(step.restricted(x, dims), tuple(dims), self.centred)
        return self.scaled(step, stats)

    def sums(self, step: WeightedStep) -> bool:
        return self.mixes(step)

    def anchor(self, step: WeightedStep) -> Tensor:
        x, dims = step.arguments["input"], self.dims(step.arguments)
        if self.centred:
            v, m = moments(step, x, dims, 0)
        else:
            m, v = x.new_zeros(()), mean_square(step, x, dims)
        return self.scaled(step, (m, v))


class RMSNormCall(TrailingNorm):
    """``F.rms_norm``."""

    parameters: tuple[str, ...] = ("input", "normalized_shape", "weight", "eps")
    centred = False


class OurNorm(ChannelNorm):
    """Norms of this package, with weights of their own; their measure is set, not their calls changed."""

    parameters: tuple[str, ...] = ("input", "w", "weight", "bias", "groups", "eps", "centre")

    def mixes(self, step: Step) -> bool:
        return bool(step.call.axes)

    def keep(self, step: Step) -> Moments:
        """Mean and variance of every channel's group under the norm's own weights."""
        given = step.arguments
        x, w, groups = given["input"], given["w"], given.get("groups", 1)
        y = x.flatten(2).to(sum_dtype(x)).reshape(x.shape[0], groups, x.shape[1] // groups, -1)  # (B, G, C/G, N)
        weights = w.to(y.dtype)[:, None, None]
        per = y.shape[2]
        m = (y * weights).sum((2, 3), keepdim=True) / per if given.get("centre", True) else y.new_zeros(1, 1, 1, 1)
        v = ((y - m).square() * weights).sum((2, 3), keepdim=True) / per
        shape = (x.shape[0], x.shape[1], *[1] * (x.ndim - 2))
        m, v = (t.expand(x.shape[0], groups, per, 1).reshape(shape) for t in (m, v))
        return m, v

    def replay(self, step: Step) -> Tensor:
        return self.scaled(step.arguments, step.kept)

    def sums(self, step: WeightedStep) -> bool:
        return False


register("group_norm", GroupNormCall())
register("instance_norm", InstanceNormCall())
register("batch_norm", BatchNorm())
register("layer_norm", TrailingNorm())
register("rms_norm", RMSNormCall())
register("quadnorm.normalize", OurNorm())
