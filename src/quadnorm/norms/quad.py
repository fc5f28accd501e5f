"""QuadNorm, the base class of every norm here that averages over space: one weighted core, any measure."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.overrides import has_torch_function

from quadnorm._suggest import unknown
from quadnorm._tensors import is_plain
from quadnorm.measures import Anchored, Grid, Measure, Separable, as_measure
from quadnorm.measures.axes import RuleAxis
from quadnorm.measures.base import Shape, whole_number
from quadnorm.norms.functional import counts_by_own_kernel, native_norm, spatial_shape
from quadnorm.norms.kernels import repeated
from quadnorm.norms.kernels.core import normalize
from quadnorm.norms.layout import Layout, checked_layout, from_channels_first, to_channels_first
from quadnorm.norms.weights import (
    Plan,
    blended,
    call_plan,
    leaves_samples_out,
    measure_weights,
)

MODES = ("layer", "instance", "group")
PROXY: Any = fx.Proxy  # what symbolic traces call with; not a Tensor, whatever the signature says


class QuadNorm(nn.Module):
    r"""Normalization by the mean and variance under a measure.

    .. math:: y = \gamma_c\,\frac{x - \mu}{\sqrt{v + \varepsilon}} + \beta_c, \qquad
        \mu = \frac1D\sum_{c,i} w_i\,x_{ci}, \quad v = \frac1D\sum_{c,i} w_i\,(x_{ci}-\mu)^2, \quad \sum_i w_i = 1

    The weights are those of ``measure`` at the input's resolution, so one layer serves every resolution. They are not
    part of the ``state_dict``.

    Args:
        num_features: number of channels C.
        eps: added to the variance.
        affine: whether to have γ (``weight``) and β (``bias``), one each per channel.
        mode: which D channels share a mean and variance: ``layer`` all of them, ``instance`` one each, ``group``
            C/num_groups.
        num_groups: for ``mode="group"``; divides C.
        measure: a rule's name (``trapezoid`` for endpoint-inclusive samples, ``midpoint`` for cell centres, …), one
            name per axis, or any measure. The attribute ``measure`` can be set later.
        layout: where the channels are. ``"first"``: x is (B, C, \*spatial). ``"last"``: x is (B, \*spatial, C). A tuple
            such as (33, 33): x is (B, N, C), tokens that lie on a grid of that shape in row-major order; the attribute
            ``layout`` can be set later.

    Call:
        ``layer(x)``, or with one or both of

        - ``mask``: boolean, (\*spatial) or (B, \*spatial), True where a sample is there. It multiplies the measure:
          the same quadrature without the masked samples.
        - ``weights``: (\*spatial) or (B, \*spatial), any positive scale, 0 where a sample is absent. They take the
          place of the measure's weights (of a blend's, of its quadrature; counting then counts the samples present).

        Absent samples do not enter the statistics, whatever they hold (see :func:`quad_norm`).

    >>> layer = QuadNorm(1, affine=False, mode="instance", eps=0.0)
    >>> layer(torch.tensor([[[0.0, 1.0, 2.0]]]))  # trapezoid weights ¼, ½, ¼
    tensor([[[-1.4142,  0.0000,  1.4142]]])
    >>> layer(torch.tensor([[[0.0, 2.0, 9.0]]]), mask=torch.tensor([True, True, False]))[..., :2]  # ⅓, ⅔
    tensor([[[-1.4142,  0.7071]]])
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    centre = True

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = True,
        mode: str = "layer",
        num_groups: int = 1,
        *,
        measure: Any = "trapezoid",
        layout: Layout = "first",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        channels, parts = whole_number(num_features), whole_number(num_groups)
        if channels is None or channels < 1:
            raise ValueError(f"num_features must be the number of channels, 1 or more, got {num_features!r}")
        if mode not in MODES:
            raise ValueError(unknown("mode", mode, MODES))
        groups = {"layer": 1, "instance": channels, "group": parts}[mode]  # means per batch entry
        if groups is None or parts is None or groups < 1 or channels % groups:
            raise ValueError(
                f"num_groups must divide num_features, got num_groups={num_groups!r} and num_features={num_features}"
            )
        self.num_features, self.num_groups, self.groups = channels, parts, groups
        self.eps = float(eps)
        self.mode = mode
        self.measure = measure
        self.layout = layout
        self.affine = affine
        ones = torch.ones(channels, device=device, dtype=dtype)
        self.register_parameter("weight", nn.Parameter(ones) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros_like(ones)) if affine and self.centre else None)

    @property
    def measure(self) -> Measure:
        """What the statistics are taken against."""
        return self._measure

    @measure.setter
    def measure(self, value: Any) -> None:
        self._measure = as_measure(value)

    @property
    def layout(self) -> Layout:
        """Where the channels are."""
        return self._layout

    @layout.setter
    def layout(self, value: Any) -> None:
        self._layout = checked_layout(value)

    def reset_parameters(self) -> None:
        """γ = 1, β = 0."""
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, weights: Any = None, mask: Any = None) -> Tensor:
        """Normalize x; see the class."""
        if isinstance(x, PROXY):
            return leaf_call(self, x, weights=weights, mask=mask)
        first = x if self._layout == "first" else to_channels_first(x, self._layout)
        plan = self._plan(first) if weights is None and mask is None else self._call_plan(first, weights, mask)
        weight, bias = self.weight, self.bias
        if plan.weights is None:
            y = native_norm(first, self.groups, weight, bias, self.eps)
        elif plan.ready is not None and repeated.serves(plan.ready, first, weight, bias):
            y = repeated.normalize(plan.ready, first, weight, bias, self.groups, self.eps, self.centre)
        else:
            options = self.groups, self.eps, self.centre, plan.has_absent
            y = normalize(first, plan.weights, weight, bias, *options)
        return y if self._layout == "first" else from_channels_first(y, x.shape, self._layout)

    def _plan(self, x: Tensor) -> Plan:
        """The plan for x under the measure. The last one is kept: a network asks the same thing at every step."""
        if not is_plain(x) or has_torch_function((x,)):
            return self._new_plan(x)
        key = x.shape, x.device, x.dtype, x.is_contiguous()
        memo = self.__dict__.get("_memo")
        if memo is not None and memo[0] is self._measure and memo[1] == key:
            plan: Plan = memo[2]
            return plan
        plan = self._new_plan(x, counts_by_own_kernel(x))
        if not self._learns:
            if plan.weights is not None and not plan.has_absent:
                plan = plan._replace(ready=repeated.prepare(x, plan.weights))
            self.__dict__["_memo"] = self._measure, key, plan
        return plan

    def _new_plan(self, x: Tensor, own_kernel: bool = False) -> Plan:
        """The same, anew; with ``own_kernel`` plain averages have weights too, instead of PyTorch's kernel."""
        spatial = spatial_shape(x, self.groups, self.num_features)
        if self._counts(spatial) and not own_kernel:
            return Plan(None)
        return Plan(self._weights(x, spatial), leaves_samples_out(self._measure, spatial))

    def _call_plan(self, x: Tensor, weights: Any, mask: Any) -> Plan:
        spatial = spatial_shape(x, self.groups, self.num_features)
        plan = call_plan(self._measure, weights, mask, x, spatial)
        assert plan.weights is not None
        return Plan(self._given(plan.weights, spatial), plan.has_absent)

    @property
    def _learns(self) -> bool:
        """Whether the weights depend on parameters."""
        return False

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_memo", None)  # derived, and as large as the grid
        return state

    def _counts(self, spatial: Shape) -> bool:
        """Whether the statistics are plain averages, which promise PyTorch's own result of contiguous memory.

        Those of counting and of an anchored measure on its training grid do, in float32 and float64 to the
        last bit. A quadrature promises accuracy instead,
        also where its weights happen to be equal (midpoint, periodic).
        """
        return self.centre and is_counting(self._measure, spatial)

    def _weights(self, x: Tensor, spatial: Shape) -> Tensor:
        """Weights (1, N) under the measure."""
        return measure_weights(self._measure, x, spatial)

    def _given(self, w: Tensor, spatial: Shape) -> Tensor:
        """Weights (1 or B, N) made from those given at call time, already scaled."""
        share, _ = self._measure.counting_part()
        return blended(w, share) if share else w

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        groups = f", num_groups={self.num_groups}" if self.mode == "group" else ""
        layout = "" if self._layout == "first" else f", layout={self._layout!r}"
        given = f"{self.num_features}, eps={self.eps:g}, affine={self.affine}, mode={self.mode!r}{groups}"
        return f"{given}, measure={self.measure!r}{layout}"


