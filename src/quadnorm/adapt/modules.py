"""Modules that are anchored as modules: those that own a measure, and what users teach with :func:`register_anchor`."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._precision import sum_dtype
from quadnorm.adapt.models import paths_of_modules, replace_module, shared_text, trial_copy
from quadnorm.adapt.report import AnchorReport, Reason, size_text
from quadnorm.adapt.trees import Arguments, tensors
from quadnorm.adapt.watching.watch import trial_output
from quadnorm.measures import Anchored, Blend, Grid, Measure, Separable, as_measure
from quadnorm.measures.axes import RuleAxis
from quadnorm.measures.base import Shape
from quadnorm.norms.quad import PROXY, leaf_call
from quadnorm.operators import SpectralConv

COUNTING = Grid("counting")


@dataclass(frozen=True)
class Place:
    """Where a module stands in the model that is being anchored.

    Attributes:
        name: its path in the model, as in ``named_modules``.
        measure: the counting measure of the grid that the module sees when the model runs at its training resolution.
        resolution: the training resolution of the whole model, one number per axis.
        placements: one word per axis.
        shapes: shapes of the module's first tensor argument in a run at the training resolution; empty if it was
            not run.
        outputs: shapes of what it returned.
        inputs: the shapes of all its tensor arguments, for each call.
    """

    name: str
    measure: Anchored
    resolution: Shape
    placements: tuple[str, ...]
    shapes: tuple[Shape, ...] = ()
    outputs: tuple[Shape, ...] = ()
    inputs: tuple[tuple[Shape, ...], ...] = ()

    @property
    def moves(self) -> bool:
        """Whether the counting measure changes with the resolution: not if all axes are cell-centred or periodic."""
        return not all(p in ("cell", "periodic") for p in self.placements)


@dataclass(frozen=True)
class Outcome:
    """What a rule did: ``anchored`` (with the module to use), ``unchanged`` or ``left``, and why."""

    action: str
    why: str
    module: nn.Module | None = None


def left(why: str) -> Outcome:
    """The module depends on the resolution, or could not be inspected, and stays as it is."""
    return Outcome("left", why)


AnchorRule = Callable[[nn.Module, Place], "nn.Module | str | Outcome | None"]

REGISTERED: dict[type[nn.Module], AnchorRule] = {}


def register_anchor(kind: type[nn.Module], fn: AnchorRule) -> AnchorRule:
    r"""Teach :func:`quadnorm.anchor` a type of module.

    ``fn(module, place)`` gets the copy's module, free to be changed, and its :class:`Place`. It returns the module,
    the same or a replacement, whose spatial sums run under ``place.measure`` and whose output at the training
    resolution is what it was; or a string, the reason why it was left alone; or None if there is nothing to say: then
    its calls are treated one by one, like those of any module.

    The rule serves subclasses too, as long as they do not have a ``forward`` of their own. A later registration
    replaces an earlier one.

    >>> import torch
    >>> from torch import nn
    >>> class Energy(nn.Module):
    ...     measure = None
    ...     def forward(self, x):  # (B, C, *spatial) → (B, C)
    ...         if self.measure is None:
    ...             return x.square().flatten(2).mean(2)
    ...         return self.measure.integrate(x.square(), x.ndim - 2)
    >>> def rule(module, place):
    ...     module.measure = place.measure
    ...     return module
    >>> _ = register_anchor(Energy, rule)
    >>> from quadnorm.adapt import anchor
    >>> x = torch.linspace(0, 1, 5).reshape(1, 1, 5)
    >>> anchor(Energy(), (3,), "endpoint")(x), Energy()(x[..., ::2])  # the same measure on 5 and on 3 samples
    (tensor([[0.3958]]), tensor([[0.4167]]))
    """
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise TypeError(f"register_anchor needs a class of modules, such as nn.GroupNorm, got {kind!r}")
    if not callable(fn):
        raise TypeError(f"register_anchor needs a function (module, place) -> module or reason, got {fn!r}")
    REGISTERED[kind] = fn
    return fn


def _rule_of(module: nn.Module) -> AnchorRule | None:
    """The registered rule of a module's type, or of one that it inherits its forward from."""
    kind = type(module)
    base = next((b for b in kind.__mro__ if b in REGISTERED), None)
    return None if base is None or kind.forward is not base.forward else REGISTERED[base]


def _owned_measure(module: nn.Module) -> Measure | None:
    measure = getattr(module, "measure", None)
    return measure if isinstance(measure, Measure) else None


