""":func:`quadnorm.at_native`: a model run on its training grid, its output carried to the grid that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from quadnorm._suggest import unknown
from quadnorm.adapt.adapted import Adapted
from quadnorm.adapt.clouds.native import AtNativePoints
from quadnorm.adapt.placement import placed_grid
from quadnorm.adapt.trees import mapped, tensors
from quadnorm.adapt.watching.layouts import grid_of_inputs, layout_text, patterns_of, regridded
from quadnorm.adapt.watching.probes import tried_probe
from quadnorm.adapt.watching.watch import first_line, leaving_no_trace, trial_output
from quadnorm.carry.grids import carry
from quadnorm.carry.lines import METHODS
from quadnorm.measures.base import Shape


def at_native(
    model: nn.Module,
    resolution: int | Sequence[int] | Tensor,
    placement: str | Sequence[str] | None = None,
    *,
    restrict: str = "cubic",
    interpolate: str = "cubic",
    weights: Tensor | None = None,
    queries: str | None = None,
    coordinates: str | int | None = None,
    layout: str | None = None,
    example: Any = None,
) -> AtNative | AtNativePoints:
    r"""The model run on its training grid, whatever grid it is asked on.

    .. math:: y = P\, G(R\, x)

    R takes the input to the training grid: the samples themselves where the grids nest, else interpolation. P
    carries the output back: cubic splines, on periodic axes Fourier zero-padding. All of it is differentiable and
    works on batches.

    Nothing in the network depends on the resolution then; what is lost is what the training grid cannot hold, of
    the input and of the output.

    Args:
        model: takes (B, C, \*spatial); not copied: training it trains this too.
        resolution, placement: of the training grid, as for :func:`quadnorm.anchor`. Or ``resolution`` is a tensor
            (N, d), the training mesh's points: see :class:`quadnorm.adapt.AtNativePoints`, which interpolates by
            lines.
        weights: (N,), of the training mesh's points, if the model is to be given them.
        queries: the name of the model's argument for the points at which outputs are wanted, if it has one: outputs on
            meshes are then asked for there instead of being interpolated.
        coordinates: on meshes, the name of the model's argument for coordinates, or the number of their first channel
            if they are channels of its input. Default: an argument of a usual name (``pos``, ``coordinates``, …), or
            one with as many channels as the points have dimensions.
        layout: which axes of fields are space, as for :func:`quadnorm.extend`. Default: what the model accepts when it
            is tried with random numbers, or at its first call; ``repr`` shows it. Outputs may be dicts, tuples and
            dataclasses of fields. A tensor on a finer or coarser grid than the training grid comes back on the grid
            that the model itself would give it; one whose size is the same for all inputs is no field and comes back
            as it is.
        example: an input at the training resolution, as for :func:`quadnorm.anchor`, by which the layout is found.
        restrict, interpolate: a method of :func:`quadnorm.adapt.carry` for R and for P. A piecewise constant input
            should be restricted by ``nearest``, cell averages by ``mean``; ``antialias`` keeps what the training grid
            cannot hold from being folded into what it can.

    >>> import torch
    >>> model = nn.Conv2d(1, 1, 3, padding=1)  # fixed pixels: no measure would help
    >>> wrapped = at_native(model, 17, "endpoint")
    >>> x = torch.randn(2, 1, 33, 33)
    >>> torch.equal(wrapped(x)[..., ::2, ::2], model(x[..., ::2, ::2]))
    True
    """
    if not isinstance(model, nn.Module):  # scripted, compiled and wrapped models are run as they are
        raise TypeError(f"at_native needs an nn.Module, got {model!r}")
    if isinstance(resolution, Tensor):
        return AtNativePoints(model, resolution, weights, queries, coordinates)
    for name, given in (("weights", weights), ("queries", queries), ("coordinates", coordinates)):
        if given is not None:
            raise ValueError(f"{name} belong to the points of a training mesh; a grid's samples have none of their own")
    sizes, names, example, _ = placed_grid(model, resolution, placement, example)
    probe = tried_probe(model, sizes, names, example, layout)
    adapted = AtNative(model, sizes, names, restrict, interpolate, probe.layout if probe else layout)
    adapted.example = probe and probe.arguments
    return adapted


class AtNative(Adapted):
    """See :func:`at_native`."""

    way = "at_native"
    layout: str | None  # type: ignore[assignment] # None until the first call
    not_on_shards = "it interpolates the whole field; shard the model itself, or one that is anchored or extended"

    def __init__(
        self,
        model: nn.Module,
        resolution: Shape,
        placements: tuple[str, ...],
        restrict: str = "cubic",
        interpolate: str = "cubic",
        layout: str | None = "first",
    ) -> None:
        if layout is not None:
            patterns_of(layout, len(resolution))
        for method in (restrict, interpolate):
            if method not in METHODS:
                raise ValueError(unknown("way to interpolate", method, METHODS))
        super().__init__(model, resolution, placements, layout)  # type: ignore[arg-type]
        self.restrict, self.interpolate = restrict, interpolate
        self._outputs: dict[tuple[Shape, Shape], Shape | None] = {}

    def forward(self, *args: Any, grid: Shape | None = None, **options: Any) -> Any:
        """(B, C, *spatial) → (B, C', *spatial), or as ``layout`` says; all arguments go to the model, fields among
        them on its grid. ``grid`` is needed for samples in a row."""
        return self.steered(self.model, None, args, options, self.grid_of(args, options, grid))

    def plan_for(self, model: nn.Module, args: Any, kwargs: Any, shape: Shape) -> Any:
        """One run, after which it is known which grids the outputs are on."""
        with leaving_no_trace(model):
            AtNative.steered(self, model, None, args, kwargs, shape)

    def steered(self, model: nn.Module, plan: Any, args: Any, kwargs: Any, shape: Shape) -> Any:
        values, named = self.restricted((args, kwargs), shape)
        try:
            y = model(*values, **named)
        except (RuntimeError, ValueError) as error:
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors((values, named)))
            error.add_note(
                f"at_native took the input for {layout_text(str(self.layout), len(shape))}, on the grid {shape}, and "
                f"gave the model {shapes}; pass layout='last' for (B, *spatial, C), or name the axes as in 'b t c h w'"
            )
            raise
        return self.carried(model, y, shape, (args, kwargs))

    def options(self) -> dict[str, Any]:
        return {"restrict": self.restrict, "interpolate": self.interpolate}

    def grid_of(self, args: Any, kwargs: Any, grid: Shape | None = None) -> Shape:
        layout = self._settled_layout((args, kwargs), grid) if self.layout is None else self.layout
        if self._is_one_field(args, kwargs):
            return spatial_shape(args[0], len(self.resolution))
        return grid_of_inputs(args, kwargs, len(self.resolution), layout, grid)

    def restricted(self, arguments: Any, shape: Shape) -> Any:
        """The arguments with every field on the training grid."""
        args, kwargs = arguments
        if self._is_one_field(args, kwargs):  # without comparing sizes, which may be symbolic
            return (carry(args[0], self.resolution, self.placements, self.restrict),), kwargs
        return self.regridded(arguments, shape, self.resolution, self.restrict)

    def _is_one_field(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return len(args) == 1 and isinstance(args[0], Tensor) and self.layout == "first" and not kwargs

    def carried(self, model: nn.Module, y: Any, shape: Shape, arguments: Any) -> Any:
        """The model's output on the training grid, on the grid of its inputs; ``arguments`` are those of that grid."""
        if isinstance(y, Tensor) and self.layout == "first":
            new = self._grid_of_output(model, tuple(y.shape[2:]), shape, arguments)
            return y if new is None else carry(y, new, self.placements, self.interpolate)
        sizes = self.resolution, shape, self.placements, str(self.layout)
        return regridded(y, *sizes, self.interpolate, outputs=True)

    def _settled_layout(self, given: Any, grid: Shape | None) -> str:
        """The layout in which the model takes these arguments, tried on the first call where random numbers alone did
        not tell."""
        faults = []
        for layout in ("first", "last"):
            try:
                shape = grid_of_inputs(given[0], given[1], len(self.resolution), layout, grid)
                native = regridded(given, shape, self.resolution, self.placements, layout, self.restrict)
                trial_output(self.model, native)
            except Exception as error:  # the model's own, of any kind
                faults.append(f"as {layout_text(layout, len(self.resolution))}: {first_line(error)}")
                continue
            self.layout = layout
            return layout
        shapes = ", ".join(str(tuple(t.shape)) for t in tensors(given)) or "no tensor"
        raise ValueError(
            f"the layout of the inputs {shapes} could not be guessed ({'; '.join(faults)}); pass layout=, 'first', "
            "'last' or named axes as in 'b t c h w'"
        )

    def _grid_of_output(self, model: nn.Module, size: Shape, shape: Shape, arguments: Any) -> Shape | None:
        """The grid of an output that has ``size`` samples on the training grid, for inputs on the grid ``shape``.

        The inputs' grid, if ``size`` is the training grid's. For a coarser or finer output the model is run on the
        inputs themselves, once for each grid. None for what is no field, whose size stays.
        """
        if size == self.resolution:
            return shape
        if len(size) != len(shape):
            return None
        if (size, shape) not in self._outputs:
            try:
                y = trial_output(model, mapped(lambda t: t[:1] if t.ndim else t, arguments))
                own = tuple(y.shape[2:])
            except Exception:  # the model runs on its training grid alone
                own = size
            self._outputs[size, shape] = None if own == size or len(own) != len(shape) else own
        return self._outputs[size, shape]

    def extra_repr(self) -> str:
        """The grid and the ways."""
        layout = self.layout or "seen at the first call"
        return (
            f"resolution={self.resolution}, placement={self.placements}, layout={layout!r}, restrict={self.restrict!r}"
        )


def spatial_shape(x: Tensor, d: int) -> Shape:
    """The grid of x (B, C, *spatial)."""
    if x.ndim != d + 2:
        raise ValueError(
            f"expected (B, C, *spatial) with {d} spatial axes, got shape {tuple(x.shape)}; layout='last' is for "
            "(B, *spatial, C), layout='tokens' for (B, N, C)"
        )
    return tuple(x.shape[2:])
