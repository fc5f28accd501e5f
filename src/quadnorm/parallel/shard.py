"""``shard``: a model whose sums over space run over all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule

from quadnorm.operators.fno import FNO, FNOBlock
from quadnorm.operators.galerkin import GalerkinAttention, GalerkinBlock, GalerkinTransformer
from quadnorm.operators.spectral.convolution import SpectralConv
from quadnorm.operators.transolver import SliceAttention, Transolver, TransolverBlock
from quadnorm.parallel.dtensors import entered, left
from quadnorm.parallel.gradients import summed_gradients
from quadnorm.parallel.layers import attention, models, spectral
from quadnorm.parallel.layers.norms import NORMS
from quadnorm.parallel.split import Split

M = TypeVar("M", bound=nn.Module)

_NEIGHBOURS = "it looks at neighbouring samples, some of which lie on other ranks"
_COUNTS = "its statistics would be those of one rank; quadnorm.convert or quadnorm.anchor replace it by a norm that can"

# How each type of module works on shards: a class to mix in, or why it cannot.
RULES: dict[type[nn.Module], type[nn.Module] | str] = {
    **NORMS,
    SpectralConv: spectral.SpectralConvOnShards,
    GalerkinAttention: attention.GalerkinAttentionOnShards,
    SliceAttention: attention.SliceAttentionOnShards,
    FNO: models.FNOOnShards,
    FNOBlock: models.FNOBlockOnShards,
    GalerkinTransformer: models.GalerkinOnShards,
    GalerkinBlock: models.GalerkinBlockOnShards,
    Transolver: models.TransolverOnShards,
    TransolverBlock: models.TransolverBlockOnShards,
    nn.modules.batchnorm._NormBase: _COUNTS,
    nn.modules.pooling._AdaptiveAvgPoolNd: "it averages over the samples of one rank",
    nn.modules.pooling._AdaptiveMaxPoolNd: "it picks from the samples of one rank",
    nn.modules.pooling._AvgPoolNd: _NEIGHBOURS,
    nn.modules.pooling._MaxPoolNd: _NEIGHBOURS,
    nn.Upsample: _NEIGHBOURS,
    nn.MultiheadAttention: "it compares every sample with every other",
}

_CLASSES: dict[tuple[type[nn.Module], bool], type[nn.Module]] = {}


def shard(
    model: M,
    mesh: DeviceMesh | dist.ProcessGroup,
    *,
    axis: int | Sequence[int] = 0,
    size: Any = None,
) -> M:
    r"""Make a model work on fields that are split over ranks; returns the same model.

    Afterwards the model takes each rank's samples, (B, C, \*local), as a local tensor or a DTensor, and gives each rank
    its part of what the whole field would give. Norms, spectral convolutions and attention exchange their sums: numbers
    whose count does not depend on the resolution. Coordinates, weights, masks and points given in a call are this
    rank's. After ``backward`` every parameter's gradient is that of the whole field, on every rank, if each rank
    differentiates its share of the loss (or the whole loss, added up with :func:`quadnorm.parallel.total`).

    As ``fully_shard`` does, this changes modules in place, by giving them a class of their own; parameters, their names
    and the state dict stay as they are, so that checkpoints are those of the model in one process. :func:`unshard`
    undoes it. Wrap for data parallelism afterwards: ``DistributedDataParallel(model,
    process_group=mesh["data"].get_group())`` or ``fully_shard(model, mesh=mesh["data"])``, on the whole model or its
    blocks.

    Args:
        model: a norm, an operator or any module that contains them and otherwise treats samples one by one. Modules
            that are known to mix samples in another way are refused; others are trusted.
        mesh: ``mesh["space"]`` of a DeviceMesh, or a process group; ``mesh["y", "x"]`` to split two axes.
        axis: the spatial axis that is split, 0 being the first after the channels; one for each dimension of the mesh.
            Scattered points have one axis.
        size: samples of the whole grid along the axis, cut as ``Shard`` does (⌈n/P⌉ each, the last ones fewer or
            none); or a list of every rank's number; with two axes, one of these each. Not needed for DTensors. None:
            ranks tell each other at every call, one more small all-gather, and any resolution may come.

    >>> from quadnorm import QuadNorm
    >>> from quadnorm.parallel import shard, single
    >>> layer = shard(QuadNorm(4), single(), axis=0, size=8)  # a group of one process
    >>> import torch
    >>> layer(torch.randn(2, 4, 8, 5)).shape
    torch.Size([2, 4, 8, 5])
    """
    split = Split(mesh, axis, size)
    unshard(model)
    rules = [(name, module, _rule(module)) for name, module in _parts(model)]
    wrong = [f"  {name or '(model)'} ({type(m).__name__}): {rule}" for name, m, rule in rules if isinstance(rule, str)]
    if wrong:
        raise ValueError("the model cannot work on shards:\n" + "\n".join(wrong))
    for _, module, rule in rules:
        if module is model or rule is not None:
            part: Any = module
            part.__class__ = _sharded(type(module), rule, module is model)
            part._split = split
    return model


def unshard(model: M) -> M:
    """Give a model's modules their own classes again: it takes whole fields, as before :func:`shard`.

    >>> from quadnorm import QuadNorm
    >>> from quadnorm.parallel import shard, single, unshard
    >>> type(unshard(shard(QuadNorm(4), single(), size=8)))
    <class 'quadnorm.norms.quad.QuadNorm'>
    """
    for module in model.modules():
        if isinstance(module, Unit):
            module.__class__ = module.before  # type: ignore[assignment]
            del module._split
    return model


def _parts(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The module and what it consists of, by name; not what is inside of an extended model, which runs whole."""
    yield name, module
    if not hasattr(type(module), "on_shards"):
        for inner, child in module.named_children():
            yield from _parts(child, f"{name}.{inner}" if name else inner)


