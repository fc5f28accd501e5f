""":func:`quadnorm.convert`: the norms of a model swapped for others, to train with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.models import check_module, deep_copy, paths_of_modules, replace_module, shared_text, take_hooks
from quadnorm.adapt.modules import Outcome, left
from quadnorm.adapt.report import AnchorReport
from quadnorm.measures import Measure
from quadnorm.norms import NoNorm, make_norm
from quadnorm.norms.baselines.uniform import CountingNorm, TokenNorm
from quadnorm.norms.factory import parse
from quadnorm.norms.quad import QuadNorm


class Conversion(AnchorReport):
    """The report of :func:`convert`, and the way back."""

    _before: list[tuple[list[str], nn.Module, nn.Module]]

    def undo(self, model: nn.Module) -> nn.Module:
        """Put the original norms back into the converted model, in place, with γ and β as they are now."""
        if not self._before:
            return model
        for paths, old, new in self._before:
            if not paths[0]:
                _give_parameters(new, old)
                return old
            now = model.get_submodule(paths[0])
            if type(now) is not type(new):
                raise ValueError(
                    f"{paths[0]} is a {type(now).__name__} now, not the {type(new).__name__} of this conversion"
                )
            _give_parameters(now, old)
            model = replace_module(model, paths, old)
        return model


def convert(
    model: nn.Module,
    to: Any = "blend",
    *,
    measure: str | Sequence[str] | Measure | None = None,
    grid: Sequence[int] | None = None,
    inplace: bool = False,
) -> tuple[nn.Module, Conversion]:
    """A copy of a model with its spatial norms swapped for others, to be trained.

    Converted are GroupNorm, InstanceNorm, LayerNorm over channels and space, neuraloperator's InstanceNorm, and
    this package's norms. γ and β (if there is one per channel), ε, dtype, device, mode, hooks and sharing are kept.
    A norm that can average over the same channels does: with ``to="quad"`` LayerNorm becomes layer mode, InstanceNorm
    instance mode and GroupNorm(g) group mode with g groups, unless ``to`` names a mode itself. A blend is defined in
    layer mode only; the report says where that changes which channels share a mean.

    The converted model computes something else than before: train it. To keep a *trained* model's behaviour, use
    :func:`quadnorm.anchor`.

    Args:
        model: any module; untouched unless ``inplace``.
        to: as for :func:`quadnorm.make_norm`: ``"blend"``, ``"quad:instance"``, a class, …
        measure: what the new norms average against; default theirs, the trapezoid rule, right for
            endpoint-inclusive samples.
        grid: the grid's shape, if token-wise LayerNorms on (B, N, C) are to become spatial norms. They are left
            alone otherwise: that changes what the layer means, from statistics of one point to statistics of the
            field.

    Returns:
        The model and a :class:`Conversion`: print it to see what changed, what did not, and why; ``undo(model)``
        swaps back.

    >>> model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4), nn.LayerNorm(16))
    >>> new, report = convert(model, "quad")
    >>> new[1]
    QuadNorm(4, eps=1e-05, affine=True, mode='layer', measure=Grid('trapezoid'))
    >>> [e.name for e in report.changed], [e.name for e in report.left]
    (['1'], ['2'])
    >>> type(report.undo(new)[1])
    <class 'torch.nn.modules.normalization.GroupNorm'>
    """
    check_module(model, "convert")
    converted = model if inplace else deep_copy(model)
    report = Conversion("")
    report._before = []
    all_paths = paths_of_modules(converted)
    for name, module in list(converted.named_modules()):
        norm = describe_norm(module, grid, _channels_around(converted, name))
        if norm is None:
            continue
        kind, paths = type(module).__name__, all_paths[id(module)]
        if isinstance(norm, Outcome):
            report.add(name, kind, norm.action, norm.why + shared_text(paths))
            continue
        groups = groups_of(module, norm.channels)
        new = _build(to, norm.channels, norm.layout, module, measure, groups)
        take_hooks(new, module)
        _give_parameters(module, new)
        new.train(module.training)
        converted = replace_module(converted, paths, new)
        report._before.append((paths, module, new))
        change = f"→ {type(new).__name__}{_pattern(new, groups, norm.channels)}{norm.remark}{shared_text(paths)}"
        report.add(name, kind, "converted", change)
    n, m = len(report.changed), len(report.left)
    word = to if isinstance(to, str) else getattr(to, "__name__", repr(to))
    report.title = f"converted to {word}: {n} norm{'s' * (n != 1)} changed, {m} left"
    if not report.entries:
        raise ValueError(
            "found no norm to convert in the model; functional calls (F.layer_norm, …) and norms of unknown "
            "classes are not found"
        )
    return converted, report


def _channels_around(model: nn.Module, name: str) -> int | None:
    """``out_channels`` of the nearest module around ``name`` that has it."""
    while name:
        name = name.rpartition(".")[0]
        channels = getattr(model.get_submodule(name), "out_channels", None)
        if isinstance(channels, int):
            return channels
    return None


def mode_is_open(to: Any) -> bool:
    """Whether a norm's specification leaves open which channels share a mean.

    >>> mode_is_open("quad"), mode_is_open("quad:instance"), mode_is_open("blend"), mode_is_open(QuadNorm)
    (True, False, False, True)
    """
    make = parse(to) if isinstance(to, str) else to
    bound = getattr(make, "keywords", {})
    try:
        parameters = inspect.signature(getattr(make, "func", make)).parameters
    except (TypeError, ValueError):  # a class that does not say what it takes
        return False
    return "mode" in parameters and "mode" not in bound


def _mode(groups: int, channels: int) -> dict[str, Any]:
    """The arguments that give a norm this many means per sample."""
    if groups == 1:
        return {"mode": "layer"}
    return {"mode": "instance"} if groups == channels else {"mode": "group", "num_groups": groups}


def _pattern(new: nn.Module, before: int | None, channels: int) -> str:
    """What the new norm averages over, and whether the old one did so too; empty for norms without a mean."""
    if not isinstance(new, QuadNorm):
        return ""
    named = {1: "layer", channels: "instance"}
    mode = f" in {new.mode} mode" + (f" of {new.groups} groups" if new.mode == "group" else "")
    if before is None or before == new.groups:
        return mode
    return f"{mode} (the old norm took its means as {named.get(before, f'group of {before}')} mode does)"


def _build(to: Any, channels: int, layout: Any, old: Any, measure: Any, groups: int | None) -> nn.Module:
    """The norm that ``to`` specifies, with ε, device and dtype of the old one, and γ and β if it has them."""
    like = next(old.parameters(), None)
    make: Callable[..., nn.Module] = make_norm
    options: dict[str, Any] = {} if layout == "first" else {"layout": layout}
    if groups is not None and mode_is_open(to):
        options |= _mode(groups, channels)
    if measure is not None:
        options["measure"] = measure
    with nullcontext() if like is None else like.device:
        new = make(to, channels, **options)
    if like is not None:
        new = new.to(device=like.device, dtype=like.dtype)
    for name in ("weight", "bias"):  # no γ or no β before: none now
        if getattr(old, name, None) is None and new._parameters.get(name) is not None:
            new.register_parameter(name, None)
    if getattr(old, "weight", None) is None and hasattr(new, "affine"):
        new.affine = False  # type: ignore[assignment]
    if hasattr(new, "eps") and getattr(old, "eps", None) is not None:
        new.eps = old.eps
    return new


def _give_parameters(old: nn.Module, new: nn.Module) -> None:
    """γ and β: the same parameters where shapes agree, so that optimizers keep them; else their mean over space."""
    for name in ("weight", "bias"):
        p, q = getattr(old, name, None), getattr(new, name, None)
        if p is None or q is None:
            continue
        if p.shape == q.shape:
            setattr(new, name, p)
            continue
        with torch.no_grad():
            wide, narrow = (p, q) if p.ndim > q.ndim else (q, p)
            mean = p.flatten(1).mean(1) if p is wide else p.reshape(-1, *[1] * (wide.ndim - 1)).expand_as(q)
            q.copy_(mean.reshape(q.shape) if narrow is q else mean)
        q.requires_grad_(p.requires_grad)


# --- which norms can be swapped ---------------------------------------------------------------------------------------

TOKEN = (
    "normalizes each point over its own channels, no spatial average; pass grid=(n, …) for tokens (B, N, C) if it "
    "should become a spatial norm, which changes what the layer means"
)


@dataclass(frozen=True)
class SwappableNorm:
    """A norm that can be swapped: its channels, where they are, and a remark for the report."""

    channels: int
    layout: Any
    remark: str = ""


def describe_norm(
    module: nn.Module, grid: Sequence[int] | None, around: int | None = None
) -> SwappableNorm | Outcome | None:
    """What is known of a norm; the outcome "left" and why if it cannot be swapped; None if the module is no norm."""
    norm = _by_class(module, grid, around)
    if not isinstance(norm, SwappableNorm):
        return norm
    if _computed(module):
        return left(
            f"its {_computed(module)} is no parameter but computed (parametrized, pruned or quantized), which a swap "
            f"would lose; undo that first, as with torch.nn.utils.parametrize.remove_parametrizations"
        )
    if _own_forward(module):
        return replace(norm, remark=f"{norm.remark}; what {type(module).__name__}.forward does besides is dropped")
    return norm


def _by_class(module: nn.Module, grid: Sequence[int] | None, around: int | None) -> SwappableNorm | Outcome | None:
    m: Any = module
    if isinstance(m, nn.GroupNorm):
        return SwappableNorm(m.num_channels, "first")
    if isinstance(m, (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)):
        remark = "; its running statistics are dropped" if m.track_running_stats else ""
        return SwappableNorm(m.num_features, "first", remark)
    if isinstance(m, (TokenNorm, nn.LayerNorm)):
        return _layer_norm(m, grid)
    if isinstance(m, (CountingNorm, QuadNorm)):
        return SwappableNorm(m.num_features, m.layout)
    if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)):
        return left("statistics over the batch: a spatial norm has none; replace it by hand if you want that")
    if isinstance(m, nn.RMSNorm):
        pointwise = len(m.normalized_shape) == 1
        return left(TOKEN if pointwise else "scales per sample of a fixed grid; cannot move to another")
    if type(m).__name__ == "InstanceNorm" and type(m).__module__.startswith("neuralop."):
        if around is None or m.kwargs.get("weight") is not None:
            return left(
                "does not say how many channels it has; make the model with quadnorm.adapt.neuralop.use_quadnorm()"
            )
        return SwappableNorm(around, "first")
    return left("a norm that this does not know") if _named_norm(m) else None


def groups_of(module: nn.Module, channels: int) -> int | None:
    """How many means a norm takes per sample: 1 over all channels, ``channels`` for one each; None if it has none.

    >>> groups_of(nn.GroupNorm(2, 8), 8), groups_of(nn.InstanceNorm1d(8), 8), groups_of(nn.LayerNorm((8, 5)), 8)
    (2, 8, 1)
    """
    m: Any = module
    if isinstance(m, nn.GroupNorm):
        return int(m.num_groups)
    if isinstance(m, QuadNorm):
        return m.groups
    if isinstance(m, TokenNorm):
        return None
    if isinstance(m, nn.LayerNorm):
        return None if len(m.normalized_shape) == 1 else 1
    return channels  # InstanceNorm, torch's and neuraloperator's


def _computed(module: nn.Module) -> str:
    """The name of γ or β, if it is a tensor that the module computes or keeps otherwise; empty if there is none."""
    for name in ("weight", "bias"):
        value = getattr(module, name, None)
        if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
            return name
    return ""


def _own_forward(module: nn.Module) -> bool:
    """Whether the class is somebody's own, with a forward of its own."""
    kind: Any = type(module)
    known: Any = next(c for c in kind.__mro__ if c.__module__.startswith(("torch.", "quadnorm.", "neuralop.")))
    return kind.forward is not known.forward


