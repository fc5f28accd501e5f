"""How much of a network's own detail to trust on another grid, estimated from pairs at the training grid.

On a new grid there are three things to add to the native run carried over: less of its own finest scale, where that is
noise; the network's detail between and beyond the training nodes; and what the new input's detail does at the training
nodes. Each is weighed by a share that the functions here estimate. Nothing but the training grid's pairs and the new
grid's inputs is used.

Energies are means of squares relative to the output's own, sample by sample, so that large samples do not outvote small
ones. Fields are (B, C, *spatial); results have one value per channel, (C,).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from quadnorm.carry.grids import carry
from quadnorm.carry.lines import spline
from quadnorm.measures.base import Shape
from quadnorm.measures.placement import PLACEMENTS

FLOOR = 1e-3  # of the mean energy: smaller samples are weighed as if they had it
WORTH = 3e-3  # a part that would change the error's energy by a smaller share is left out
NO_DATA_ERROR = 1e-2  # relative error that is presumed of a model without targets: decides what is worth a run
NEWS_NOISE = 0.045  # energy of the noise in what the input's detail does, over that of the model's error
NEWS_LARGEST = 1.5  # times the energy of the model's error: a larger effect is no news but a network out of its depth
NEWS_WITHOUT_DATA = 0.5  # the share where no error is known
NEWS_FINEST = 0.25  # how much less of it is used at the finest scale of the training grid
NEWS = 1e-4  # energy of the input's detail over its variance from which on there is news
NOISE = 4.0  # energy of the noise between the training nodes over that one level down, at nodes that were trained on
PLAUSIBLE = 4.0  # detail with more than so many times the expected energy is not believed of the best network
OUTSIDE = 2.0  # energy that extrapolation misses, over the smooth law's value


@dataclass(frozen=True)
class Pairs:
    """Input fields, targets and native outputs at the training grid; without targets, ``targets`` is empty."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    targets: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class FieldShares:
    """What is done with one output field on one grid, one value per channel.

    ``smoothing`` (2, C): shares of the two finest scales that are taken out of the native output. ``gain``: of the
    network's detail inside the training nodes. ``outside``: of the detail outside. ``news``: of what the input's detail
    does, (2,): coarse and finest scale.
    """

    smoothing: Tensor
    gain: Tensor
    outside: Tensor
    news: Tensor
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def evaluates(self) -> bool:
        """Whether the network's detail is needed."""
        return bool((self.gain > 0).any() or (self.outside > 0).any())

    @property
    def anchors(self) -> bool:
        """Whether the anchored runs are needed."""
        return bool((self.news > 0).any())


