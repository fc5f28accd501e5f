"""Models as such: which can be taken apart, their copies, their training grid, and modules replaced in them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from quadnorm.adapt.trees import as_arguments, tensors
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import Placements, placements_per_axis

_WHERE = (
    "where the samples lie is not said, and a wrong guess is worse than doing nothing; pass placement=: which line "
    "made your grid? linspace(0, 1, n): 'endpoint'; (arange(n) + 0.5)/n: 'cell'; arange(n)/n: 'periodic' if the domain "
    "closes there, else 'left'; linspace(0, 1, n + 2)[1:-1]: 'interior'; quadnorm.check_grid(coarse, fine) reads it "
    "off data at two resolutions"
)

SPHERICAL = {"RealSHT", "InverseRealSHT", "RealVectorSHT", "InverseRealVectorSHT"}  # of torch-harmonics


def check_module(model: nn.Module, verb: str) -> None:
    """Raise for things that cannot be taken apart."""
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(
            f"cannot {verb} a scripted model: TorchScript has compiled its modules away; {verb} the Python "
            "model, then script or export it, or use quadnorm.at_native, which runs a scripted model as it is"
        )
    if not isinstance(model, nn.Module):
        raise TypeError(f"{verb} needs an nn.Module, got {model!r}")
    for inner in ("_orig_mod", "module"):
        wrapped = getattr(model, inner, None)
        if (
            type(model).__name__ in ("OptimizedModule", "DistributedDataParallel", "DataParallel")
            and wrapped is not None
        ):
            raise TypeError(
                f"cannot {verb} a {type(model).__name__}; {verb} the module inside (model.{inner}), then wrap "
                "the result again"
            )


def transform_advice(model: nn.Module) -> str:
    """What is right for a model with transforms on the sphere by tables of its grid, as torch-harmonics has them."""
    names = {type(m).__name__ for m in model.modules()} & SPHERICAL
    if not names:
        return ""
    return (
        f"{', '.join(sorted(names))} are quadratures already, by tables of the training grid: build the model for the "
        "other grid (its nlat and nlon) and load the same weights, all but the tables; what else sums over samples "
        "there (norms) can be adapted before its weights are used"
    )


def deep_copy(model: nn.Module, share: bool = False) -> nn.Module:
    """A deep copy, with the parameters themselves if ``share``."""
    memo: dict[int, Any] = {id(p): p for p in model.parameters()} if share else {}
    try:
        return copy.deepcopy(model, memo)
    except Exception as error:
        raise TypeError(
            f"the model cannot be copied ({error}); tensors that carry a gradient history cannot: detach them, "
            f"or anchor the model before its first run"
        ) from error


def own_placement(model: nn.Module, d: int) -> tuple[str, ...] | None:
    """What the model says of where its samples lie."""
    names = set(_stated_placements(model))
    return placements_per_axis(names.pop(), d) if len(names) == 1 else None


def _stated_placements(model: nn.Module) -> dict[Placements, str]:
    """The placements that modules state, each with the name of one such module."""
    stated = ((getattr(m, "placement", None), name) for name, m in model.named_modules())
    return {placement: name for placement, name in stated if _is_placement(placement)}


def _is_placement(value: Any) -> bool:
    """Whether an attribute ``placement`` is a name or one name per axis; other libraries may call anything so."""
    return isinstance(value, str) or (isinstance(value, tuple) and all(isinstance(v, str) for v in value))


def model_grid(
    model: nn.Module, resolution: int | Sequence[int], placement: str | Sequence[str] | None, example: Any = None
) -> tuple[Shape, tuple[str, ...]]:
    """Samples per axis and placement per axis of the training grid, from what was given and what the model says."""
    sizes = grid_sizes(model, resolution, example)
    return sizes, _placements(model, placement, len(sizes))


def grid_sizes(model: nn.Module, resolution: int | Sequence[int], example: Any = None) -> Shape:
    """Samples per axis, of a number for all axes or one each; how many axes the model says, or its ``example``."""
    shape = getattr(resolution, "shape", None)
    if shape is not None and len(shape):
        raise ValueError(
            f"resolution must hold the training grid's samples per axis, as in 33 or (33, 33), got an array of shape "
            f"{tuple(shape)}; for a model trained on points: quadnorm.at_native(model, points)"
        )
    given = tuple(resolution) if isinstance(resolution, Sequence) else (resolution,)
    given = tuple(int(n) if hasattr(n, "__index__") and not isinstance(n, bool) else n for n in given)
    if not given or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in given):
        raise ValueError(
            f"resolution must hold the training grid's samples per axis, as in 33 or (33, 33), got {resolution!r}"
        )
    if isinstance(resolution, Sequence):
        return given
    d = guess_dimension(model)
    if d in (None, 1):  # modules of one dimension also serve as pointwise maps on flattened grids
        d = max((min(x.shape[1:].count(given[0]), x.ndim - 2) for x in tensors(as_arguments(example))), default=0) or d
    if d is None:
        raise ValueError(
            f"the model does not say how many spatial axes it has; give one number per axis, as in ({given[0]}, "
            f"{given[0]})"
        )
    return given * d


def _placements(model: nn.Module, placement: str | Sequence[str] | None, d: int) -> tuple[str, ...]:
    own = _stated_placements(model)
    if placement is None:
        if len(own) > 1:
            raise ValueError(
                f"the model's modules disagree on where samples lie ({', '.join(map(str, own))}); pass placement="
            )
        if not own:
            raise ValueError(_WHERE)
        return placements_per_axis(next(iter(own)), d)
    names = placements_per_axis(placement, d)
    for own_placement in own:
        if names != placements_per_axis(own_placement, d):
            raise ValueError(
                f"placement={placement!r}, but the model says that its samples are {own_placement!r}"
                f" ({own[own_placement] or type(model).__name__}.placement); one of the two is wrong"
            )
    return names


def paths_of_modules(model: nn.Module) -> dict[int, list[str]]:
    """All paths of each module, by its id; a module that is shared has several."""
    paths: dict[int, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        paths.setdefault(id(module), []).append(name)
    return paths


def shared_text(paths: list[str]) -> str:
    """A remark for reports on a module that is shared.

    >>> shared_text(["a", "b"]), shared_text(["a"])
    (' (the same module as b)', '')
    """
    return f" (the same module as {', '.join(paths[1:])})" if len(paths) > 1 else ""


def replace_module(model: nn.Module, paths: list[str], new: nn.Module) -> nn.Module:
    """The model with ``new`` in all the given places; ``new`` itself if one of them is the root."""
    for path in paths:
        if not path:
            return new
        parent, _, leaf = path.rpartition(".")
        old = getattr(model.get_submodule(parent), leaf)
        new.train(old.training)
        setattr(model.get_submodule(parent), leaf, new)
    return model


def guess_dimension(model: nn.Module) -> int | None:
    """Number of spatial axes, from the model's own word or from modules that exist in one dimension only."""
    for name in ("dim", "n_dim", "ndim"):
        d = getattr(model, name, None)
        if isinstance(d, int) and not isinstance(d, bool) and 1 <= d <= 3:
            return d
    dimensions: set[int] = set()
    for m in model.modules():
        kind, kept = type(m).__name__, getattr(getattr(m, "modes", None), "kept", None)
        if isinstance(getattr(m, "n_dim", None), int):
            dimensions.add(m.n_dim)  # type: ignore[arg-type]
        elif isinstance(getattr(m, "dim", None), int) and isinstance(getattr(m, "placement", None), str):
            dimensions.add(m.dim)  # type: ignore[arg-type]
        elif kept is not None:
            dimensions.add(len(kept))
        elif kind[-2:] in ("1d", "2d", "3d"):
            dimensions.add(int(kind[-2]))
    if len(dimensions) > 1:  # 1-D modules also serve as pointwise maps on flattened grids
        dimensions.discard(1)
    return dimensions.pop() if len(dimensions) == 1 else None


def trial_copy(model: nn.Module) -> nn.Module:
    """A copy for trial runs, in eval mode: parameters shared, buffers and everything else its own."""
    memo: dict[int, Any] = {id(p): p for p in model.parameters()}
    return copy.deepcopy(model, memo).eval()


def take_hooks(new: nn.Module, old: nn.Module) -> None:
    """Give a module the hooks of the one it replaces."""
    for name in vars(old):
        if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")):
            setattr(new, name, getattr(old, name))
