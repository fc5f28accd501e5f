"""How much of a network's own detail to trust on another grid, estimated from pairs at the training grid.

On a new grid there are three things to add to the run at the training grid: less of its own finest scale, where that is
noise; the network's detail between and beyond the training nodes; and what the new input's detail does at the training
nodes. Each is weighed by a share. :func:`learn` finds out what can be known from the training grid's pairs, some
numbers per channel; :func:`shares_of` adds what inputs on the new grid show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from quadnorm.adapt.levels import (
    WORTH,
    blend_law,
    detail_levels,
    energy,
    finest_scales,
    followed,
    left_out_energy,
    open_ends,
    outside_nodes,
    over_half,
    own_scale,
    product,
    smooth_law,
    smoothing_shares,
    variance_of,
)
from quadnorm.adapt.shares import FieldShares, noise_correction
from quadnorm.carry.grids import carry
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import PLACEMENTS

NO_DATA_ERROR = 1e-2  # relative error that is presumed of a model without targets: decides what is worth a run
NEWS_NOISE = 0.02  # energy of the noise in what the input's detail does, over that of the model's error
NEWS_DRIFT = 0.25  # energy of that noise, over what else differs between the anchored model and the native run
NEWS_WITHOUT_DATA = 0.5  # the share where no error is known
NEWS_DRIFT_FINEST = 3.0  # the same at the finest scale of the training grid
NEWS = 1e-4  # energy of the input's detail over its variance from which on there is news
NOISE = 4.0  # energy of the noise between the training nodes over that one level down, at nodes that were trained on
PLAUSIBLE = 4.0  # what has more than so many times the expected energy is not believed of the best network
OUTSIDE = 2.0  # energy that extrapolation misses, over the smooth law's value


@dataclass(frozen=True)
class Pairs:
    """Input fields, native outputs and targets at the training grid; without targets, ``targets`` is empty."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    targets: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class FieldFacts:
    """What pairs tell of one output field, float64, one value per channel.

    ``smoothing`` (2, C): shares of its two finest scales that are noise. ``error``: its energy. ``first``, ``second``:
    energies of the targets' detail over half the grid, and over a quarter. ``follows``: how much of it is the inputs'
    detail times a factor, sample by sample. ``seen``: how much of the output's own such
    detail is right, ``noise``: energy of what is wrong in it. ``left_out`` (d, 2, C): energy of the error of
    extrapolating the output by a spacing to its first and last nodes.
    """

    smoothing: Tensor
    error: Tensor
    first: Tensor
    second: Tensor
    follows: Tensor
    seen: Tensor
    noise: Tensor
    left_out: Tensor


@dataclass(frozen=True)
class Learned:
    """What pairs at the training grid tell: of each output field, and of the inputs.

    ``levels``: energies of all inputs' detail over half the grid, and over a quarter. ``per_variance``: 1/variance of
    each channel of each input, 0 where it is constant. ``known``: whether there were targets.
    """

    fields: tuple[FieldFacts, ...]
    levels: tuple[float, float]
    per_variance: tuple[Tensor, ...]
    known: bool

    def saved(self) -> dict[str, Any]:
        """In the words of JSON."""
        fields = [{k: v.tolist() for k, v in asdict(f).items()} for f in self.fields]
        per_variance = [t.tolist() for t in self.per_variance]
        return {"fields": fields, "levels": self.levels, "per_variance": per_variance, "known": self.known}

    @classmethod
    def of(cls, saved: dict[str, Any]) -> Learned:
        """From what :meth:`saved` gave."""
        fields = tuple(FieldFacts(**{k: _numbers(v) for k, v in f.items()}) for f in saved["fields"])
        return cls(fields, tuple(saved["levels"]), tuple(map(_numbers, saved["per_variance"])), saved["known"])


def _numbers(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device="cpu")


def learn(pairs: Pairs, placements: Sequence[str]) -> Learned:
    """What the pairs tell. Without targets the outputs stand in for them, with a presumed error."""
    known = bool(pairs.targets)
    fields = tuple(
        _field_facts(u, v, pairs.inputs, placements, known)
        for u, v in zip(pairs.targets or pairs.outputs, pairs.outputs, strict=True)
    )
    per_variance = tuple(1 / variance_of(x).cpu() for x in pairs.inputs)
    first = second = 0.0
    for x, inverse in zip(pairs.inputs, per_variance, strict=True):
        a, b = detail_levels(x.double(), placements, (1 / inverse).to(x.device).expand(len(x), -1))
        first, second = first + float(a.sum()), second + float(b.sum())
    return Learned(fields, (first, second), per_variance, known)


