"""What every measure can do."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from quadnorm import _torch
from quadnorm.measures._cache import CACHE

if TYPE_CHECKING:
    from quadnorm.measures.composed import Masked, Weights

Shape = tuple[int, ...]


def whole_number(n: object) -> int | None:
    """A whole number of any library (numpy's, a tensor's) as an int; None for everything else, truth values included.

    >>> whole_number(torch.tensor(3)), whole_number(3.0), whole_number(True)
    (3, None, None)
    """
    if isinstance(n, bool) or (isinstance(n, Tensor) and n.dtype == torch.bool):
        return None
    try:
        return operator.index(n)  # type: ignore[arg-type]
    except (TypeError, RuntimeError):
        return None


def whole_numbers(values: Any) -> list[int] | None:
    """Several whole numbers, of any library; None if there is anything else among them."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) != 1:
        return None
    numbers = [whole_number(n) for n in values]
    return None if None in numbers else [n for n in numbers if n is not None]


class Measure(ABC):
    r"""A probability measure on the domain, which a grid of samples turns into weights that sum to 1.

    .. math:: \int f \, d\mu \approx \sum_i w_i f(r_i), \qquad \sum_i w_i = 1

    Measures are immutable and hashable. Weights are computed in float64 and kept in a bounded cache.

    A subclass gives :meth:`_build`, :meth:`describe`, :meth:`_key` and, where they are known, :attr:`shape` and
    :attr:`total`.
    """

    def _set(self, **fields: Any) -> None:
        """Give the fields their only values; for constructors."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)  # torch 2.6 cannot compile an update of __dict__

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one instead of setting {name!r}")

    @abstractmethod
    def _key(self) -> Hashable:
        """What makes two measures of one class equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    @abstractmethod
    def _build(self, shape: Shape) -> Tensor:
        """Float64 weights of ``shape`` on the CPU; ``shape`` has been checked."""

    @abstractmethod
    def describe(self) -> str:
        """One line for a log."""

    @property
    def total(self) -> float:
        """Length, area or volume of the domain: what the constant 1 integrates to."""
        return 1.0

    @property
    def shape(self) -> Shape | None:
        """The only shape that this measure has weights for, or None if it serves every resolution."""
        return None

    @property
    def ndim(self) -> int | None:
        """Number of spatial axes, or None if any number will do."""
        return None if self.shape is None else len(self.shape)

    def counting_part(self) -> tuple[float, Measure]:
        """(α, μ) of a measure α·counting + (1−α)·μ, where counting is of the samples at hand; else (0, itself).

        >>> from quadnorm import Blend, Grid
        >>> Blend(0.3, Grid("simpson")).counting_part()
        (0.3, Grid('simpson'))
        """
        return 0.0, self

    def weights(
        self, shape: int | Sequence[int], device: torch.device | str | None = None, dtype: torch.dtype = torch.float64
    ) -> Tensor:
        """Weights for samples of ``shape``; they sum to 1. A fresh tensor, yours to change.

        >>> from quadnorm import Grid
        >>> Grid("trapezoid").weights(5)
        tensor([0.1250, 0.2500, 0.2500, 0.2500, 0.1250], dtype=torch.float64)
        """
        if torch.compiler.is_compiling():
            return self.shared_weights(shape, device, dtype)
        return self.shared_weights(shape, device, dtype).clone()

    def shared_weights(
        self, shape: int | Sequence[int], device: torch.device | str | None = None, dtype: torch.dtype = torch.float64
    ) -> Tensor:
        """Like :meth:`weights`, without the copy: the cached tensor itself, to be read only."""
        wanted = self._checked(shape)
        # A trace must contain the formula, not a tensor from the cache; and the same whether the cache knows it or not.
        if torch.compiler.is_compiling() or _torch.tracing_state() is not None:
            return self._build(wanted).to(device=device, dtype=dtype)
        where = torch.device("cpu") if device is None else torch.device(device)
        if where.type == "meta":
            return torch.empty(wanted, device=where, dtype=dtype)
        if _torch.dispatch_modes():  # fake tensors and tracers want tensors of their own
            return self._build(wanted).to(device=where, dtype=dtype)
        return CACHE.get(
            (self, wanted, where, dtype), lambda: self._build(wanted).to(device=where, dtype=dtype).contiguous()
        )

    def integrate(self, f: Tensor, ndim: int | None = None) -> Tensor:
        """∫ f over the domain, for samples ``f`` of shape (..., *spatial); returns shape (...).

        The spatial axes are the last ``ndim``; by default as many as the measure has, and if it serves any number, all
        of them.

        >>> import torch
        >>> from quadnorm import Grid
        >>> x = torch.linspace(0, 1, 101, dtype=torch.float64)
        >>> round(Grid("simpson").integrate(x**3).item(), 12)
        0.25
        """
        if ndim is None:
            ndim = f.ndim if self.ndim is None else self.ndim
        if not 0 < ndim <= f.ndim:
            raise ValueError(
                f"cannot integrate over the last {ndim} axes of a tensor of shape {tuple(f.shape)}; "
                f"pass samples of shape (..., *spatial) and, if needed, ndim="
            )
        spatial = tuple(f.shape[f.ndim - ndim :])
        exact = torch.float64 if f.dtype in (torch.float64, torch.complex128) else torch.float32
        w = self.shared_weights(spatial, f.device, exact)
        return (f * w).sum(tuple(range(-ndim, 0))) * self.total

    def masked(self, mask: Tensor) -> Masked:
        """The measure restricted to the samples where ``mask`` (boolean, of the samples' shape) is True.

        >>> import torch
        >>> from quadnorm import Grid
        >>> half = Grid("midpoint").masked(torch.tensor([True, True, False, False]))
        >>> half.weights(4), half.total
        (tensor([0.5000, 0.5000, 0.0000, 0.0000], dtype=torch.float64), 0.5)
        """
        from quadnorm.measures.composed import Masked

        return Masked(self, mask)

    def subsample(
        self, index: Tensor, probability: Tensor | None = None, *, shape: int | Sequence[int] | None = None
    ) -> Weights:
        """Weights for a random subset of the samples.

        Sample i drawn with inclusion probability π_i stands for 1/π_i samples like it, so its weight becomes w_i/π_i,
        then all are scaled to sum to 1. The domain, and with it :attr:`total`, is the same as before.

        ``index``: flat indices of the drawn samples (repeats count as often as they were drawn), shape (k,).
        ``probability``: the inclusion probability of *every* sample, of the full shape, any positive scale; default
        equal for all. ``shape``: the full grid's shape, needed when the measure serves any resolution.
        """
        from quadnorm.measures.composed import subsample

        return subsample(self, index, probability, shape)

    def _checked(self, shape: int | Sequence[int]) -> Shape:
        """``shape`` as a tuple of positive ints that this measure can serve, or an error that says what to do."""
        wanted: Shape = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        if torch.compiler.is_compiling():  # sizes may be symbols here
            self._fits(wanted)
            return wanted
        try:
            wanted = tuple(operator.index(n) for n in wanted)
        except TypeError:
            raise TypeError(f"shape {shape!r} must hold whole numbers, the samples per axis") from None
        for n in wanted:
            if n < 1:
                raise ValueError(f"shape {wanted} has an axis with {n} samples; every axis needs at least one")
        if not wanted:
            raise ValueError("the shape is empty; a measure needs at least one spatial axis")
        self._fits(wanted)
        return wanted

    def _fits(self, shape: Shape) -> None:
        if self.shape is not None and shape != self.shape:
            raise ValueError(
                f"{self!r} has weights for shape {self.shape} only, got {shape}; "
                f"make a measure for the new samples, or use one that serves every resolution: Grid('trapezoid')"
            )
        if self.ndim is not None and len(shape) != self.ndim:
            raise ValueError(
                f"{self!r} has {self.ndim} axes, got samples of shape {shape} with {len(shape)}; give the measure, or "
                "the resolution, one entry for each spatial axis of (B, C, *spatial), time included"
            )