def is_module_of_its_own(module: nn.Module) -> bool:
    """Whether a module owns a measure or has a registered rule: what it calls inside is its own affair."""
    return _owned_measure(module) is not None or _rule_of(module) is not None


def anchor_modules(
    model: nn.Module,
    sizes: Shape,
    names: tuple[str, ...],
    arguments: Arguments,
    report: AnchorReport,
    padding: Callable[[], dict[tuple[int, int], int]] = dict,
    only: Container[str] | None = None,
) -> nn.Module:
    """The model with these modules anchored, all or ``only`` the named ones; ``report`` gets a line for each.

    ``arguments``: an input on the training grid; ``padding()``: for (axis, samples padded to it) how many come first.
    """
    modules = [(name, m) for name, m in model.named_modules() if is_module_of_its_own(m)]
    if not modules:
        return model
    shapes, paths = _Shapes(model, arguments), paths_of_modules(model)
    # Measures are read before any is set: an operator's setter also sets those of its layers.
    before = {id(m): _owned_measure(m) for _, m in modules}
    for name, module in modules:
        measure = before[id(module)]
        if only is not None and name not in only:
            if measure is not None:
                module.measure = measure
            continue
        place = _place(name, sizes, names, shapes, padding)
        outcome = _outcome(module, measure, place)
        if outcome is None:
            continue
        if outcome.module is not None and outcome.module is not module:
            model = replace_module(model, paths[id(module)], outcome.module)
        inner = ""
        if isinstance(place, Place) and outcome.action == "anchored" and place.measure.anchor != sizes:
            inner = f"; sees {size_text(place.measure.anchor)} samples in training"
        report.add(name, type(module).__name__, outcome.action, outcome.why + inner + shared_text(paths[id(module)]))
    return model


class _Shapes:
    """The shapes that each module of a model sees in one run; by name, an entry for each call."""

    def __init__(self, model: nn.Module, arguments: Arguments) -> None:
        self.inputs: dict[str, list[tuple[Shape, ...]]] = {}  # of all tensors among its arguments
        self.outputs: dict[str, list[Shape]] = {}  # of the first tensor that it returns
        trial = trial_copy(model)
        names = {m: n for n, m in trial.named_modules()}

        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = tuple(tuple(t.shape) for t in tensors([args, kwargs]))
            if given:
                self.inputs.setdefault(names[module], []).append(given)

        def leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            returned = tensors(output)
            if returned:
                self.outputs.setdefault(names[module], []).append(tuple(returned[0].shape))

        for m in names:
            if not isinstance(m, torch.jit.ScriptModule):
                m.register_forward_pre_hook(enter, with_kwargs=True)
                m.register_forward_hook(leave)
        trial_output(trial, arguments)


def _outcome(module: nn.Module, measure: Measure | None, place: Place | Outcome) -> Outcome | None:
    """What its rule or its measure makes of a module; None if there is nothing to say."""
    if isinstance(place, Outcome):
        return place
    rule = _rule_of(module)
    if rule is None:
        assert measure is not None
        module.measure = measure  # type: ignore[assignment] # an operator's may have been set with its layers'
        return _with_own_measure(module, measure, place)
    result = rule(module, place)
    if isinstance(result, nn.Module):
        return Outcome("anchored", "by a registered rule", result)
    if isinstance(result, str):
        return left(result)
    if result is None or isinstance(result, Outcome):
        return result
    raise TypeError(
        f"the anchor rule of {type(module).__name__} returned {result!r} for {place.name!r}; expected a module, "
        "a reason (string) or None"
    )


def _place(
    name: str,
    sizes: Shape,
    names: tuple[str, ...],
    seen: _Shapes,
    padding: Callable[[], dict[tuple[int, int], int]],
) -> Place | Outcome:
    """Where a module stands; the outcome "left" if it stands in several places at once."""
    inputs = tuple(dict.fromkeys(seen.inputs.get(name, ())))
    outputs = tuple(dict.fromkeys(seen.outputs.get(name, ())))
    shapes = tuple(dict.fromkeys(given[0] for given in inputs))
    grids = {g for g in (_grid(s, sizes) for s in shapes) if g is not None}
    if len(grids) > 1:
        many = " and ".join(size_text(g) for g in sorted(grids))
        return left(f"is used on several grids in one run ({many}); one module cannot stand for both")
    grid = grids.pop() if grids else sizes
    more = [n - n0 for n, n0 in zip(grid, sizes, strict=True)]
    if any(more) and all(m >= 0 for m in more):
        first = padding()
        if all(m == 0 or (k, m) in first for k, m in enumerate(more)):
            ends = [(first.get((k, m), 0), m - first.get((k, m), 0)) for k, m in enumerate(more)]
            measure = Anchored.padded(sizes, names, ends)
            names = tuple("left" if p == "periodic" else p for p in names)  # with padding around it an axis has ends
            return Place(name, measure, sizes, names, shapes, outputs, inputs)
    return Place(name, Anchored(grid, names), sizes, names, shapes, outputs, inputs)