def energy(f: Tensor, scale: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean over samples of the mean square of f over the nodes (in ``mask``), over the sample's ``scale`` (B, C)."""
    return product(f, f, scale, mask)


def product(a: Tensor, b: Tensor, scale: Tensor, mask: Tensor | None = None) -> Tensor:
    """As :func:`energy`, of the product of two fields."""
    p = (a.conj() * b).real.double().flatten(2)
    if mask is not None:
        p = p[..., mask.flatten().to(p.device)]
    if not p.shape[-1]:
        return torch.zeros(p.shape[1], dtype=torch.float64, device=p.device)
    return (p.mean(-1) / scale).mean(0)


def own_scale(f: Tensor) -> Tensor:
    """Each sample's mean square, (B, C), never less than a small share of the mean over all samples."""
    e = f.abs().double().square().flatten(2).mean(-1)
    return torch.maximum(e, FLOOR * e.mean(0)).clamp_min(1e-280)


def over_half(f: Tensor, placements: Sequence[str]) -> tuple[Tensor, Tensor]:
    """A field's detail over every second of its samples (what interpolation between these misses), and these samples.

    Axes that are not periodic lose a last sample that has none on its right.
    """
    names, index = [], []
    for n, p in zip(f.shape[2:], placements, strict=True):
        wraps = p == "periodic" and n % 2 == 0
        names.append("periodic" if wraps else "endpoint")
        index.append(slice(None, None if wraps or n % 2 else n - 1))
    f = f[(slice(None), slice(None), *index)]
    half = f[(slice(None), slice(None), *(slice(None, None, 2) for _ in names))]
    return f - carry(half, tuple(f.shape[2:]), names, "cubic"), half


def detail_levels(f: Tensor, placements: Sequence[str], scale: Tensor) -> tuple[Tensor, Tensor]:
    """Energy of the detail of a grid over its half, and of the half over the quarter, (C,) each."""
    first, half = over_half(f, placements)
    second, _ = over_half(half, placements)
    return energy(first, scale), energy(second, scale)


def beyond(n0: int, n: int, placement: str) -> Tensor:
    """How far each node lies outside the training nodes of an axis, in training spacings; negative at the left end.

    >>> beyond(4, 8, "cell").tolist()
    [-0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25]
    """
    if placement == "periodic":
        return torch.zeros(n, dtype=torch.float64)
    old, new = PLACEMENTS[placement].nodes(n0), PLACEMENTS[placement].nodes(n)
    steps = ((new - old[-1]).clamp_min(0) + (new - old[0]).clamp_max(0)) / PLACEMENTS[placement].spacing(max(n0, 2))
    return torch.where(steps.abs() < 1e-9, 0.0, steps)


def outside_nodes(native: Shape, shape: Shape, placements: Sequence[str]) -> Tensor:
    """Which nodes of a grid lie outside the training nodes along some axis, a mask (*shape)."""
    mask = torch.zeros(shape, dtype=torch.bool)
    for steps in _per_axis(native, shape, placements):
        mask = mask | (steps != 0)
    return mask


def _per_axis(native: Shape, shape: Shape, placements: Sequence[str]) -> list[Tensor]:
    """:func:`beyond` of every axis, along that axis of a grid."""
    steps = [beyond(*axis) for axis in zip(native, shape, placements, strict=True)]
    return [s.view([-1 if k == axis else 1 for k in range(len(shape))]) for axis, s in enumerate(steps)]


def finest_scales(v: Tensor, placements: Sequence[str]) -> tuple[Tensor, Tensor]:
    """What two rounds of smoothing, with spacing 1 and 2, change in a field: minus its two finest scales."""
    once = _smoothed(v, placements, 1)
    return once - v, _smoothed(once, placements, 2) - once


def _smoothed(v: Tensor, placements: Sequence[str], step: int) -> Tensor:
    """The field under (1/4, 1/2, 1/4) along every axis, for neighbours that are ``step`` samples apart.

    Beyond its ends a field is continued by odd reflection, so that straight lines stay what they are.
    """
    for axis, p in enumerate(placements, start=2):
        o = v.movedim(axis, -1)
        n = o.shape[-1]
        if p == "periodic":
            o = (o.roll(step, -1) + 2 * o + o.roll(-step, -1)) / 4
        elif n > 2 * step:
            left = 2 * o[..., :1] - o[..., 1 : step + 1].flip(-1)
            right = 2 * o[..., -1:] - o[..., n - step - 1 : n - 1].flip(-1)
            e = torch.cat([left, o, right], -1)
            o = (e[..., :n] + 2 * o + e[..., 2 * step :]) / 4
        v = o.movedim(-1, axis)
    return v


def smoothing_shares(u: Tensor, v: Tensor, placements: Sequence[str]) -> Tensor:
    """How much of its two finest scales a network's output is better without, (2, C): least squares, not negative.

    A share counts only if the shares of either half of the samples make the error of the other half smaller.
    """
    scale, error = own_scale(u), u - v
    scales = finest_scales(v, placements)
    halves = [slice(None, None, 2), slice(1, None, 2)] if len(u) > 1 else [slice(None)]
    sums = []
    for part in halves:
        gram = torch.stack([torch.stack([product(a[part], b[part], scale[part]) for b in scales]) for a in scales])
        right = torch.stack([product(a[part], error[part], scale[part]) for a in scales])
        sums.append((gram.cpu(), right.cpu(), energy(error[part], scale[part]).cpu()))
    shares = torch.zeros(2, u.shape[1], dtype=torch.float64)
    for c in range(u.shape[1]):
        each = [(g[..., c], r[..., c], float(e[c])) for g, r, e in sums]
        for kept in ([0], [0, 1]):
            if all(
                _change(g, r, _least_squares(*each[k - 1][:2], kept)) < -WORTH * e for k, (g, r, e) in enumerate(each)
            ):
                gram = torch.stack([g for g, _, _ in each]).sum(0)
                right = torch.stack([r for _, r, _ in each]).sum(0)
                one, both = _least_squares(gram, right, [0]), _least_squares(gram, right, kept)
                worth = WORTH * sum(e for *_, e in each)
                better = _change(gram, right, both) < _change(gram, right, one) - worth
                shares[:, c] = both if kept == [0] or better else shares[:, c]
    return shares


def _least_squares(gram: Tensor, right: Tensor, kept: list[int]) -> Tensor:
    """The shares (2,) that make the error smallest, of the ``kept`` scales, between 0 and 1.2."""
    shares = torch.zeros(2, dtype=torch.float64)
    g = gram[kept][:, kept]
    if float(g.diagonal().min()) > 1e-14:
        solution = torch.linalg.solve(g + 1e-6 * torch.diag(g.diagonal()), right[kept])
        shares[kept] = solution.clamp(0.0, 1.2)
    return shares


def _change(gram: Tensor, right: Tensor, shares: Tensor) -> float:
    """By how much shares change the error's energy."""
    return float(shares @ gram @ shares - 2 * (shares @ right))


def left_out_energy(v: Tensor, ends: Sequence[tuple[int, int]], scale: Tensor) -> Tensor:
    """Energy of the error of extrapolating a field by one spacing to its own outermost samples, (C,)."""
    total = torch.zeros(v.shape[1], dtype=torch.float64, device=v.device)
    for axis, end in ends:
        g = v.movedim(axis, -1) if end else v.movedim(axis, -1).flip(-1)
        m = g.shape[-1] - 1
        row = spline(torch.tensor([m - 1]), torch.tensor([1.0], dtype=torch.float64), m)[0].to(g.device)
        predicted = (g[..., :-1] * row).sum(-1)
        total += energy((predicted - g[..., -1]).unsqueeze(-1), scale) / len(ends)
    return total


def open_ends(native: Shape, shape: Shape, placements: Sequence[str]) -> list[tuple[int, int]]:
    """The ends (axis of the field, 0 or 1) at which nodes of the grid lie outside the training nodes."""
    ends = []
    for axis, each in enumerate(zip(native, shape, placements, strict=True)):
        steps = beyond(*each)
        ends += [(axis + 2, 0)] * bool((steps < 0).any()) + [(axis + 2, 1)] * bool((steps > 0).any())
    return ends


def smooth_law(native: Shape, shape: Shape, placements: Sequence[str]) -> float:
    """Mean over the outside nodes of the energy that extrapolation misses, over that one spacing outside.

    A cubic that is extrapolated by θ spacings misses θ(1+θ)(2+θ)(3+θ)/24 of the fourth difference.
    """
    law = torch.zeros(shape, dtype=torch.float64)
    for steps in _per_axis(native, shape, placements):
        t = steps.abs()
        law = law + (t * (1 + t) * (2 + t) * (3 + t) / 24) ** 2
    return float(law[outside_nodes(native, shape, placements)].mean())


def input_levels(inputs: Sequence[Tensor], placements: Sequence[str]) -> tuple[float, float]:
    """Energy of the detail of all input channels over their half, and of the half over the quarter; each channel
    relative to its variance over all samples."""
    first = second = 0.0
    for x in inputs:
        scale = variance_of(x).expand(len(x), -1)
        a, b = detail_levels(x.double(), placements, scale)
        first, second = first + float(a.sum()), second + float(b.sum())
    return first, second


def variance_of(x: Tensor) -> Tensor:
    """The variance of each channel over samples and nodes, (C,); infinite for constant channels, which have no part."""
    f = x.abs().double() if x.is_complex() else x.double()
    f = f.transpose(0, 1).flatten(1)
    var = f.var(1, correction=0)
    return torch.where(var > 1e-12 * f.square().mean(1).clamp_min(1e-300), var, torch.inf)


@dataclass(frozen=True)
class NewGrid:
    """What is known on the new grid: the energy of the input's detail (over its variance, all channels), and for each
    output field the native run, the same carried over, the network's own output (or None), and what the input's detail
    does at the training nodes (or None)."""

    shape: Shape
    input_detail: float
    native: tuple[Tensor, ...]
    carried: tuple[Tensor, ...]
    evaluated: tuple[Tensor, ...] | None
    effects: tuple[Tensor, ...] | None


def shares_of(pairs: Pairs, k: int, new: NewGrid, native: Shape, placements: Sequence[str]) -> FieldShares:
    """The shares of output field k on a new grid."""
    v = pairs.outputs[k]
    u = pairs.targets[k] if pairs.targets else v
    scale, channels = own_scale(u), v.shape[1]
    none = torch.zeros(channels, dtype=torch.float64)
    smoothing = torch.zeros(2, channels, dtype=torch.float64)
    if pairs.targets:
        smoothing = smoothing_shares(u, v, placements) * _smoothness(u, placements, scale).cpu()
    error = energy(u - v, scale) if pairs.targets else none + NO_DATA_ERROR**2
    facts: dict[str, Any] = {"error": error, "input_detail": new.input_detail}
    gain, outside = none, none
    if new.evaluated is not None:
        detail = new.evaluated[k] - new.carried[k]
        here, mask = own_scale(new.carried[k]), outside_nodes(native, new.shape, placements)
        predicted = energy(detail, here, ~mask)
        expected, trust = _expected_detail(pairs, u, v, new.input_detail, placements, scale)
        gain = (expected / predicted.clamp_min(1e-300)).clamp(max=1.0) * trust
        clean = 1 - NOISE * _noise_of_detail(u, v, placements, scale) / predicted.clamp_min(1e-300)
        plausible = (PLAUSIBLE * expected / predicted.clamp_min(1e-300)).clamp(max=1.0)
        gain = torch.maximum(gain, clean * plausible) if pairs.targets else gain
        facts |= {"predicted": predicted, "expected": expected, "trust": trust}
        ends = open_ends(native, new.shape, placements)
        if ends:
            less = v + _noise_correction(v, smoothing, placements)
            missed = OUTSIDE * smooth_law(native, new.shape, placements) * left_out_energy(less, ends, scale)
            beyond_nodes = energy(_detail_outside(new, k, smoothing, placements), here, mask)
            outside = (missed / beyond_nodes.clamp_min(1e-300)).clamp(max=1.0)
            facts |= {"missed": missed, "beyond": beyond_nodes}
        share = float(mask.double().mean())
        worth = gain**2 * predicted * (1 - share) + (outside**2 * beyond_nodes * share if ends else 0)
        if float((worth / error.clamp_min(1e-300)).max()) < WORTH:
            gain, outside = none, none
    news = torch.zeros(2, dtype=torch.float64)
    if new.effects is not None:
        effect = energy(new.effects[k], own_scale(new.carried[k]))
        facts["effect"] = effect
        share = _news_share(float(effect.sum()), float(error.sum()), bool(pairs.targets))
        if share**2 * float(effect.sum() / error.sum().clamp_min(1e-300)) >= WORTH:
            news = torch.tensor([share, NEWS_FINEST * share], dtype=torch.float64)
    return FieldShares(smoothing, gain.cpu(), outside.cpu(), news, facts)


def _news_share(effect: float, error: float, known: bool) -> float:
    """The share of what the input's detail does, of energy ``effect``, that is used; ``error``: the model's own.

    The detail is what the training grid's input lacks, so that it explains part of the error there: an effect that is
    larger than the error is a network's answer to inputs such as it has not seen. Small ones drown in noise.

    >>> [round(_news_share(effect, 0.01, True), 2) for effect in (0.0004, 0.002, 0.01, 0.014, 0.02)]
    [0.0, 0.78, 0.95, 0.86, 0.0]
    """
    if not known:
        return NEWS_WITHOUT_DATA
    if effect > NEWS_LARGEST * error:
        return 0.0
    return max(0.0, 1 - NEWS_NOISE * error / max(effect, 1e-300)) * min(1.0, 1.25 * error / max(effect, 1e-300))


def _smoothness(u: Tensor, placements: Sequence[str], scale: Tensor) -> Tensor:
    """How much of what is right at the training nodes for their finest scale is right between them too, (C,).

    Fields whose detail falls slowly from level to level have peaks between the nodes, which smoothing would lower.
    """
    first, second = detail_levels(u, placements, scale)
    return 1 - (first / second.clamp_min(1e-300)).clamp(max=1.0).sqrt()


def _expected_detail(
    pairs: Pairs, u: Tensor, v: Tensor, input_detail: float, placements: Sequence[str], scale: Tensor
) -> tuple[Tensor, Tensor]:
    """Energy of the true detail that is to be expected on a finer grid, and how far the network's may be trusted, (C,).

    Targets lose detail from level to level at some rate, and their detail keeps some ratio to the input's: the larger
    of the two expectations counts. One level down, the network's detail at the training nodes is compared with the
    targets' by least squares; the result counts as far as the new input's detail is like that of the training inputs.
    """
    first, second = detail_levels(u, placements, scale)
    decay = (first / second.clamp_min(1e-300)).clamp(max=1.0)
    by_decay = first * decay
    x_first, x_second = input_levels(pairs.inputs, placements)
    ratio = first / max(x_first, 1e-300)
    before = second / max(x_second, 1e-300)
    by_input = ratio * (ratio / before.clamp_min(1e-300)).clamp(max=1.0) * input_detail
    if x_first <= 1e-14 or input_detail <= 1e-14:
        by_input = torch.zeros_like(by_decay)
    own, true = over_half(v, placements)[0], over_half(u, placements)[0]
    seen = (product(own, true, scale) / energy(own, scale).clamp_min(1e-300)).clamp(0.0, 1.0)
    unseen = max(0.0, 1.0 - x_first / max(input_detail, 1e-300))
    trust = torch.where(by_input > by_decay, seen + (1 - seen) * unseen, seen)
    return torch.maximum(by_decay, by_input), trust


def _noise_of_detail(u: Tensor, v: Tensor, placements: Sequence[str], scale: Tensor) -> Tensor:
    """Energy of what is wrong in the network's detail one level down, (C,)."""
    return energy(over_half(v - u, placements)[0], scale)


def _noise_correction(v: Tensor, smoothing: Tensor, placements: Sequence[str]) -> Tensor:
    """What takes a network's noise out of its native output, (B, C, *native)."""
    first, second = finest_scales(v, placements)
    return _weight(smoothing[0], v) * first + _weight(smoothing[1], v) * second


def _weight(share: Tensor, like: Tensor) -> Tensor:
    """A share (C,) in the form of a field's."""
    return share.to(device=like.device, dtype=like.real.dtype).view(-1, *([1] * (like.ndim - 2)))


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
    shape = tuple(carried.shape[2:])
    correction: Tensor | None = None
    if bool((shares.smoothing > 0).any()):
        correction = _noise_correction(native, shares.smoothing, placements)
    if effect is not None and shares.anchors:
        fine, _ = finest_scales(effect, placements)
        part = float(shares.news[0]) * (effect + fine) - float(shares.news[1]) * fine
        correction = part if correction is None else correction + part
    y = carried if correction is None else carried + carry(correction, shape, placements, "cubic")
    if evaluated is None or not shares.evaluates:
        return y
    outside = outside_nodes(tuple(native.shape[2:]), shape, placements).to(native.device)
    change = _weight(shares.gain, native) * (evaluated - carried)
    if bool(outside.any()):
        if correction is not None:
            evaluated = evaluated + carry(correction, shape, placements, "nearest")
        change = torch.where(outside, _weight(shares.outside, native) * (evaluated - y), change)
    return y + change


def _detail_outside(new: NewGrid, k: int, smoothing: Tensor, placements: Sequence[str]) -> Tensor:
    """How far the network's output differs from the extrapolated one, both without noise."""
    assert new.evaluated is not None
    correction = _noise_correction(new.native[k], smoothing, placements)
    moved = carry(correction, new.shape, placements, "nearest") - carry(correction, new.shape, placements, "cubic")
    return new.evaluated[k] - new.carried[k] + moved
