"""The transfer bound: the tools that measure its constants, the bound itself, and the norms' term."""

import math

import pytest
import torch

from quadnorm.lab.theory import network, statement, transfer
from quadnorm.lab.theory.network import Block, amplification, bounds, defect, jacobian
from quadnorm.measures import Anchored, Grid


def weights(n):
    w = torch.full((n,), 1 / (n - 1), dtype=torch.float64)
    w[0] = w[-1] = 0.5 / (n - 1)
    return w


def size(z):
    """√(Σ_i w_i Σ_c z_ci²), written out."""
    w = weights(z.shape[2]).tolist()
    return math.sqrt(sum(w[i] * float(z[0, c, i]) ** 2 for c in range(z.shape[1]) for i in range(z.shape[2])))


def test_comparison_norm():
    z = torch.randn(1, 3, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert float(network.norm_of(z)) == pytest.approx(size(z))
    assert float(network.norm_of(torch.ones(1, 1, 9, dtype=torch.float64))) == pytest.approx(1)


def test_amplification_is_the_largest_singular_value():
    random = torch.Generator().manual_seed(0)
    A, B = (torch.randn(20, 20, generator=random, dtype=torch.float64) for _ in range(2))
    assert amplification(A, rounds=400) == pytest.approx(float(torch.linalg.matrix_norm(A, ord=2)), rel=1e-6)
    assert amplification(A, B, rounds=400) == pytest.approx(float(torch.linalg.matrix_norm(B @ A, ord=2)), rel=1e-6)


def test_jacobian_is_the_derivative_in_the_comparison_norm():
    """The derivative of z → z² is diag(2z); it amplifies by 2 max|z| in any weighted norm. A map that puts the mean
    ∫z everywhere has norm 1 under ∫z² ds, and in plain coordinates it would not.
    """
    z = torch.linspace(-1, 3, 10, dtype=torch.float64).view(1, 2, 5)
    assert amplification(jacobian(torch.square, z), rounds=500) == pytest.approx(6, rel=1e-6)

    def mean(v):
        return (v * weights(5)).sum(-1, keepdim=True).expand_as(v)

    assert amplification(jacobian(mean, z)) == pytest.approx(1, rel=1e-8)


def test_no_perturbation_is_amplified_more():
    maps = network.Maps(network.trained(), Grid("trapezoid"))
    z = maps.stages(network.problem(17, 1, 3)[0])[2][1]
    f = maps.normalize(2)
    most = amplification(jacobian(f, z))
    random = torch.Generator().manual_seed(1)
    for _ in range(20):
        d = 1e-4 * torch.randn(z.shape, generator=random, dtype=torch.float64)
        assert size(f(z + d) - f(z)) <= 1.001 * most * size(d)


def test_defect_of_what_commutes_is_zero():
    """A pointwise linear map commutes with interpolation; squaring a parabola does not survive the spline."""
    t = torch.linspace(0, 1, 9, dtype=torch.float64)
    z = (t**2)[None, None]
    assert defect(lambda v: 3 * v, lambda v: 3 * v, z, 25) < 1e-14
    assert defect(torch.square, torch.square, z, 25) > 1e-5


def test_recursion_by_hand():
    """e_1 = L_σ L_N L_T e_0 + L_σ(L_N c_T + c_N) + c_σ, then again."""
    s = network.LIPSCHITZ_GELU
    one, two = Block(2, 3, 0.1, 0.2, 0.3), Block(1, 0.5, 0, 0.4, 0)
    first = s * 3 * 2 * 0.7 + s * (3 * 0.1 + 0.2) + 0.3
    assert bounds([one, two], 0.7) == pytest.approx([first, s * 0.5 * first + s * 0.4])


def test_lipschitz_constant_of_gelu():
    t = torch.linspace(-6, 6, 100_001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(torch.nn.functional.gelu(t).sum(), t)
    assert float(slope.abs().max()) == pytest.approx(network.LIPSCHITZ_GELU, rel=1e-8)


def test_the_maps_are_the_network():
    model = network.trained()
    x = network.problem(33, 2, 5)[0]
    maps = network.Maps(model, Grid("trapezoid"))
    ours = maps(x)  # leaves that measure in the norms
    torch.testing.assert_close(model(x), ours, rtol=1e-12, atol=1e-12)
    x, y = network.problem(33, 64, 5)
    assert (network.Maps(model, Grid("counting"))(x) - y).norm() < 0.6 * y.norm()  # it has learned something


def test_the_problem_solves_its_equation():
    """u − u''/20 = a, by second differences on a fine grid."""
    a, u = network.problem(2001, 3, 0)
    second = (u[..., 2:] - 2 * u[..., 1:-1] + u[..., :-2]) * 2000**2
    torch.testing.assert_close(u[..., 1:-1] - second / 20, a[..., 1:-1], rtol=1e-4, atol=1e-4)


def test_the_bound_holds_and_counting_does_not_pass_for_quadrature(monkeypatch):
    evidence = statement("transfer").measure()
    assert not [check for check in evidence.checks if not check.holds]
    assert len(evidence.rows) == 16
    assert all(row["e_L"] <= row["bound"] for row in evidence.rows)
    assert {series.x_name for series in evidence.series} == {"L"}
    # Constants of the theorem's two norms differ in kind: of order h² and of order h.
    monkeypatch.setattr(transfer, "SWAPS", dict.fromkeys(transfer.SWAPS, Grid("counting")))
    for module in (network, transfer):  # amplification is not what is looked at here
        monkeypatch.setattr(module, "jacobian", lambda f, z: torch.eye(1, dtype=torch.float64))
    failed = {check.what for check in transfer.measure_transfer().checks if not check.holds}
    assert failed >= {
        "norm's own term: counting / trapezoid, least of the blocks",
        "e_1: counting / trapezoid",
        "e_1: counting / anchored",
    }


def test_a_bound_without_the_norms_term_would_be_broken(monkeypatch):
    """Leaving C_N out of the recursion, counting norms exceed the bound: the term is needed."""
    without = {}
    for name in ("counting", "trapezoid"):
        maps = network.Maps(network.trained(), transfer.SWAPS[name])
        fitted = network.problem(33, 8, 7)[0], network.problem(65, 8, 7)[0]
        parts = network.blocks(maps, *fitted)
        cut = [Block(b.lipschitz_t, b.lipschitz_n, b.defect_t, 0.0, b.defect_s) for b in parts]
        limit = transfer.bounded(maps, cut, fitted)[0]
        without[name] = float(transfer.observed(maps)[1].max()) / limit
    assert without["counting"] > 1 > without["trapezoid"]


def test_the_norms_term_is_of_first_order_and_vanishes_with_it(monkeypatch):
    evidence = statement("swap").measure()
    assert not [check for check in evidence.checks if not check.holds]
    assert all(len(series.x) >= 5 for series in evidence.series)
    monkeypatch.setattr(transfer, "Grid", lambda rule: Grid("counting"))
    monkeypatch.setattr(transfer, "Anchored", lambda n: Grid("counting"))
    failed = {check.what for check in transfer.measure_swap().checks if not check.holds}
    assert failed >= {f"order of norms alone, {m}" for m in ("trapezoid", "anchored", "counting − anchored")}
    assert "order of all sums, anchored" in failed


def test_anchored_and_counting_are_one_network_on_the_training_grid():
    for n in (33, 65):
        assert torch.equal(transfer.output(Grid("counting"), n), transfer.output(Anchored(n), n))


def test_along_a_trajectory_of_common_fields_the_norms_are_of_second_order():
    """Orders by two neighbouring grids, without the fit: 4 and 2 per halving of the spacing, 129 → 257 → 513 nodes."""
    evidence = statement("trajectory").measure()
    assert [c for c in evidence.checks if not c.holds] == []
    by_name = {s.name: dict(zip(s.x, s.y, strict=True)) for s in evidence.series}
    for name, halved in (("norm's term of block 8, trapezoid", 4), ("norm's term of block 8, counting", 2)):
        y = by_name[name]
        assert y[1 / 256] / y[1 / 512] == pytest.approx(halved, rel=0.03)
