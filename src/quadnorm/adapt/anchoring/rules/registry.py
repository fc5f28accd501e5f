"""How each type of module is anchored: one table, which users can extend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from quadnorm.measures import Anchored
from quadnorm.measures.base import Shape


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


def anchored(module: nn.Module, why: str) -> Outcome:
    """The module now sums under the training grid's measure."""
    return Outcome("anchored", why, module)


def left(why: str) -> Outcome:
    """The module depends on the resolution, or could not be looked into, and stays as it is."""
    return Outcome("left", why)


def unchanged(why: str) -> Outcome:
    """The module does not depend on the resolution as it is."""
    return Outcome("unchanged", why)


INTEGRAL = "on cell-centred and periodic axes counting is already the integral"
STILL = f"{INTEGRAL}; nothing moves with the resolution"  # why such a sum is left unchanged

AnchorRule = Callable[[nn.Module, Place], "nn.Module | str | Outcome | None"]

RULES: dict[type[nn.Module], AnchorRule] = {}


def register_anchor(kind: type[nn.Module], fn: AnchorRule) -> AnchorRule:
    r"""Teach :func:`quadnorm.anchor` a type of module.

    ``fn(module, place)`` gets the copy's module, free to be changed, and its :class:`Place`. It returns the module,
    the same or a replacement, whose spatial sums run under ``place.measure`` and whose output at the training
    resolution is what it was; or a string, the reason why it was left alone; or None if there is nothing to say.

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
    >>> anchor(Energy(), (3,))(x), Energy()(x[..., ::2])  # the same measure on 5 and on 3 samples
    (tensor([[0.3958]]), tensor([[0.4167]]))
    """
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise TypeError(f"register_anchor needs a class of modules, such as nn.GroupNorm, got {kind!r}")
    if not callable(fn):
        raise TypeError(f"register_anchor needs a function (module, place) -> module or reason, got {fn!r}")
    RULES[kind] = fn
    return fn


def rule_for(module: nn.Module) -> AnchorRule | Outcome | None:
    """The rule of a module's type; an Outcome if its type only inherits from one that has a rule."""
    kind = type(module)
    for base in kind.__mro__:
        if base in RULES:
            if base is not kind and kind.forward is not base.forward:
                return left(f"a subclass of {base.__name__} with a forward of its own; register_anchor can teach it")
            return RULES[base]
    return None


def apply_rule(rule: AnchorRule, module: nn.Module, place: Place) -> Outcome | None:
    """Run a rule and put what it returned into one form."""
    result = rule(module, place)
    if isinstance(result, nn.Module):
        return anchored(result, "by a registered rule")
    if isinstance(result, str):
        return left(result)
    if result is None or isinstance(result, Outcome):
        return result
    raise TypeError(
        f"the anchor rule of {type(module).__name__} returned {result!r} for {place.name!r}; expected a module, "
        "a reason (string) or None"
    )