def _field_facts(u: Tensor, v: Tensor, inputs: Sequence[Tensor], placements: Sequence[str], known: bool) -> FieldFacts:
    """Of an output field v, of which u is the target, or v itself if that is not ``known``."""
    scale, channels = own_scale(u), v.shape[1]
    first, second = (e.cpu() for e in detail_levels(u, placements, scale))
    smoothing = torch.zeros(2, channels, dtype=torch.float64)
    error = torch.full((channels,), NO_DATA_ERROR**2, dtype=torch.float64)
    if known:
        # Fields whose detail falls slowly have peaks between the nodes, which smoothing would lower.
        smoothness = 1 - (first / second.clamp_min(1e-300)).clamp(max=1.0).sqrt()
        smoothing = smoothing_shares(u, v, placements) * smoothness
        error = energy(u - v, scale).cpu()
    own, true = over_half(v, placements)[0], over_half(u, placements)[0]
    seen = (product(own, true, scale) / energy(own, scale).clamp_min(1e-300)).clamp(0.0, 1.0)
    noise = energy(over_half(v - u, placements)[0], scale)
    less, d = v + noise_correction(v, smoothing.tolist(), placements), len(placements)
    left_out = torch.zeros(d, 2, channels, dtype=torch.float64)
    for axis, end in ((axis, end) for axis in range(d) for end in (0, 1)):
        if not PLACEMENTS[placements[axis]].wraps and v.shape[axis + 2] > 1:
            left_out[axis, end] = left_out_energy(less, axis + 2, end, scale).cpu()
    follows = torch.zeros(channels, dtype=torch.float64)
    for x in (x for x in inputs if len(x) == len(u)):
        follows = torch.maximum(follows, followed(u, x, placements).cpu())
    return FieldFacts(smoothing, error, first, second, follows, seen.cpu(), noise.cpu(), left_out)


@dataclass(frozen=True)
class NewGrid:
    """What is known on the new grid: the energy of the input's detail (over its variance, all channels), and for each
    output field the native run, the same carried over, the network's own output (or None), what the input's detail does
    at the training nodes, and the anchored output there without it (or None)."""

    shape: Shape
    input_detail: float
    native: tuple[Tensor, ...]
    carried: tuple[Tensor, ...]
    evaluated: tuple[Tensor, ...] | None
    effects: tuple[Tensor, ...] | None
    without: tuple[Tensor, ...] | None
    moved: tuple[Tensor, ...] | None = None


def shares_of(learned: Learned, k: int, new: NewGrid, placements: Sequence[str]) -> FieldShares:
    """The shares of output field k on a new grid."""
    f = learned.fields[k]
    gain = outside = torch.zeros_like(f.error)
    facts: dict[str, Any] = {"error": f.error, "input_detail": new.input_detail}
    if new.evaluated is not None:
        native, here = tuple(new.native[k].shape[2:]), own_scale(new.carried[k])
        mask, ends = outside_nodes(native, new.shape, placements), open_ends(native, new.shape, placements)
        predicted = energy(new.evaluated[k] - new.carried[k], here, ~mask).cpu()
        expected, trust = _expected_detail(f, learned.levels, new.input_detail)
        gain = _ratio(expected, predicted).clamp(max=1.0) * trust
        if learned.known:
            clean = 1 - NOISE * _ratio(f.noise, predicted)
            gain = torch.maximum(gain, clean * (PLAUSIBLE * _ratio(expected, predicted)).clamp(max=1.0))
        facts |= {"predicted": predicted, "expected": expected, "trust": trust}
        if new.moved is not None:
            # Shifted runs answer to shifted walls and other places of strides: that part of their detail is no signal.
            moved = blend_law(native, new.shape, placements) * energy(new.moved[k], own_scale(new.native[k])).cpu()
            gain = torch.minimum(gain, (1 - _ratio(moved, predicted)).clamp(min=0.0))
            facts["moved"] = moved
        worth = gain**2 * predicted * float((~mask).double().mean())
        if ends:
            left_out = torch.stack([f.left_out[axis - 2, end] for axis, end in ends]).mean(0)
            missed = OUTSIDE * smooth_law(native, new.shape, placements) * left_out
            beyond = energy(_detail_outside(new, k, f.smoothing, placements), here, mask).cpu()
            outside = _ratio(missed, beyond).clamp(max=1.0)
            facts |= {"missed": missed, "beyond": beyond}
            worth = worth + outside**2 * beyond * float(mask.double().mean())
        if float(_ratio(worth, f.error).max()) < WORTH:
            gain = outside = torch.zeros_like(f.error)
    news = (0.0, 0.0)
    if new.effects is not None and new.without is not None:
        here = own_scale(new.carried[k])
        facts["effect"] = effect = energy(new.effects[k], here).cpu()
        facts["drift"] = drift = energy(new.without[k] - new.native[k], here).cpu()
        share = _news_share(float(effect.sum()), float(drift.sum()), float(f.error.sum()), learned.known)
        if share**2 * float(_ratio(effect.sum(), f.error.sum())) >= WORTH:
            fine = [finest_scales(t, placements)[0] for t in (new.effects[k], new.without[k] - new.native[k])]
            fine_effect, fine_drift = (float(energy(t, here).sum()) for t in fine)
            news = (share, share * _clean(fine_effect, fine_drift, NEWS_DRIFT_FINEST))
    smoothing = tuple(f.smoothing[0].tolist()), tuple(f.smoothing[1].tolist())
    plain = {name: tuple(v.tolist()) if isinstance(v, Tensor) else v for name, v in facts.items()}
    return FieldShares(smoothing, tuple(gain.tolist()), tuple(outside.tolist()), news, plain)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    return a / b.clamp_min(1e-300)


