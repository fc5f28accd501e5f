"""The table of operations: one entry for each function that mixes samples, with all that is known of it."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from quadnorm.adapt.report import Reason
from quadnorm.adapt.trees import mapped
from quadnorm.adapt.watching.calls import Call, Step, WeightedStep


class Operation:
    """A function, or several that differ in name only.

    How its arguments read (:attr:`parameters`, :meth:`arguments`); whether a call mixes samples (:meth:`mixes`); what
    extension keeps of the native run and makes of it on a new grid (:meth:`keep`, :meth:`replay`); whether anchoring
    changes a call, and into what (:meth:`sums`, :meth:`anchor`); and the reasons that reports give.
    """

    parameters: tuple[str, ...] = ("input",)
    reason: Reason  # why a call depends on the grid
    extended: Reason = Reason.INTERPOLATED
    anchored: Reason = Reason.MEASURE
    carried: ClassVar[bool] = False  # whether there is no formula between the training nodes
    relates_neighbours: bool = False  # whether a result is in units of the grid's spacing

    def arguments(self, args: Any, kwargs: Any) -> dict[str, Any]:
        """Arguments by name, whether given by position or by keyword."""
        given = dict(zip(self.parameters, args, strict=False))
        given.update(kwargs)
        if "axis" in given:
            given["dim"] = given.pop("axis")
        if "self" in kwargs and "input" in self.parameters:
            given["input"] = given.pop("self")
        return given

    def mixes(self, step: Step) -> bool:
        """Whether a call that sees samples mixes them."""
        return bool(step.call.axes)

    def carries(self, step: Step) -> bool:
        """Whether extension interpolates a result of this call between the training nodes."""
        return self.carried

    def keep(self, step: Step) -> Any:
        """What the native run stores of a call, which it has just made."""
        return None

    def replay(self, step: Step) -> Any:
        """The result on the new grid, from what was kept."""
        raise NotImplementedError

    def dilates(self, step: Step) -> bool:
        """Whether a call relates samples at distances that can be kept on a finer grid."""
        return False

    def sums(self, step: WeightedStep) -> bool:
        """Whether a call takes a sum over samples that can be anchored, or pads them."""
        return False

    def anchor(self, step: WeightedStep) -> Any:
        """The result under the training grid's measure."""
        raise NotImplementedError

    def cause(self, step: Step) -> str:
        """Why this call depends on the grid, in words."""
        return self.reason.text()

    def harmless(self, step: Step) -> Reason | None:
        """Why a call that looks as if it summed over samples needs nothing; None for others."""
        return None

    def only_pairs(self, step: Step) -> bool:
        """Whether a call pairs samples without a sum over them yet, such as scores of queries against keys."""
        return False

    def picks_waves(self, step: Step) -> bool:
        """Whether a call takes a fixed number of waves from a spectrum."""
        return False

    def origin_shifts(self, call: Call, ndim: int) -> dict[int, int]:
        """By how many samples a call moves the place where the grid begins, by dimension."""
        return {}


class Carried(Operation):
    """What has no formula between the training nodes: extension interpolates its native result."""

    carried = True

    def __init__(self, reason: Reason, relates_neighbours: bool = False) -> None:
        self.reason, self.relates_neighbours = reason, relates_neighbours

    def keep(self, step: Step) -> Any:
        return mapped(torch.clone, step.result)

    def replay(self, step: Step) -> Any:
        """The native result at the new grid's nodes.

        A result on a grid of its own, such as every second sample, is what the call itself gives. Its values do not
        matter: only a call that mixes samples leads back to the model's grid, and for that one the native result is
        taken.
        """
        if not step.call.returns_to_grid:
            return step.run()
        forms = iter(step.call.result_forms)
        return mapped(lambda t: step.nodes.carried(t, next(forms)), step.kept)


TABLE: dict[str, Operation] = {}


def register(names: str, operation: Operation) -> None:
    """One entry for the functions of these names (:func:`quadnorm.adapt.watching.functions.canonical`)."""
    TABLE.update(dict.fromkeys(names.split(), operation))


def each_dimension(*stems: str) -> str:
    """The names of functions that exist for one, two and three dimensions."""
    return " ".join(f"{stem}{d}d" for stem in stems for d in (1, 2, 3))


def extending(step: Step) -> Operation | None:
    """The operation of a call that mixes samples; None for one that acts on single samples."""
    operation = step.call.operation
    return operation if operation is not None and step.call.axes and operation.mixes(step) else None


def anchoring(step: WeightedStep) -> Operation | None:
    """The operation of a call whose sum can be anchored; None for others."""
    operation = step.call.operation
    return operation if operation is not None and step.call.axes and operation.sums(step) else None
