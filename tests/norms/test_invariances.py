"""Properties that any weights and fields must have."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from quadnorm.measures import Grid
from quadnorm.norms import BlendQuadNorm, QuadNorm, quad_norm, quad_norm_ragged
from quadnorm.norms.kernels.dispatch import use_kernel
from tests.norms.reference import reference, trapezoid_weights

few = settings(max_examples=25)
kernels = st.sampled_from(["torch", "numba"])


@st.composite
def fields(draw, holes=True):
    """x (B, C, n), w (n,) or (B, n) in float64 and a number of groups."""
    B, C, n = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4])), draw(st.integers(2, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = torch.from_numpy(rng.normal(size=(B, C, n)) * 3 + rng.normal())
    w = torch.from_numpy(rng.uniform(0.1, 2.0, size=(B, n) if draw(st.booleans()) else n))
    if holes:
        w[..., draw(st.integers(0, n - 1))] = 0
    return x, w, draw(st.sampled_from([g for g in (1, 2, 4) if C % g == 0]))


@few
@given(fields(), kernels, st.sampled_from([1e-30, 1e-3, 7.0, 1e30]))
def test_scale_of_the_weights_does_not_matter(case, kernel, scale):
    x, w, groups = case
    with use_kernel(kernel):
        torch.testing.assert_close(quad_norm(x, w * scale, groups), quad_norm(x, w, groups))
        torch.testing.assert_close(quad_norm(x, w, groups), reference(x, w, groups))


@few
@given(fields(holes=False), kernels, st.floats(0.1, 0.9))
def test_a_duplicated_node_shares_its_weight(case, kernel, share):
    x, w, groups = case
    doubled = torch.cat([x, x[..., :1]], -1)
    split = torch.cat([w, w[..., :1] * (1 - share)], -1)
    split[..., 0] *= share
    with use_kernel(kernel):
        torch.testing.assert_close(quad_norm(doubled, split, groups)[..., :-1], quad_norm(x, w, groups))


@few
@given(fields(holes=False), kernels, st.sampled_from([0.0, 1e6, float("nan"), float("inf"), 9.97e36]))
def test_zero_weight_is_deletion(case, kernel, junk):
    x, w, groups = case
    padded = torch.cat([x, torch.full_like(x[..., :2], junk)], -1)
    mask = torch.cat([w, torch.zeros_like(w[..., :2])], -1)
    a, b = x.clone().requires_grad_(), padded.requires_grad_()
    with use_kernel(kernel):
        y, z = quad_norm(a, w, groups), quad_norm(b, mask, groups)
        torch.testing.assert_close(z[..., :-2], y)
        assert torch.isfinite(z).all()
        y.sin().sum().backward()
        z[..., :-2].sin().sum().backward()
    torch.testing.assert_close(b.grad[..., :-2], a.grad)
    assert (b.grad[..., -2:] == 0).all()


@few
@given(fields(), kernels, st.randoms(use_true_random=False))
def test_order_of_the_nodes_does_not_matter(case, kernel, random):
    x, w, groups = case
    p = list(range(x.shape[-1]))
    random.shuffle(p)
    with use_kernel(kernel):
        torch.testing.assert_close(quad_norm(x[..., p], w[..., p], groups), quad_norm(x, w, groups)[..., p])


@few
@given(fields(), kernels)
def test_batch_equals_separate(case, kernel):
    x, w, groups = case
    rows = w if w.ndim == 2 else w.expand(x.shape[0], -1)
    with use_kernel(kernel):
        alone = torch.cat([quad_norm(x[b : b + 1], rows[b], groups) for b in range(x.shape[0])])
        torch.testing.assert_close(quad_norm(x, w, groups), alone)


@few
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 4]))
def test_ragged_equals_padded_equals_loop(sizes, seed, groups):
    rng = np.random.default_rng(seed)
    clouds = [torch.from_numpy(rng.normal(size=(n, 4)) + 5) for n in sizes]
    weights = [torch.from_numpy(rng.uniform(0.1, 2, n)) for n in sizes]
    gamma, beta = torch.from_numpy(rng.normal(size=(2, 4)))
    loop = [quad_norm(c.T[None], w, groups, gamma, beta)[0].T for c, w in zip(clouds, weights, strict=True)]
    width = max(sizes)
    x, w = torch.zeros(len(sizes), 4, width, dtype=torch.float64), torch.zeros(len(sizes), width, dtype=torch.float64)
    for k, (c, v) in enumerate(zip(clouds, weights, strict=True)):
        x[k, :, : len(c)], w[k, : len(c)] = c.T, v
    padded = quad_norm(x, w, groups, gamma, beta)
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    order = torch.from_numpy(rng.permutation(sum(sizes)))
    ragged = quad_norm_ragged(torch.cat(clouds)[order], torch.cat(weights)[order], batch[order], groups, gamma, beta)
    torch.testing.assert_close(ragged, torch.cat(loop)[order])
    torch.testing.assert_close(torch.cat([padded[k, :, :n].T for k, n in enumerate(sizes)]), torch.cat(loop))


def test_ragged_details():
    x = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    w = torch.rand(6, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([0, 2, 0, 2, 2, 0])
    assert torch.autograd.gradcheck(lambda x, w: quad_norm_ragged(x, w, batch, 2, batch_size=4), (x, w), fast_mode=True)
    constant = torch.full((5, 2), 1234.567)
    assert torch.equal(quad_norm_ragged(constant, torch.rand(5), torch.tensor([0, 0, 1, 1, 1])), torch.zeros(5, 2))
    large = torch.randn(400, 2) + 1e5
    want = quad_norm(large.double().T[None], torch.ones(400))[0].T
    torch.testing.assert_close(
        quad_norm_ragged(large, torch.ones(400), torch.zeros(400, dtype=torch.int64)).double(), want, atol=1e-4, rtol=0
    )
    half = quad_norm_ragged(torch.randn(6, 4).bfloat16(), torch.ones(6), batch)
    assert half.dtype == torch.bfloat16
    assert quad_norm_ragged(torch.randn(0, 4), torch.ones(0), torch.zeros(0, dtype=torch.int64)).shape == (0, 4)
    hole = torch.tensor([1.0, 0.0, 1.0])
    y = quad_norm_ragged(torch.tensor([[1.0], [float("nan")], [3.0]]), hole, torch.zeros(3, dtype=torch.int64))
    torch.testing.assert_close(y[[0, 2], 0], torch.tensor([-1.0, 1.0]), atol=1e-4, rtol=0)
    for message, args in {
        "clouds \\[2\\]": (torch.tensor([1.0, 0, 1, 0, 0, 1]), batch, 2, None),
        "negative": (torch.tensor([1.0, 1, 1, -1, 1, 1]), batch, 2, None),
        "batch spans": (torch.ones(6), batch, 2, 2),
        "one entry": (torch.ones(5), batch, 2, None),
        "divide": (torch.ones(6), batch, 3, None),
        "NaN": (torch.full((6,), float("nan")), batch, 2, None),
    }.items():
        weights, index, groups, size = args
        with pytest.raises(ValueError, match=message):
            quad_norm_ragged(x.detach(), weights, index, groups, batch_size=size)
    with pytest.raises(TypeError, match="integer"):
        quad_norm_ragged(x.detach(), torch.ones(6), batch.float())


@pytest.mark.parametrize("shape", [(2, 8, 11), (2, 8, 6, 7), (1, 8, 3, 4, 5)])
def test_uniform_weights_are_the_native_norms(kernel, shape):
    x = torch.randn(shape)
    ones = torch.ones(shape[2:])
    close = {"atol": 1e-6, "rtol": 1e-6}
    torch.testing.assert_close(quad_norm(x, ones, 4), nn.functional.group_norm(x, 4), **close)
    torch.testing.assert_close(quad_norm(x, ones, 8), nn.functional.instance_norm(x), **close)
    torch.testing.assert_close(quad_norm(x, ones, 1), nn.functional.layer_norm(x, shape[1:]), **close)
    torch.testing.assert_close(BlendQuadNorm(8, 1.0)(x), nn.functional.layer_norm(x, shape[1:]), **close)
    torch.testing.assert_close(BlendQuadNorm(8, 0.0)(x), QuadNorm(8)(x), **close)
    assert torch.equal(QuadNorm(8, measure="counting")(x), nn.GroupNorm(1, 8)(x))
    for rule in ("midpoint", "periodic"):
        torch.testing.assert_close(QuadNorm(8, measure=rule)(x), nn.GroupNorm(1, 8)(x), **close)


def test_given_weights(kernel):
    x = torch.randn(2, 4, 5, 6)
    layer = QuadNorm(4)
    torch.testing.assert_close(
        layer(x, weights=torch.from_numpy(trapezoid_weights((5, 6)))), layer(x), atol=1e-6, rtol=0
    )
    mask = torch.rand(2, 5, 6) > 0.4
    torch.testing.assert_close(layer(x, weights=mask).double(), reference(x, mask.double()), atol=1e-6, rtol=0)
    torch.testing.assert_close(quad_norm(x, Grid("trapezoid")), layer(x))
    w = torch.rand(5, 6).double()
    w[0] = 0
    present = (w > 0).double()
    blend = 0.25 * present / present.sum() + 0.75 * w / w.sum()
    torch.testing.assert_close(BlendQuadNorm(4, 0.25)(x, weights=w).double(), reference(x, blend), atol=1e-6, rtol=0)
    masked = QuadNorm(4, measure=Grid("trapezoid").masked(mask[0]))
    z = x.clone()
    z[:, :, ~mask[0]] = float("nan")
    torch.testing.assert_close(masked(z)[:, :, mask[0]], masked(x)[:, :, mask[0]])
    for message, bad in {
        "negative": -torch.ones(5, 6),
        "NaN": torch.full((5, 6), float("nan")),
        "infinite": torch.full((5, 6), float("inf")),
        r"entries \[1\]": torch.stack([torch.ones(5, 6), torch.zeros(5, 6)]),
        r"\(6, 5\)": torch.ones(6, 5),
        r"\(3, 5, 6\)": torch.ones(3, 5, 6),
    }.items():
        with pytest.raises(ValueError, match=message):
            layer(x, weights=bad)
    with pytest.raises(TypeError, match="real"):
        layer(x, weights=torch.ones(5, 6, dtype=torch.complex64))
