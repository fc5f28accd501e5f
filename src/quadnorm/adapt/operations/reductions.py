"""Reductions over samples, global pools, softmax and ``F.normalize``, and derivatives of what was summed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.adapt.operations.base import Carried, Operation, each_dimension, register
from quadnorm.adapt.report import Reason
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watching.calls import Step, WeightedStep


def mean(step: WeightedStep, x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    """Σ_j c_j x_j / n₀ over ``dims``, with c_j the count of sample j and n₀ the number of training samples."""
    return (x * step.counts(x, dims)).sum(dims, keepdim=keepdim) / step.native_count(x, dims)


def mean_square(step: WeightedStep, x: Tensor, dims: list[int]) -> Tensor:
    """Σ_j c_j x_j² / n₀, dimensions kept."""
    return (x.square() * step.counts(x, dims)).sum(dims, keepdim=True) / step.native_count(x, dims)


def moments(step: WeightedStep, x: Tensor, dims: list[int], correction: float) -> tuple[Tensor, Tensor]:
    """Variance and mean, dimensions kept."""
    m = mean(step, x, dims, True)
    n = step.native_count(x, dims)
    v = ((x - m).square() * step.counts(x, dims)).sum(dims, keepdim=True) / max(n - correction, 1e-30)
    return v, m


class Reduction(Operation):
    """What has fewer axes of the grid than it was given; extension reduces over the training grid's nodes."""

    parameters: tuple[str, ...] = ("input", "dim", "keepdim")
    extended = Reason.REDUCES_NATIVE

    def __init__(self, reason: Reason = Reason.COUNTED) -> None:
        self.reason = reason

    def mixes(self, step: Step) -> bool:
        return bool(step.call.lost_axes)

    def replay(self, step: Step) -> Any:
        """Over the training nodes along the axes that go, at the new nodes of the others."""
        lost = step.call.lost_axes
        substitutes = {}
        for t in tensors((step.args, step.kwargs)):
            dims = [dim for dim, form in enumerate(step.forms(t)) if form.on_grid and set(form.axes) <= lost]
            if step.is_live(t) and dims:
                substitutes[id(t)] = step.restricted(t, dims)
        return step.run_with(substitutes)


class Sum(Reduction):
    """A reduction that can be anchored: each sample counts as in training."""

    def sums(self, step: WeightedStep) -> bool:
        return bool(step.call.lost_axes)

    def anchor(self, step: WeightedStep) -> Any:
        given = step.arguments
        x, dtype = given["input"], given.get("dtype")
        result = self.reduced(step, x, _dims(given.get("dim"), x.ndim), bool(given.get("keepdim", False)))
        return result if dtype is None else result.to(dtype)

    def reduced(self, step: WeightedStep, x: Tensor, dims: list[int], keepdim: bool) -> Any:
        """The reduction of x under the training grid's measure: here a mean or a sum."""
        if step.call.name == "mean":
            return mean(step, x, dims, keepdim).to(x.dtype)
        values = x if step.call.name == "sum" else x != 0
        total = (values * step.counts(x, dims)).sum(dims, keepdim=keepdim)
        # Of a mask, the number of samples at the training grid, which need not be whole.
        return total.to(x.dtype) if values.is_floating_point() or values.is_complex() else total


def _dims(value: Any, ndim: int) -> list[int]:
    if value is None:
        return list(range(ndim))
    many = value if isinstance(value, (tuple, list)) else (value,)
    return [d % ndim for d in many] or list(range(ndim))


