"""Softmax and ``F.normalize`` over samples: the native run's total, by which the new samples are divided."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quadnorm._precision import sum_dtype
from quadnorm.adapt.calls.following.steps import Step
from quadnorm.adapt.extending.families.table import StepRow, register


def shared_dim(step: Step) -> int:
    """The dimension along which the shares of a total are taken."""
    x: Tensor = step.arguments["input"]
    dim = step.arguments.get("dim")
    if dim is None:
        dim = 1 if step.call.name == "normalize" or x.ndim not in (0, 1, 3) else 0
    return int(dim) % x.ndim


def along_space(step: Step) -> bool:
    """Whether that dimension runs over samples."""
    return shared_dim(step) in step.moving(step.arguments["input"])


def _total(step: Step, x: Tensor) -> Tensor:
    dim, name = shared_dim(step), step.call.name
    if name == "normalize":
        norm: Tensor = torch.linalg.vector_norm(x, step.arguments.get("p", 2.0), dim, keepdim=True)
        return norm
    return torch.logsumexp((-x if name == "softmin" else x).to(sum_dtype(x)), dim, keepdim=True)


def _replay_share(step: Step) -> Any:
    x, dim, name = step.arguments["input"], shared_dim(step), step.call.name
    form = step.forms(x)[dim]
    if form.on_grid and x.shape[dim] == form.size(step.nodes.native):
        return step.run()  # scores against the native run's keys
    total = step.kept
    if total is None:
        return step.run_with({id(x): step.restricted(x, [dim])})
    if name == "normalize":
        return x / total.clamp_min(step.arguments.get("eps", 1e-12))
    shares = (-x if name == "softmin" else x).to(total.dtype) - total
    return (shares if name == "log_softmax" else shares.exp()).to(step.arguments.get("dtype") or x.dtype)


def _keep_share(step: Step) -> Tensor | None:
    x = step.arguments["input"]
    return _total(step, x) if step.moving(x) == [shared_dim(step)] else None


register(
    ["softmax", "log_softmax", "softmin", "normalize"],
    StepRow("replayed", "its total over samples is the native run's", along_space, _keep_share, _replay_share),
)