def _grid(shape: Shape, sizes: Shape) -> Shape | None:
    """The spatial part of a tensor's shape."""
    d = len(sizes)
    for k in range(2, len(shape) - d + 1):
        if shape[k : k + d] == sizes:
            return sizes
    if shape[1 : 1 + d] == sizes or shape[:d] == sizes or (d > 1 and prod(sizes) in shape[1:]):
        return sizes
    return tuple(shape[2:]) if len(shape) == d + 2 else None


# --- modules that own a measure --------------------------------------------------------------------------------------


def _with_own_measure(module: Any, before: Measure, place: Place) -> Outcome:
    """Norms, spectral convolutions, attention, operators: whatever has a ``measure`` that can be set."""
    after = _anchored_measure(before, place)
    if isinstance(after, Outcome):
        return after
    if not place.moves and before == COUNTING:
        return Outcome("unchanged", Reason.INTEGRAL.value)
    if after == before:
        what = "already anchored there" if isinstance(before, Anchored) else "a quadrature already"
        return Outcome("unchanged", f"{before!r} is {what}; it does not move with the resolution beyond O(h²)")
    if isinstance(module, SpectralConv) and module.kernel == "quadrature" and module.period is None:
        module.period = (1.0,) * len(module.modes.kept)  # an anchored measure would bring the FFT's period along
    module.measure = after
    return Outcome("anchored", f"{before!r} → {after!r}", module)


def _anchored_measure(measure: Measure, place: Place) -> Measure | Outcome:
    """What a module's measure becomes, with the same weights at the training resolution; or why it is left."""
    if measure == COUNTING:
        return place.measure
    if isinstance(measure, Anchored):
        return measure if measure == place.measure else left(f"is anchored already, at {size_text(measure.anchor)}")
    if isinstance(measure, Blend):
        if measure.counting is not None:
            return left("is anchored already")
        return _misplaced(measure.quadrature, place) or Blend(measure.alpha, measure.quadrature, place.measure)
    if isinstance(measure, Grid):
        return _misplaced(measure, place) or measure
    return left(f"{measure!r} belongs to one discretization; set the module's measure for each new one")


def _misplaced(measure: Measure, place: Place) -> Outcome | None:
    """The outcome for a rule whose nodes are not where the samples are; None if they are."""
    if not isinstance(measure, Grid):
        return None
    for k, (axis, at) in enumerate(zip(measure.axes(len(place.placements)), place.placements, strict=True)):
        if isinstance(axis, RuleAxis) and axis.rule.placement not in (at, {"left": "periodic"}.get(at)):
            return left(
                f"{axis.rule.name} weights belong to {axis.rule.placement} samples, but axis {k} has {at} samples; "
                f"the rule is wrong there and was left as trained"
            )
    return None


class SpatialMean(nn.Module):
    r"""The mean over space, :math:`\sum_i w_i x_i`, under a measure that can be set: ``x.mean((-2, -1))`` as a module.

    Shapes: (B, C, \*spatial) → (B, C), or (B, C, 1, …) with ``keepdim``.

    >>> SpatialMean()(torch.tensor([[[0.0, 1.0, 5.0]]]))
    tensor([[2.]])
    """

    def __init__(self, keepdim: bool = False, measure: str | Measure = "counting") -> None:
        super().__init__()
        self.keepdim = keepdim
        self.measure: Measure = as_measure(measure)

    def forward(self, x: Tensor) -> Tensor:
        """Average over all axes but the first two."""
        if isinstance(x, PROXY):
            return leaf_call(self, x)
        axes = tuple(range(2, x.ndim))
        if not torch.compiler.is_compiling() and isinstance(self.measure, Separable) and self.measure.flat(x.shape[2:]):
            return x.mean(axes, keepdim=self.keepdim)
        w = self.measure.shared_weights(tuple(x.shape[2:]), x.device, sum_dtype(x))
        return (x.to(w.dtype) * w).sum(axes, keepdim=self.keepdim).to(x.dtype)

    def extra_repr(self) -> str:
        """What the constructor was given."""
        return f"keepdim={self.keepdim}, measure={self.measure!r}"