def is_counting(measure: Measure, spatial: Shape) -> bool:
    """Whether a measure is the plain average of all samples, by its meaning and not by chance.

    >>> is_counting(Grid("counting"), (5,)), is_counting(Grid("midpoint"), (5,))
    (True, False)
    """
    tracing = torch.compiler.is_compiling()
    if not tracing and max(spatial) == 1:  # our kernel gives exactly β; PyTorch's nearly, or refuses
        return False
    share, rest = measure.counting_part()
    if rest is not measure:
        every_sample = isinstance(rest, Separable)
        return every_sample and (share == 1 or is_counting(rest, spatial))
    if isinstance(measure, Grid):
        return all(isinstance(a, RuleAxis) and a.rule.name == "counting" for a in measure.axes(len(spatial)))
    # Asking an anchored measure for its training grid would compile that grid's size into a trace.
    return not tracing and isinstance(measure, Anchored) and measure.flat(spatial)


def leaf_call(module: nn.Module, x: Any, **options: Any) -> Tensor:
    """The call of a norm as one node of ``fx.symbolic_trace``'s graph, as for PyTorch's own norms.

    The formula depends on the sizes of x, which a symbolic trace does not know.
    """
    path = x.tracer.path_of_module(module)
    if not path:
        raise TypeError(
            f"fx.symbolic_trace cannot look inside {type(module).__name__}, whose weights depend on the size of its "
            f"input; trace the model that contains it (there it stays one node), or use torch.export or make_fx"
        )
    options = {k: v for k, v in options.items() if v is not None}
    node: Tensor = x.tracer.create_proxy("call_module", path, (x,), options)
    return node
