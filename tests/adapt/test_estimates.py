"""Shares on another grid, against fields whose answer is known."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quadnorm.adapt.estimates import Learned, NewGrid, Pairs, learn, shares_of
from quadnorm.adapt.levels import (
    beyond,
    blend_law,
    detail_levels,
    finest_scales,
    followed,
    left_out_energy,
    next_samples,
    open_ends,
    outside_nodes,
    over_half,
    own_scale,
    smooth_law,
    smoothing_shares,
    variance_of,
)
from quadnorm.adapt.shares import combined
from quadnorm.carry import carry

SIZES = st.integers(8, 21)
PLACEMENT = st.sampled_from(["endpoint", "cell", "left", "interior"])


def nodes(n):
    return torch.linspace(0, 1, n, dtype=torch.float64)


def waves(n, count=20, highest=3, seed=0):
    """Smooth random fields at n endpoint-inclusive nodes, (B, 1, n)."""
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(count, highest, generator=g, dtype=torch.float64)
    k = torch.arange(1, highest + 1, dtype=torch.float64)
    return (a @ torch.sin(3 * k[:, None] * nodes(n) + k[:, None]))[:, None]


@given(SIZES, PLACEMENT)
def test_cubics_have_no_detail_and_lines_no_finest_scale(n, placement):
    """A spline that is not a knot at its ends reproduces cubics; (1/4, 1/2, 1/4) with odd reflection keeps lines."""
    j = torch.arange(n, dtype=torch.float64) / n
    cubic = (1 - 2 * j + 3 * j**2 - 4 * j**3).expand(2, 3, n)
    assert over_half(cubic, [placement])[0].abs().max() < 1e-12
    line = (2 - 5 * j).expand(1, 1, n)
    assert max(f.abs().max() for f in finest_scales(line, [placement])) < 1e-12


def test_detail_of_a_periodic_wave():
    """8 of 16 samples hold waves up to the third: a fifth wave is aliased to the third, sin 5θ − (−sin 3θ)."""
    t = 2 * torch.pi * torch.arange(16, dtype=torch.float64) / 16
    detail, half = over_half(torch.sin(5 * t).expand(1, 1, 16), ["periodic"])
    assert half.shape == (1, 1, 8)
    assert torch.allclose(detail[0, 0], torch.sin(5 * t) + torch.sin(3 * t), atol=1e-12)
    assert over_half(torch.sin(3 * t).expand(1, 1, 16), ["periodic"])[0].abs().max() < 1e-12


def test_detail_falls_with_the_fourth_power_of_the_spacing():
    """For smooth fields the energy of the detail falls by 2^8 from level to level, near the ends by a little more."""
    first, second = detail_levels(waves(129), ["endpoint"], own_scale(waves(129)))
    assert 2**8 < (second / first).item() < 2**10


@pytest.mark.parametrize(
    ("placement", "n0", "n", "expected"),
    [
        ("endpoint", 5, 9, {}),
        ("periodic", 4, 8, {}),
        ("left", 4, 8, {7: 0.5}),
        ("cell", 4, 8, {0: -0.25, 7: 0.25}),
        ("interior", 3, 7, {0: -0.5, 6: 0.5}),
        ("cell", 8, 4, {}),
    ],
)
def test_nodes_outside_the_training_nodes(placement, n0, n, expected):
    steps = beyond(n0, n, placement)
    assert {j: s for j, s in enumerate(steps.tolist()) if s} == pytest.approx(expected)
    wanted = [(2, 0)] * any(s < 0 for s in expected.values()) + [(2, 1)] * any(s > 0 for s in expected.values())
    assert open_ends((n0,), (n,), (placement,)) == wanted
    mask = outside_nodes((n0, n0), (n, n), (placement, "endpoint" if placement != "periodic" else placement))
    assert mask.any(1).nonzero().flatten().tolist() == sorted(expected)


def test_smooth_law_is_that_of_a_cubic():
    """x⁴ extrapolated by the cubic through 0, 1, 2, 3 misses 4!·θ(1+θ)(2+θ)(3+θ)/24 at 3 + θ."""
    theta = 0.5
    x = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    t = 3 + theta
    weights = torch.stack([torch.prod(torch.stack([(t - b) / (a - b) for b in x if b != a])) for a in x])
    missed = t**4 - (weights * x**4).sum()
    assert smooth_law((4,), (8,), ("left",)) == pytest.approx((missed.item() / 24) ** 2)


def test_left_out_samples_are_extrapolated():
    """Cubics are extrapolated exactly; a sample that is off by one is missed by one, over the field's own energy."""
    cubic = (nodes(9) ** 3).expand(2, 1, 9)
    assert all(left_out_energy(cubic, 2, end, own_scale(cubic)) < 1e-20 for end in (0, 1))
    off = cubic.clone()
    off[..., -1] += 1
    assert left_out_energy(off, 2, 1, torch.ones(2, 1, dtype=torch.float64)).item() == pytest.approx(1.0)


