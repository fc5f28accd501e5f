"""What :func:`quadnorm.transfer` takes from a model beside its native run: its own detail, and anchored runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn
from torch.func import functional_call

from quadnorm._tensors import is_recording
from quadnorm.adapt.adapted import Adapted
from quadnorm.adapt.anchored import AnchoredCalls
from quadnorm.adapt.anchoring import anchor
from quadnorm.adapt.extended import Extended
from quadnorm.adapt.extending import extend
from quadnorm.adapt.graphs.capture import twin_of
from quadnorm.adapt.models import transform_advice
from quadnorm.adapt.shifted import ShiftedRuns
from quadnorm.adapt.shifting import shifted_runs
from quadnorm.adapt.trees import Arguments
from quadnorm.adapt.watching.watch import CannotFollowError, first_line
from quadnorm.measures.base import Shape


class Sources:
    """Where the network's own detail comes from, and the model with its sums anchored, as far as either is to be had.

    ``notes`` says so in words.
    """

    def __init__(self, model: nn.Module, restrict: str, *grid: Any, **options: Any) -> None:
        self.detail: Adapted | None = None
        self.anchored: nn.Module | None = None
        self.notes: list[str] = []
        try:
            extended = extend(model, *grid, restrict=restrict, **options)
            if any(e.action == "carried" for e in extended.extend_report):
                raise CannotFollowError("kernels of several samples, whose results extension interpolates")
            self.detail = extended
            if extended.stencils != "carried":
                dilated = extended.stencils == "dilated"
                how = "stencils at the training grid's spacing" if dilated else "runs on shifted training grids"
                self.notes.append(f"the network's detail by {how}")
        except Exception as error:  # whatever the model's own code makes of other grids
            try:
                self.detail = shifted_runs(model, *grid, restrict=restrict, **options)
                self.notes.append(f"the network's detail by runs on shifted training grids ({why(error)})")
            except Exception as second:
                self.notes.append(
                    f"no detail of the network's own: extend refuses ({why(error)}), and so do shifted runs "
                    f"({why(second)})"
                )
        try:
            self.anchored = anchor(model, *grid, share=True, force=True, **options)
        except Exception as error:
            self.notes.append(
                f"what the input's detail does at the training nodes is not known: anchor refuses ({why(error)})"
            )

        if transform_advice(model):
            self.notes.append(transform_advice(model))

    @property
    def shifts(self) -> bool:
        """Whether the network's detail comes from shifted runs of nothing but the input."""
        d = self.detail
        return isinstance(d, ShiftedRuns) or (
            isinstance(d, Extended) and d.stencils == "shifted" and not d.moves_fields
        )

    def plan(self, model: nn.Module, arguments: Arguments, shape: Shape, detail: bool, sums: bool) -> SourcePlan:
        """What the runs on a grid need to know: those of the source of ``detail``, and the anchored ``sums``."""
        known = self.detail.steering_plan(model, *arguments, shape) if detail and self.detail else None
        return SourcePlan(known, Sums(self.anchored, arguments, shape) if sums and self.anchored else None)

    def with_native_run(
        self, model: nn.Module, plan: SourcePlan, native: Arguments, new: Arguments, shape: Shape
    ) -> Any:
        """The native run's output, and the network's own at the nodes of the grid ``shape``."""
        if isinstance(self.detail, Extended):
            return self.detail.with_native_run(model, plan.detail, *new, shape)
        assert self.detail is not None
        return model(*native[0], **native[1]), self.detail.steered(model, plan.detail, *new, shape)


class SourcePlan(NamedTuple):
    """What is known of a model for runs on other grids: by the source of its detail; its anchored twin."""

    detail: Any = None
    sums: Sums | None = None


class Sums(nn.Module):
    """Runs of the anchored model on a grid, with the parameters and buffers of another one.

    Its caches are its own.
    """

    def __init__(self, anchored: nn.Module, arguments: Arguments, shape: Shape) -> None:
        super().__init__()
        self.calls = [anchored] if isinstance(anchored, AnchoredCalls) else []  # a list hides it from the state
        self.model = twin_of(self.calls[0].model if self.calls else anchored)
        self.plan = [calls.plan_for(self.model, *arguments, shape) for calls in self.calls]

    def forward(self, shape: Shape, args: Any, kwargs: Any) -> Any:
        """One run; see :meth:`run`."""
        for calls, plan in zip(self.calls, self.plan, strict=True):
            return calls.steered(self.model, plan, args, kwargs, shape)
        return self.model(*args, **kwargs)

    def run(self, model: nn.Module, arguments: Arguments, shape: Shape) -> Any:
        """The output with the parameters and buffers of ``model``, which it does not change."""
        writes = model.training and not is_recording()
        own = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        given = {
            **dict(model.named_parameters()),
            **{name: b.clone() if writes else b for name, b in model.named_buffers()},
        }
        state = {f"model.{n}": t for n, t in given.items() if n in own and own[n].shape == t.shape}
        return functional_call(self, state, (shape, *arguments))


def why(error: Exception) -> str:
    """The reason that an error gives, without its advice."""
    text = str(error).split(";")[0] if isinstance(error, CannotFollowError) else first_line(error).split(";")[0]
    return text.splitlines()[0] if text else type(error).__name__