def _named_norm(module: nn.Module) -> bool:
    """Classes whose name says norm, which hold parameters or sit at a leaf."""
    leaf = next(module.children(), None) is None
    return leaf and type(module).__name__.lower().endswith("norm") and not isinstance(module, NoNorm)


def _layer_norm(m: Any, grid: Sequence[int] | None) -> SwappableNorm | Outcome:
    pointwise = isinstance(m, TokenNorm) or len(m.normalized_shape) == 1
    if pointwise and grid is None:
        return left(TOKEN)
    if isinstance(m, TokenNorm):
        return SwappableNorm(m.num_features, m.layout, "; token-wise before, spatial now: another meaning")
    channels = m.normalized_shape[0]
    if pointwise:
        remark = "; token-wise before, spatial now: the layer means something else"
        return SwappableNorm(channels, tuple(grid or ()), remark)
    constant = all(_constant(p) for p in (m.weight, m.bias) if p is not None)
    return SwappableNorm(
        channels, "first", "" if constant else "; γ and β varied over the grid, their means over space were kept"
    )


def _constant(p: torch.Tensor) -> bool:
    if p.is_meta:  # without numbers; they will be those of a fresh layer, or be loaded
        return True
    flat = p.detach().flatten(1)
    return bool((flat == flat[:, :1]).all())
