"""Relative L² against calculus."""

from __future__ import annotations

import math

import pytest
import torch

from quadnorm.training import relative_l2
from quadnorm.training.losses import mean_square, placement_weights


def test_each_sample_has_its_own_error() -> None:
    """Truth 3, 4 has norm 5; errors (0, 0), (5, 0) and (3, 4) have norms 0, 5 and 5, of both channels together."""
    truth = torch.tensor([[[3.0], [4.0]]]).repeat(3, 1, 1)
    error = torch.tensor([[[0.0], [0.0]], [[5.0], [0.0]], [[3.0], [4.0]]])
    assert relative_l2(truth + error, truth).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("placement", ["endpoint", "cell", "periodic", "left", "interior"])
def test_weights_integrate_on_the_nodes_of_their_placement(placement: str) -> None:
    """∫₀¹∫₀¹ x² y dx dy = 1/6, approached as h² (left: h), with weights that sum to 1."""
    errors = []
    for n in (40, 80):
        j = torch.arange(n, dtype=torch.float64)
        x = {"endpoint": j / (n - 1), "cell": (j + 0.5) / n, "interior": (j + 1) / (n + 1)}.get(placement, j / n)
        w = placement_weights(placement, (n, n))
        assert w.sum().item() == pytest.approx(1, abs=1e-12)
        errors.append(abs((w * x[:, None] ** 2 * x).sum().item() - 1 / 6))
    order = math.log2(errors[0] / errors[1])
    assert order > (0.9 if placement in ("left", "periodic") else 1.9)
    assert errors[1] < (0.02 if placement in ("left", "periodic") else 3e-3)


def test_the_weighted_error_is_that_of_the_functions() -> None:
    """‖sin πx − x‖² = 1/2 − 2/π + 1/3 and ‖x‖² = 1/3 on [0, 1]; equal weights on endpoint nodes are off by O(h)."""
    exact = math.sqrt((1 / 2 - 2 / math.pi + 1 / 3) / (1 / 3))
    plain, weighted = [], []
    for n in (33, 65, 129):
        x = torch.linspace(0, 1, n, dtype=torch.float64)
        p, u = torch.sin(math.pi * x)[None, None], x[None, None]
        plain.append(abs(relative_l2(p, u).item() - exact))
        weighted.append(abs(relative_l2(p, u, placement_weights("endpoint", (n,))).item() - exact))
    assert math.log2(weighted[1] / weighted[2]) == pytest.approx(2, abs=0.05)
    assert math.log2(plain[1] / plain[2]) == pytest.approx(1, abs=0.1)
    assert weighted[2] < 1e-4


def test_a_perfect_prediction_has_a_gradient() -> None:
    u = torch.ones(1, 1, 5)
    p = u.clone().requires_grad_()
    relative_l2(p, u).sum().backward()  # type: ignore[no-untyped-call]
    assert p.grad is not None
    assert p.grad.tolist() == [[[0.0] * 5]]


def test_sums_over_ranks_give_the_same_errors_and_gradients() -> None:
    """Two halves of a field, each with the sum of the other: also where an error is exactly 0, whose root has none."""
    torch.manual_seed(0)
    u = torch.randn(3, 2, 8, dtype=torch.float64)
    p = u + torch.randn_like(u) * torch.tensor([1.0, 0.0, 2.0]).reshape(3, 1, 1)
    w = torch.rand(8, dtype=torch.float64)
    for weights in (None, w):
        q = p.clone().requires_grad_()
        whole = relative_l2(q, u, weights)
        (wanted,) = torch.autograd.grad(whole.sum(), q)
        h = p[..., :3].clone().requires_grad_()
        rest = weights if weights is None else weights[3:]
        others = torch.stack(
            [((f if rest is None else f * rest.sqrt()) ** 2).sum((1, 2)) for f in ((p - u)[..., 3:], u[..., 3:])]
        )
        got = relative_l2(h, u[..., :3], None if weights is None else weights[:3], lambda sums, o=others: sums + o)
        torch.testing.assert_close(got, whole, rtol=1e-12, atol=0)
        assert got[1] == 0
        (g,) = torch.autograd.grad(got.sum(), h)
        torch.testing.assert_close(g, wanted[..., :3], rtol=1e-12, atol=1e-15)
        assert not g[1].any()


def test_the_mean_square_of_parts_is_that_of_the_whole() -> None:
    p, u, sigma = torch.rand(3, 2, 8), torch.rand(3, 2, 8), torch.tensor([0.5, 2.0])
    whole = mean_square(p, u, sigma)
    torch.testing.assert_close(whole, ((p - u) / sigma[:, None]).square().mean((1, 2)))
    rest = ((p - u) / sigma[:, None])[..., 3:].square().sum((1, 2))
    others = torch.stack([rest, torch.full_like(rest, 10.0)])
    torch.testing.assert_close(mean_square(p[..., :3], u[..., :3], sigma, lambda sums: sums + others), whole)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"shape \(1, 1, 5\), the truth \(1, 1, 6\)"):
        relative_l2(torch.ones(1, 1, 5), torch.ones(1, 1, 6))


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-12, 1.0, 1e12, 1e20, 1e30])
def test_units_do_not_matter(scale):
    """Also where the squares would leave float32's range; inside it no bit changes."""
    torch.manual_seed(0)
    u, p = torch.randn(3, 2, 8, 8), torch.randn(3, 2, 8, 8)
    expected = relative_l2(p.double(), u.double())
    q = (p * scale).requires_grad_()
    got = relative_l2(q, u * scale)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=0)
    (g,) = torch.autograd.grad(got.sum(), q)
    (wanted,) = torch.autograd.grad(relative_l2(v := p.double().requires_grad_(), u.double()).sum(), v)
    torch.testing.assert_close(g.double() * scale, wanted, rtol=1e-4, atol=1e-9)
    torch.testing.assert_close(relative_l2(p, u), torch.linalg.vector_norm((p - u).flatten(1), dim=1)
                               / torch.linalg.vector_norm(u.flatten(1), dim=1), rtol=0, atol=0)  # fmt: skip
