"""What :func:`quadnorm.transfer` adds to the native run on a grid: the shares, their sum, and the report in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from quadnorm._tensors import constant
from quadnorm.adapt.levels import finest_scales, open_ends, outside_nodes
from quadnorm.adapt.report import size_text
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape

Values = tuple[float, ...]  # one for each channel


@dataclass(frozen=True)
class FieldShares:
    """What is done with one output field on one grid.

    ``smoothing``: shares of the two finest scales that are taken out of the native output. ``gain``: of the network's
    detail inside the training nodes. ``outside``: of the detail outside. ``news``: of what the input's detail does,
    coarse and finest scale. ``facts``: what these follow from.
    """

    smoothing: tuple[Values, Values]
    gain: Values
    outside: Values
    news: tuple[float, float]
    facts: dict[str, float | Values] = field(default_factory=dict)

    @property
    def evaluates(self) -> bool:
        """Whether the network's detail is needed."""
        return any(share > 0 for share in (*self.gain, *self.outside))

    @property
    def anchors(self) -> bool:
        """Whether the anchored runs are needed."""
        return any(share > 0 for share in self.news)


@dataclass(frozen=True)
class OnGrid:
    """What is done on one grid: shares per output field, and remarks on what could not be."""

    shares: tuple[FieldShares, ...]
    notes: tuple[str, ...] = ()
    samples: int = 0

    @property
    def evaluates(self) -> bool:
        return any(s.evaluates for s in self.shares)

    @property
    def anchors(self) -> bool:
        return any(s.anchors for s in self.shares)

    @classmethod
    def of(cls, saved: dict[str, Any]) -> OnGrid:
        """From what :func:`dataclasses.asdict` and JSON have made of one."""
        shares = tuple(FieldShares(**{k: _tuples(v) for k, v in each.items()}) for each in saved["shares"])
        return cls(shares, tuple(saved["notes"]), saved["samples"])


def _tuples(value: Any) -> Any:
    """Lists, which JSON knows, as tuples."""
    if isinstance(value, dict):
        return {k: _tuples(v) for k, v in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# --- the sum ---------------------------------------------------------------------------------------------------------


def combined(
    shares: FieldShares,
    native: Tensor,
    carried: Tensor,
    evaluated: Tensor | None,
    effect: Tensor | None,
    placements: Sequence[str],
) -> Tensor:
    """The output field on the new grid, (B, C, *shape), from the native output (B, C, *native) and the parts.

    Outside the training nodes the network's output takes the place of the extrapolated one, with the correction of the
    nearest training node: a correction must not be extrapolated where nothing else is.
    """
    shape, sizes = tuple(carried.shape[2:]), tuple(native.shape[2:])
    correction: Tensor | None = None
    if any(share > 0 for shares_of_scale in shares.smoothing for share in shares_of_scale):
        correction = noise_correction(native, shares.smoothing, placements)
    if effect is not None and shares.anchors:
        fine, _ = finest_scales(effect, placements)
        part = shares.news[0] * (effect + fine) - shares.news[1] * fine
        correction = part if correction is None else correction + part
    y = carried if correction is None else carried + carry(correction, shape, placements, "cubic")
    if evaluated is None or not shares.evaluates:
        return y
    change = _weight(shares.gain, native) * (evaluated - carried)
    if open_ends(sizes, shape, placements):
        if correction is not None:
            evaluated = evaluated + carry(correction, shape, placements, "nearest")
        outside = outside_nodes(sizes, shape, placements).to(native.device)
        change = torch.where(outside, _weight(shares.outside, native) * (evaluated - y), change)
    return y + change


def noise_correction(v: Tensor, smoothing: Sequence[Sequence[float]], placements: Sequence[str]) -> Tensor:
    """What takes a network's noise out of its native output, (B, C, *native)."""
    first, second = finest_scales(v, placements)
    return _weight(smoothing[0], v) * first + _weight(smoothing[1], v) * second


def _weight(share: Sequence[float], like: Tensor) -> Tensor:
    """A share per channel in the form of a field's."""
    return _as_tensor(tuple(share), like.device, torch.zeros((), dtype=like.dtype).real.dtype, like.ndim - 2)


@constant
def _as_tensor(share: Values, device: torch.device, dtype: torch.dtype, d: int) -> Tensor:
    return torch.tensor(share, device=device, dtype=dtype).view(-1, *([1] * d))


# --- in words --------------------------------------------------------------------------------------------------------


@dataclass
class TransferReport:
    """What :func:`quadnorm.transfer` does on each grid that it has been used on, and why; ``print`` it."""

    title: str
    notes: list[str] = field(default_factory=list)
    grids: dict[Shape, OnGrid] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [self.title, *(f"note: {n}" for n in self.notes)]
        for shape, on_grid in self.grids.items():
            lines += _grid_lines(shape, on_grid)
        if not self.grids:
            lines.append("no other grid has been used yet: estimates are made with the first input on a grid")
        return "\n".join(lines)

    def saved(self) -> dict[str, Any]:
        """In the words of JSON."""
        return {"notes": self.notes, "grids": [[list(shape), asdict(each)] for shape, each in self.grids.items()]}


def _grid_lines(shape: Shape, on_grid: OnGrid) -> list[str]:
    runs = ["the run at the training grid"]
    runs += ["the network evaluated at the new nodes"] * on_grid.evaluates
    runs += ["two anchored runs"] * on_grid.anchors
    lines = [f"on {size_text(shape)} (estimated with {on_grid.samples} inputs): {', '.join(runs)}"]
    for k, s in enumerate(on_grid.shares):
        lines += [f"  output {k + 1}: {text}" if len(on_grid.shares) > 1 else f"  {text}" for text in _words(s)]
    return lines + [f"  {note}" for note in on_grid.notes]


def _words(s: FieldShares) -> Iterator[str]:
    """One sentence for each part of the sum."""
    facts: dict[str, Any] = s.facts
    if any(share > 0 for share in (*s.smoothing[0], *s.smoothing[1])):
        yield f"finest scale of the native output: {_range(s.smoothing[0])} of it taken out as noise"
    if "predicted" in facts:
        sizes = f"the network's detail is {_root(facts['predicted'])} of the output"
        if "moved" in facts:
            sizes += f" (of which {_root(facts['moved'])} come from where the training grid lies)"
        used = f"{_range(s.gain)} of it is used" if s.evaluates else "it is left out, as too little would change"
        trust = f"one level down {_range(facts['trust'])} of it is right"
        yield f"between the training nodes: {sizes}, {_root(facts['expected'])} is to be expected, and {trust}: {used}"
    if "beyond" in facts:
        missed = f"extrapolation misses {_root(facts['missed'])} of the output, the network differs from it by "
        yield f"outside the training nodes: {missed}{_root(facts['beyond'])}: {_range(s.outside)} of that is used"
    if "effect" in facts:
        done = f"the input's detail (energy {facts['input_detail']:.2g} of its variance) changes the output by "
        done += f"{_root(facts['effect'])}, anchoring alone by {_root(facts['drift'])}"
        used = f"{s.news[0]:.2f} of the change is used, {s.news[1]:.2f} of its finest scale"
        yield f"news: {done}: " + (used if s.anchors else "left out, as too little or too uncertain")


def _range(values: Values) -> str:
    low, high = min(values), max(values)
    return f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"


def _root(energies: Values) -> str:
    roots = (100 * e**0.5 for e in (min(energies), max(energies)))
    low, high = (f"{r:.2g}" if r < 99.5 else f"{r:.0f}" for r in roots)
    return f"{low} %" if low == high else f"{low} to {high} %"