@given(st.floats(0.05, 0.5), st.integers(0, 5))
def test_noise_on_smooth_outputs_is_smoothed_away(size, seed):
    """Smooth targets want nearly all of the noise's finest scale gone, and the error falls."""
    u = waves(33, 40)
    noise = size * torch.randn(u.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    v = u + noise
    shares = smoothing_shares(u, v, ["endpoint"])
    first, second = finest_scales(v, ["endpoint"])
    better = v + shares[0] * first + shares[1] * second
    assert shares[0].item() > 0.5
    assert (better - u).norm() < 0.8 * (v - u).norm()


def test_right_detail_is_not_smoothed_away():
    """Rough targets whose outputs are off by a smooth error: the finest scale is right and stays."""
    u = torch.randn(200, 2, 24, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    v = u + 0.3 * waves(24, 200, highest=1)
    assert smoothing_shares(u, v, ["endpoint"]).abs().max() < 0.02


def shares_for(u0, v0, truth, evaluated, input_detail=0.0, x0=None, effects=None, drift=0.0, moved=None):
    """Shares from pairs at n0 and an evaluated field at n, endpoint nodes."""
    shape = tuple(truth.shape[2:])
    placements = ["endpoint"] * len(shape)
    learned = learn(Pairs((u0 if x0 is None else x0,), (v0,), (u0,)), placements)
    carried = carry(v0, shape)
    new = NewGrid(shape, input_detail, (v0,), (carried,), (evaluated,), effects, (v0 + drift,), moved)
    shares = shares_of(learned, 0, new, placements)
    assert shares_of(Learned.of(json.loads(json.dumps(learned.saved()))), 0, new, placements) == shares
    return shares, carried


def test_detail_that_is_too_large_to_be_true_is_refused():
    """Targets are smooth, so that there is nothing between the nodes; the network puts noise there."""
    u0, truth = waves(17), waves(33)
    noise = 0.1 * torch.randn(truth.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    shares, _ = shares_for(u0, u0 + 0.05 * waves(17, seed=3), truth, truth + noise)
    assert shares.gain[0] == 0
    assert not shares.evaluates


def test_detail_of_the_expected_size_that_is_right_one_level_down_is_used():
    """Kinks lose detail slowly; the network is right at the training nodes and between them."""
    g = torch.Generator().manual_seed(4)
    phase = 6 * torch.rand(30, 1, 1, generator=g, dtype=torch.float64)

    def kinks(n):
        return torch.sin(11 * nodes(n) + phase).abs()

    shares, carried = shares_for(kinks(33), kinks(33) + 1e-3 * waves(33, 30), kinks(129), kinks(129))
    assert shares.gain[0] > 0.9
    y = combined(shares, kinks(33), carried, kinks(129), None, ["endpoint"])
    assert (y - kinks(129)).norm() < 0.2 * (carried - kinks(129)).norm()


def test_gains_are_per_channel():
    """One channel as in each of the two tests above."""
    g = torch.Generator().manual_seed(5)
    phase = 6 * torch.rand(20, 1, 1, generator=g, dtype=torch.float64)

    def both(n):
        return torch.cat([torch.sin(11 * nodes(n) + phase).abs(), waves(n)], 1)

    evaluated = both(129)
    evaluated[:, 1] += 0.1 * torch.randn(20, 129, generator=g, dtype=torch.float64)
    shares, _ = shares_for(both(33), both(33) + 1e-2 * waves(33), both(129), evaluated)
    assert shares.gain[0] > 0.9
    assert shares.gain[1] < 0.01


def test_input_detail_that_was_never_seen_is_believed():
    """Smooth training inputs with y = x; the new input has a wave between the nodes, and the network shows it."""
    u0, truth = waves(17), waves(65) + 0.5 * torch.sin(32 * torch.pi * nodes(65))
    detail = truth - carry(truth[..., ::4], (65,))
    energy = (detail.square().mean() / variance_of(u0)).item()
    shares, _ = shares_for(u0, u0 + 1e-3 * waves(17, seed=6), truth, truth, energy)
    assert shares.gain[0] > 0.8


def test_unseen_detail_of_an_input_that_the_targets_never_followed_is_not_believed():
    """The detail of inputs and targets is of like size, and one has nothing to do with the other."""
    g = torch.Generator().manual_seed(3)
    x0, u0 = (waves(33, seed=k) + 0.003 * torch.randn(20, 1, 33, generator=g, dtype=torch.float64) for k in (0, 11))
    truth = waves(129, seed=11)
    evaluated = truth + 0.1 * torch.sin(64 * torch.pi * nodes(129))
    shares, _ = shares_for(u0, u0 + 1e-3 * waves(33, seed=6), truth, evaluated, 0.002, x0=x0)
    assert shares.gain[0] < 0.4


def test_detail_that_follows_an_input():
    """A factor per sample makes no difference, and the channel of the input that is followed most counts."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(30, 2, 65, generator=g, dtype=torch.float64)
    other = torch.randn(30, 1, 65, generator=g, dtype=torch.float64)
    factor = torch.randn(30, 1, 1, generator=g, dtype=torch.float64)
    assert followed(factor * x[:, 1:], x, ["endpoint"]).item() == pytest.approx(1.0)
    assert followed(other, x, ["endpoint"]).item() < 0.1
    assert followed(torch.cat([other, x[:, :1]], 1), x, ["periodic"]).tolist() == pytest.approx([0.05, 1.0], abs=0.05)


def test_detail_of_shifted_runs_is_weighed_by_what_a_shift_changes():
    """Kinks, which are used without it, in a model that a shift of its training grid changes by as much."""
    g = torch.Generator().manual_seed(4)
    phase = 6 * torch.rand(30, 1, 1, generator=g, dtype=torch.float64)
    u0, truth = (torch.sin(11 * nodes(n) + phase).abs() for n in (33, 129))
    v0 = u0 + 1e-3 * waves(33, 30)
    predicted = (truth - carry(v0, (129,))).square().mean() / v0.square().mean()
    size = (predicted / blend_law((33,), (129,), ("endpoint",))).sqrt()
    moved = size * v0.square().mean().sqrt() * torch.randn(v0.shape, generator=g, dtype=torch.float64)
    shares = [
        shares_for(u0, v0, truth, truth, moved=m)[0].gain[0] for m in (None, (0.0 * moved,), (moved / 2,), (moved,))
    ]
    assert shares[0] == shares[1] > 0.9
    assert shares[2] == pytest.approx(0.75, abs=0.05)
    assert shares[3] < 0.1


def test_blends_bend_by_the_law():
    """What is c·s² in the shift s: blends of θ and θ − 1 give cθ(1 − θ), of 1 and −1 all of c."""
    theta = torch.tensor([0.0, 0.25, 0.5, 0.75], dtype=torch.float64)
    blended = (1 - theta) * theta**2 + theta * (theta - 1) ** 2
    assert blend_law((8,), (32,), ("periodic",)) == pytest.approx(blended.square().mean().item())
    assert blend_law((9,), (9,), ("endpoint",)) == 0
    assert blend_law((8, 8), (16, 16), ("cell", "cell")) == pytest.approx((0.25 * 0.75) ** 2)


@pytest.mark.parametrize("step", [1, -1])
def test_next_samples(step):
    """Those of a straight line go on; those that wrap around, or are not to be reflected, do not."""
    x = torch.arange(5.0).expand(2, 5)
    assert torch.equal(next_samples(x, 1, step, wraps=False, odd=True), x + step)
    assert torch.equal(next_samples(x, 1, step, wraps=False, odd=False), (x + step).clamp(0, 4))
    assert torch.equal(next_samples(x, 1, step, wraps=True, odd=True), (x + step) % 5)


def test_constant_channels_have_no_variance_and_no_detail():
    x = torch.stack([torch.ones(4, 9), torch.arange(36.0).view(4, 9)], 1)
    var = variance_of(x)
    assert var[0] == torch.inf
    assert var[1] == pytest.approx(torch.arange(36.0).var(correction=0).item())


def test_an_effect_larger_than_the_error_is_believed_in_part():
    """What the input's detail does can explain the error at the training grid: what is larger is noise."""
    u0, truth, error = waves(17), waves(33), 0.1 * waves(17, seed=7)
    shares = [
        shares_for(u0, u0 + error, truth, truth, effects=(size * error,))[0].news[0] for size in (0.5, 1.0, 1.4, 3.0)
    ]
    assert min(shares[:2]) > 0.9
    assert 0.4 < shares[2] < 0.8
    assert shares[3] == 0


def test_a_model_that_anchoring_moves_by_its_own_error_is_not_asked():
    """It is no longer the model that was trained; before that its answers are taken in part."""
    u0, truth, error = waves(17), waves(33), 0.1 * waves(17, seed=7)
    effects = (error,)
    shares = [shares_for(u0, u0 + error, truth, truth, effects=effects, drift=d * error)[0].news[0] for d in (0.3, 1.1)]
    assert 0.5 < shares[0] < 0.95
    assert shares[1] == 0


@pytest.mark.parametrize(("drift", "used"), [(0.01, True), (0.1, False)])
def test_an_effect_smaller_than_what_anchoring_leaves_is_not_believed(drift, used):
    """A kernel shrinks with the grid, anchored or not: what the anchored model says of details is noise there."""
    u0, truth = waves(17), waves(33)
    given = {"effects": (0.05 * waves(17, seed=8),), "drift": drift * waves(17, seed=9)}
    shares, _ = shares_for(u0, u0 + 0.1 * waves(17, seed=7), truth, truth, **given)
    assert shares.anchors == used