def _news_share(effect: float, drift: float, error: float, known: bool) -> float:
    """The share of what the input's detail does, of energy ``effect``, that is used; ``error``: the model's own.

    The detail is what the training grid's input lacks, so that it explains part of the error there: what of the effect
    is larger than that is noise, and an effect of several times the error is a network's answer to inputs such as it
    has not seen. Small ones drown in noise: a part of the error's, and of the ``drift`` by which the anchored model
    differs from the native run on an input without news. It is large where anchoring does not reach what depends on the
    grid, as in kernels of several samples; a model that drifts by its own error is no longer the one that was trained.

    >>> [round(_news_share(effect, 0.0, 0.01, True), 2) for effect in (0.0004, 0.002, 0.01, 0.02, 0.05)]
    [0.5, 0.9, 0.98, 0.62, 0.0]
    >>> [round(_news_share(0.002, drift, 0.01, True), 2) for drift in (0.0002, 0.001, 0.01)]
    [0.86, 0.71, 0.0]
    """
    clean = _clean(effect, drift, NEWS_DRIFT)
    if not known:
        return NEWS_WITHOUT_DATA * clean
    if effect > PLAUSIBLE * error:
        return 0.0
    clean *= _clean(effect, error, NEWS_NOISE) * _clean(error, drift, 1.0)
    return clean * min(1.0, 1.25 * error / max(effect, 1e-300))


def _clean(effect: float, noise: float, share: float) -> float:
    """How much of an effect is left where a share of the ``noise`` is in it, by energies; from 0 to 1."""
    return max(0.0, 1 - share * noise / max(effect, 1e-300))


def _expected_detail(f: FieldFacts, levels: tuple[float, float], input_detail: float) -> tuple[Tensor, Tensor]:
    """Energy of the true detail that is to be expected on a finer grid, and how far the network's may be trusted, (C,).

    Targets lose detail from level to level at some rate, and the part of it that follows the input's keeps some ratio
    to that: the larger of the two expectations counts. One level down, the network's detail at the training nodes is
    compared with the targets' by least squares; the result counts, but for what follows detail that the training inputs
    do not have.
    """
    x_first, x_second = levels
    by_decay = f.first * _ratio(f.first, f.second).clamp(max=1.0)
    by_input = torch.zeros_like(by_decay)
    if x_first > 1e-14 and input_detail > 1e-14:
        ratio, before = f.first / x_first, f.second / max(x_second, 1e-300)
        by_input = ratio * _ratio(ratio, before).clamp(max=1.0) * input_detail * f.follows
    unseen = max(0.0, 1.0 - x_first / max(input_detail, 1e-300)) * f.follows
    trust = torch.where(by_input > by_decay, f.seen + (1 - f.seen) * unseen, f.seen)
    return torch.maximum(by_decay, by_input), trust


def _detail_outside(new: NewGrid, k: int, smoothing: Tensor, placements: Sequence[str]) -> Tensor:
    """How far the network's output differs from the extrapolated one, both without noise."""
    assert new.evaluated is not None
    correction = noise_correction(new.native[k], smoothing.tolist(), placements)
    moved = carry(correction, new.shape, placements, "nearest") - carry(correction, new.shape, placements, "cubic")
    return new.evaluated[k] - new.carried[k] + moved


def input_detail(learned: Learned, inputs: Sequence[Tensor], smooth: Sequence[Tensor], inside: Tensor) -> float:
    """Energy of what the training grid does not hold of the ``inputs``, at the nodes ``inside``, over their variance.

    ``smooth``: the inputs, restricted to the training grid and carried back. All channels together.
    """
    total, usual = 0.0, learned.per_variance
    for k, (x, y) in enumerate(zip(inputs, smooth, strict=True)):
        is_known = k < len(usual) and len(usual[k]) == x.shape[1]
        variance = 1 / usual[k].to(x.device) if is_known else variance_of(x)
        total += float(energy(x - y, variance.expand(len(x), -1), inside).sum())
    return total
