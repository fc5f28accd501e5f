"""QuadNorm, the layer that all others are: one weighted core, any measure."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._suggest import unknown
from quadnorm.measures import Blend, Grid, Measure, Separable, as_measure
from quadnorm.norms.functional import checked
from quadnorm.norms.kernels.core import normalize
from quadnorm.norms.kernels.formula import statistics_dtype
from quadnorm.norms.layout import Layout, checked_layout, from_channels_first, to_channels_first
from quadnorm.norms.weights import blended, given_weights, has_holes, scaled, without_fill_values

MODES = ("layer", "instance", "group")


class QuadNorm(nn.Module):
    r"""Normalization by the mean and variance under a measure.

    .. math:: y = \gamma_c\,\frac{x - \mu}{\sqrt{v + \varepsilon}} + \beta_c, \qquad
        \mu = \frac1D\sum_{c,i} w_i\,x_{ci}, \quad v = \frac1D\sum_{c,i} w_i\,(x_{ci}-\mu)^2, \quad \sum_i w_i = 1

    The weights are those of ``measure`` at the input's resolution, so that one layer serves every resolution; they are
    no part of the state.

    Args:
        num_features: number of channels C.
        eps: added to the variance.
        affine: whether to have γ (``weight``) and β (``bias``), one each per channel.
        mode: what the D channels of one mean are: ``layer`` all, ``instance`` one, ``group`` C/num_groups.
        num_groups: for ``mode="group"``; divides C.
        measure: a rule's name (``trapezoid`` for endpoint-inclusive samples, ``midpoint`` for cell centres, …), one
            name per axis, or any measure. The attribute ``measure`` can be set later.
        layout: where the channels are. ``"first"``: x is (B, C, \*spatial). ``"last"``: x is (B, \*spatial, C). A tuple
            such as (33, 33): x is (B, N, C), tokens that lie on a grid of that shape in row-major order; the attribute
            ``layout`` can be set later.

    Call:
        ``layer(x)``, or ``layer(x, weights=w)`` with w (\*spatial) or (B, \*spatial), any positive scale, 0 where a
        sample is absent (see :func:`quad_norm`). Given weights take the place of the measure's; of a blend they replace
        the quadrature, and counting counts the samples that are there.

    >>> layer = QuadNorm(1, affine=False, mode="instance", eps=0.0)
    >>> layer(torch.tensor([[[0.0, 1.0, 2.0]]]))  # trapezoid weights ¼, ½, ¼
    tensor([[[-1.4142,  0.0000,  1.4142]]])
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
        if isinstance(num_features, bool) or not isinstance(num_features, int) or num_features < 1:
            raise ValueError(f"num_features must be the number of channels, 1 or more, got {num_features!r}")
        if mode not in MODES:
            raise ValueError(unknown("mode", mode, MODES))
        self.num_features = num_features
        self.eps = float(eps)
        self.mode = mode
        self.num_groups = num_groups
        if self.groups < 1 or num_features % self.groups:
            raise ValueError(
                f"num_groups must divide num_features, got num_groups={num_groups} and num_features={num_features}"
            )
        self.measure = measure
        self.layout = layout
        self.affine = affine
        ones = torch.ones(num_features, device=device, dtype=dtype)
        self.register_parameter("weight", nn.Parameter(ones) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros_like(ones)) if affine and self.centre else None)

    @property
    def groups(self) -> int:
        """Number of means per batch entry."""
        return {"layer": 1, "instance": self.num_features, "group": self.num_groups}[self.mode]

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

    def forward(self, x: Tensor, weights: Any = None) -> Tensor:
        """Normalize x; see the class."""
        shape = x.shape
        x = to_channels_first(x, self._layout)
        spatial = checked(x, self.groups, self.num_features)
        if weights is None:
            y = self._under_measure(x, spatial)
        else:
            w = self._given(scaled(given_weights(weights, x, spatial), statistics_dtype(x)), spatial)
            y = self._normalize(without_fill_values(x, w), w)
        return from_channels_first(y, shape, self._layout)

    def _under_measure(self, x: Tensor, spatial: tuple[int, ...]) -> Tensor:
        flat, holes, w = self._plan(x, spatial)
        if flat:
            return self._native(x)
        if w is None:
            w = self._measure_weights(spatial, x)
        return self._normalize(without_fill_values(x, w) if holes else x, w)

    def _plan(self, x: Tensor, spatial: tuple[int, ...]) -> tuple[bool, bool, Tensor | None]:
        """Whether weights are equal, whether samples are left out, and the weights unless they are learned or traced.

        The last answer is kept: a network asks the same thing at every step.
        """
        if torch.compiler.is_compiling():
            return self._is_flat(spatial, True), not isinstance(self._measure, Separable), None
        key = (spatial, x.device, x.dtype)
        memo = self.__dict__.get("_memo")
        if memo is not None and memo[0] is self._measure and memo[1] == key:
            plan: tuple[bool, bool, Tensor | None] = memo[2]
            return plan
        # One sample is all there is to average: our kernel gives exactly β, PyTorch's only nearly.
        flat = max(spatial) > 1 and self._is_flat(spatial, False)
        w = None if flat or self._learns else self._measure_weights(spatial, x)
        plan = flat, not flat and has_holes(self._measure, spatial), w
        if type(x) is Tensor or isinstance(x, nn.Parameter):  # weights for a fake tensor are fake
            self.__dict__["_memo"] = self._measure, key, plan
        return plan

    @property
    def _learns(self) -> bool:
        """Whether the weights depend on parameters."""
        return False

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_memo", None)  # derived, and as large as the grid
        return state

    def _is_flat(self, spatial: tuple[int, ...], tracing: bool) -> bool:
        m = self._measure
        if tracing and not isinstance(m, Grid):  # asking an anchored measure would compile the training grid's size in
            return False
        return self.centre and isinstance(m, Separable) and m.flat(spatial)

    def _native(self, x: Tensor) -> Tensor:
        """Equal weights: PyTorch's own kernel, to the last bit."""
        if x.dtype in (torch.float16, torch.bfloat16) or (self.weight is not None and self.weight.dtype != x.dtype):
            dtype = statistics_dtype(x)
            weight, bias = (None if p is None else p.to(dtype) for p in (self.weight, self.bias))
            with torch.autocast(x.device.type, enabled=False):
                return nn.functional.group_norm(x.to(dtype), self.groups, weight, bias, self.eps).to(x.dtype)
        return nn.functional.group_norm(x, self.groups, self.weight, self.bias, self.eps)

    def _measure_weights(self, spatial: tuple[int, ...], x: Tensor) -> Tensor:
        return self._measure.shared_weights(spatial, x.device, statistics_dtype(x)).reshape(1, -1)

    def _given(self, w: Tensor, spatial: tuple[int, ...]) -> Tensor:
        return blended(w, self._measure.alpha) if isinstance(self._measure, Blend) else w

    def _normalize(self, x: Tensor, w: Tensor) -> Tensor:
        return normalize(x, w, self.weight, self.bias, self.groups, self.eps, self.centre)

    def extra_repr(self) -> str:
        """What the constructor was given."""
        groups = f", num_groups={self.num_groups}" if self.mode == "group" else ""
        layout = "" if self._layout == "first" else f", layout={self._layout!r}"
        given = f"{self.num_features}, eps={self.eps:g}, affine={self.affine}, mode={self.mode!r}{groups}"
        return f"{given}, measure={self.measure!r}{layout}"
