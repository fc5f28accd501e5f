"""How far an output moves with the grid, and how far the ways to run a model drift from its native run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._ways import ANCHORED, AS_TRAINED, EXTENDED, NATIVE
from quadnorm.adapt.extended import Extended
from quadnorm.adapt.models import trial_copy
from quadnorm.adapt.report import size_text
from quadnorm.adapt.trees import tensors
from quadnorm.adapt.watching.forms import refinements
from quadnorm.adapt.watching.nodes import at_training_nodes, relative_gap
from quadnorm.adapt.watching.probes import Probe
from quadnorm.adapt.watching.watch import CannotFollowError, first_line
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape


def relative(a: Tensor, b: Tensor) -> float:
    """‖a − b‖ / ‖b‖; 0 where both vanish."""
    gap, size = float((a - b).norm()), float(b.norm())
    return gap / size if size else float(gap > 0)


def drift(output: Any, native: Any, placements: tuple[str, ...]) -> float:
    """How far an output is from that on the training grid, ‖R y − R y₀‖ / ‖R y₀‖.

    R takes fields (B, C, *spatial) to the coarser of their two grids along each axis; other tensors are compared as
    they are. The largest of all tensors counts, nan if one is; those whose shapes differ all the same are left out.
    """
    worst = 0.0
    for y, y0 in zip(tensors(output), tensors(native), strict=True):
        a, b = y, y0
        if a.shape != b.shape and a.ndim == b.ndim == len(placements) + 2:
            common = tuple(map(min, a.shape[2:], b.shape[2:]))
            a, b = (t if tuple(t.shape[2:]) == common else carry(t, common, placements) for t in (a, b))
        if a.shape == b.shape and (b.is_floating_point() or b.is_complex()):
            here = relative(a, b)
            worst = here if here != here else max(worst, here)  # nan stays nan
    return worst


@dataclass(frozen=True)
class Drifts:
    """Relative differences from the native run at its nodes, by way; nan where a way does not run."""

    shape: Shape
    native: Shape
    ways: dict[str, float]
    refused: str = ""  # why the model cannot be extended
    rounding: float = 1e-6  # a difference that the outputs' dtype does not tell

    @property
    def worse(self) -> bool:
        """Whether anchoring makes it worse."""
        before, after = self.ways.get(AS_TRAINED, float("nan")), self.ways.get(ANCHORED, float("nan"))
        return after > 1.02 * before + self.rounding

    def __str__(self) -> str:
        grids = " to ".join(size_text(g) for g in (self.native, self.shape))
        values = ", ".join(f"{way} {v:.1e}" for way, v in self.ways.items())
        why = f" (extend refuses: {self.refused})" if self.refused else ""
        return f"drift from {grids} on a smooth input: {values}{why}; drift is no error: see quadnorm.transfer"


def failure_on_finer_grids(model: nn.Module, probe: Probe) -> str | None:
    """Why a model does not run on any finer grid; None if it does on one. Some take sizes of one kind only."""
    sizes = [refinements(p, n) for n, p in zip(probe.resolution, probe.placements, strict=True)]
    first = ""
    for shape in zip(*sizes, strict=True):
        args, kwargs = probe.smooth(shape)
        options = probe.grid_option(shape) if hasattr(model, "layout") else {}
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                trial_copy(model)(*args, **kwargs, **options)
        except Exception as error:  # whatever the model's own code makes of it
            first = first or first_line(error)
            continue
        return None
    return first


def measure_drifts(model: nn.Module, anchored: nn.Module | None, probe: Probe) -> Drifts:
    """Measure all ways on a grid that contains the training grid."""
    shape, options = probe.finer, probe.grid_option(probe.finer)
    trial = trial_copy(model)
    extended = Extended(trial, probe.resolution, probe.placements, probe.layout, "cubic")
    native_arguments, arguments = probe.smooth(probe.resolution), probe.smooth(shape)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        native = trial(*native_arguments[0], **native_arguments[1])
        try:
            plan = extended.plan(*native_arguments)
        except CannotFollowError as error:
            return Drifts(shape, probe.resolution, {AS_TRAINED: float("nan")}, str(error).split(";")[0])
        nodes = plan.nodes(shape)

        def gap(run: Callable[..., Any], **more: Any) -> float:
            try:
                output = run(*arguments[0], **arguments[1], **more)
                return relative_gap(at_training_nodes(output, plan.outputs, nodes), tensors(native))
            except Exception:  # a way that does not run has no drift
                return float("nan")

        ways = {AS_TRAINED: gap(trial)}
        if anchored is not None:
            fixed = trial_copy(anchored)
            ways[ANCHORED] = gap(fixed, **(options if hasattr(fixed, "layout") else {}))
        extension = gap(extended, **options)
    refused = "" if extension < 1e-4 else "it could not follow what the model does with its samples"
    if not refused:
        ways[EXTENDED] = extension
    ways[NATIVE] = 0.0
    dtype = next((t.dtype for t in tensors(native) if t.is_floating_point()), torch.float32)
    return Drifts(shape, probe.resolution, ways, refused, max(1e-6, 4 * torch.finfo(dtype).eps))