class SumOfNumbers(Sum):
    """``nanmean`` and ``nansum``: samples without a value count nowhere, as in PyTorch."""

    def reduced(self, step: WeightedStep, x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
        counts = step.counts(x, dims) * ~x.isnan()
        total = (torch.where(x.isnan(), 0, x) * counts).sum(dims, keepdim=keepdim)
        return (total / counts.sum(dims, keepdim=keepdim) if step.call.name == "nanmean" else total).to(x.dtype)


class LogSumExp(Sum):
    """``torch.logsumexp``."""

    def reduced(self, step: WeightedStep, x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
        return torch.logsumexp(x + step.counts(x, dims).log(), dims, keepdim=keepdim).to(x.dtype)


class VectorNorm(Sum):
    """``torch.norm``, ``torch.linalg.vector_norm`` and their kin; a maximum (p = ∞) stays one."""

    parameters: tuple[str, ...] = ("input", "p", "dim", "keepdim")

    def reduced(self, step: WeightedStep, x: Tensor, dims: list[int], keepdim: bool) -> Any:
        p = step.arguments.get("p", step.arguments.get("ord", 2))
        p = 2 if p in (None, "fro") else p
        if step.arguments.get("dim") is None:  # a norm of matrices leaves the dimensions before its last two
            dims = dims[len(step.call.result_forms[0]) :]
        if not isinstance(p, (int, float)) or p in (float("inf"), float("-inf"), 0):
            return step.run()
        return ((x.abs() ** p) * step.counts(x, dims)).sum(dims, keepdim=keepdim).pow(1 / p).to(x.dtype)


class Variance(Sum):
    """``var``, ``std``, ``var_mean`` and ``std_mean``, with or without Bessel's correction in its old and new forms."""

    parameters: tuple[str, ...] = ("input", "dim", "unbiased", "keepdim")

    def arguments(self, args: Any, kwargs: Any) -> dict[str, Any]:
        if len(args) > 1 and isinstance(args[1], bool):  # x.var(False)
            args, kwargs = args[:1], {"unbiased": args[1], **kwargs}
        return super().arguments(args, kwargs)

    def reduced(self, step: WeightedStep, x: Tensor, dims: list[int], keepdim: bool) -> Any:
        correction = step.arguments.get("correction", step.arguments.get("unbiased", 1))
        correction = 1.0 if correction is None else float(correction)
        v, m = ((t if keepdim else t.squeeze(tuple(dims))).to(x.dtype) for t in moments(step, x, dims, correction))
        return {"var": v, "std": v.sqrt(), "var_mean": (v, m), "std_mean": (v.sqrt(), m)}[step.call.name]


class Trapezoid(Reduction):
    """``torch.trapezoid``: from end to end of a domain an integral already, on other samples one that ends early."""

    def harmless(self, step: Step) -> Reason | None:
        placements = step.nodes.placements
        from_end_to_end = all(placements[k] == "endpoint" for k in step.call.lost_axes)
        return Reason.TRAPEZOID if step.call.lost_axes and from_end_to_end else None


class AveragePool(Reduction):
    """``F.adaptive_avg_pool1d/2d/3d``: anchored if there is one bin; bins of whole samples have edges that move."""

    parameters: tuple[str, ...] = ("input", "output_size")

    def sums(self, step: WeightedStep) -> bool:
        size = step.arguments.get("output_size")
        return bool(step.call.axes) and all(s == 1 for s in (size if isinstance(size, (tuple, list)) else (size,)))

    def cause(self, step: Step) -> str:
        return Reason.BINS.text()

    def anchor(self, step: WeightedStep) -> Tensor:
        x, d = step.arguments["input"], int(step.call.name[-2])
        return mean(step, x, list(range(x.ndim - d, x.ndim)), True).to(x.dtype)


class Softmax(Operation):
    """``softmax``, ``log_softmax`` and ``softmin``: samples divided by their total."""

    parameters: tuple[str, ...] = ("input", "dim")
    reason = Reason.SHARED
    extended = Reason.KEEPS_TOTAL
    anchored = Reason.TOTAL

    def dim(self, step: Step) -> int:
        """The dimension along which the total is taken."""
        x: Tensor = step.arguments["input"]
        dim = step.arguments.get("dim")
        return int((0 if x.ndim in (0, 1, 3) else 1) if dim is None else dim) % x.ndim

    def mixes(self, step: Step) -> bool:
        return self.dim(step) in step.moving(step.arguments["input"])

    def total(self, step: Step, x: Tensor, dim: int) -> Tensor:
        """The total of x along the dimension, in at least single precision."""
        return torch.logsumexp((-x if step.call.name == "softmin" else x).to(sum_dtype(x)), dim, keepdim=True)

    def divided(self, step: Step, x: Tensor, total: Tensor) -> Tensor:
        """The samples divided by a total, rounded once, at the end, as by torch."""
        y = (-x if step.call.name == "softmin" else x).to(total.dtype) - total
        return (y if step.call.name == "log_softmax" else y.exp()).to(step.arguments.get("dtype") or x.dtype)

    def keep(self, step: Step) -> Tensor | None:
        x, dim = step.arguments["input"], self.dim(step)
        return self.total(step, x, dim) if step.moving(x) == [dim] else None

    def replay(self, step: Step) -> Any:
        x, dim = step.arguments["input"], self.dim(step)
        form = step.forms(x)[dim]
        if form.on_grid and x.shape[dim] == form.size(step.nodes.native):
            return step.run()  # scores against the native run's keys
        if step.kept is None:
            return step.run_with({id(x): step.restricted(x, [dim])})
        return self.divided(step, x, step.kept)

    def sums(self, step: WeightedStep) -> bool:
        return self.mixes(step)

    def anchor(self, step: WeightedStep) -> Any:
        """The values alone: whoever sums them next counts the samples again."""
        x, dim = step.arguments["input"], self.dim(step)
        y = (-x if step.call.name == "softmin" else x).to(sum_dtype(x))
        return self.divided(step, x, torch.logsumexp(y + step.counts(x, [dim]).log(), dim, keepdim=True).to(y.dtype))


class NormalizeCall(Softmax):
    """``F.normalize``: samples divided by their p-norm."""

    parameters: tuple[str, ...] = ("input", "p", "dim", "eps")

    def dim(self, step: Step) -> int:
        x: Tensor = step.arguments["input"]
        return int(step.arguments.get("dim", 1)) % x.ndim

    def total(self, step: Step, x: Tensor, dim: int) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(x, step.arguments.get("p", 2.0), dim, keepdim=True)
        return norm

    def divided(self, step: Step, x: Tensor, total: Tensor) -> Tensor:
        return x / total.clamp_min(step.arguments.get("eps", 1e-12)).to(x.dtype)

    def anchor(self, step: WeightedStep) -> Tensor:
        x, dim, p = step.arguments["input"], self.dim(step), step.arguments.get("p", 2.0)
        return self.divided(step, x, ((x.abs() ** p) * step.counts(x, [dim])).sum(dim, keepdim=True).pow(1 / p))


class Derivative(Carried):
    """``torch.autograd.grad`` in the forward, by samples of what was summed over them."""

    parameters: tuple[str, ...] = ("outputs", "inputs", "grad_outputs")
    anchored = Reason.DERIVATIVE

    def sums(self, step: WeightedStep) -> bool:
        """Not with an axis of the grid inside a ``vmap``: which rows of a Jacobian these are cannot be seen."""
        return bool(step.call.axes) and not step.call.hidden_axes

    def anchor(self, step: WeightedStep) -> Any:
        r"""The derivative by each sample, per training sample that it stands for.

        With :math:`F = \sum_j c_j f(x_j)` anchored, :math:`\partial F / \partial x_j` has the factor :math:`c_j`, the
        number of training samples for which sample j stands; on the training grid it is one. It is divided out. Weights
        of the outputs (``grad_outputs``) are a sum over samples too, and get the factor.
        """
        given = dict(step.arguments)
        outputs, inputs = (tensors(given[name]) for name in ("outputs", "inputs"))
        weights = tensors(given.get("grad_outputs"))
        if len(weights) == len(outputs):
            given["grad_outputs"] = [w * _counts(step, y) for w, y in zip(weights, outputs, strict=True)]
        gradients = step.func(**given)
        return tuple(None if g is None else g / _counts(step, x) for g, x in zip(gradients, inputs, strict=True))


def _counts(step: WeightedStep, t: Tensor) -> Tensor:
    return step.counts(t, range(t.ndim)).to(t.dtype if t.is_floating_point() else None)


register("mean sum count_nonzero", Sum())
register("nanmean nansum", SumOfNumbers())
register("logsumexp", LogSumExp())
register("norm", VectorNorm())
register("var std var_mean std_mean", Variance())
register("prod cosine_similarity dist all any cdist", Reduction())
register("trapezoid trapz", Trapezoid(Reason.INTEGRATED))
register("amax amin aminmax max min median nanmedian quantile nanquantile mode", Reduction(Reason.PICKED))
register("argmax argmin kthvalue", Reduction(Reason.PICKED))
register(each_dimension("adaptive_avg_pool"), AveragePool())
register(each_dimension("adaptive_max_pool"), Reduction(Reason.PICKED))
register("softmax log_softmax softmin", Softmax())
register("normalize", NormalizeCall())
register("autograd.grad", Derivative(Reason.DERIVED, relates_neighbours=True))