def _rule(module: nn.Module) -> type[nn.Module] | str | None:
    if isinstance(module, nn.modules.conv._ConvNd):
        plain = all(k == 1 for k in (*module.kernel_size, *module.stride)) and not any(module.padding)
        return models.PointwiseConvOnShards if plain else _NEIGHBOURS
    if getattr(module, "track_running_stats", False):
        return "its running statistics would be those of one rank"
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm)) and len(module.normalized_shape) > 1:
        return _COUNTS
    rule: Any = getattr(type(module), "on_shards", None)  # a class that knows its own
    if rule is not None:
        own: type[nn.Module] = rule()
        return own
    reason = getattr(type(module), "not_on_shards", None)
    if isinstance(reason, str):
        return reason
    for base in type(module).__mro__:
        if base in RULES:
            return RULES[base]
    return None


class Unit(nn.Module):
    """A module that works on shards; where FSDP wraps it, its parameters' gradients are summed here."""

    before: type[nn.Module]
    _split: Split

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the module's own."""
        if not isinstance(self, FSDPModule):
            return super().forward(*args, **kwargs)
        with summed_gradients(self, self._split.group):
            return super().forward(*args, **kwargs)


class Entrance(Unit):
    """The module that was given to :func:`shard`: DTensors come in and go out here, and gradients are summed."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the module's own, on this rank's part."""
        split = self._split
        first = 1 if kwargs.get("coordinates") is not None or (len(args) > 1 and _on_points(self)) else _first(self)
        grid = getattr(self, "layout", None)
        layout, part, args, kwargs = entered(split, args, kwargs, first, grid if isinstance(grid, tuple) else None)
        with split.at(part), summed_gradients(self, split.group):
            y = super(Unit, self).forward(*args, **kwargs)
        return left(y, layout)


def _on_points(module: nn.Module) -> bool:
    return isinstance(module, (GalerkinTransformer, Transolver))


def _first(module: nn.Module) -> int:
    """The first spatial dimension of the module's input."""
    return 2 if getattr(module, "layout", "first") == "first" else 1


def _sharded(kind: type[nn.Module], rule: Any, root: bool) -> type[nn.Module]:
    """The class of a module on shards, one for each kind."""
    if (kind, root) not in _CLASSES:
        bases = (Entrance if root else Unit, *(() if rule is None else (rule,)), kind)
        body = {"__module__": kind.__module__, "__doc__": kind.__doc__, "before": kind}
        _CLASSES[kind, root] = type(f"Sharded{kind.__name__}", bases, body)
    return _CLASSES[kind, root]
