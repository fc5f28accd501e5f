"""FNO against its published form, written with convolutions and FFTs."""

import math

import pytest
import torch
from torch.nn import functional as F

from quadnorm import Anchored, Grid
from quadnorm.operators import FNO, SpectralConv
from tests.operators.small_models import gradients_are_right

D = torch.float64


def count(model):
    return sum(p.numel() for p in model.parameters())


def published(model, x, coordinates, modes, gain=None):
    """Lift, rfft2 blocks, head, with 1×1 convolutions and PyTorch's GroupNorm; coordinates are the test's own."""
    conv = lambda m, v: F.conv2d(v, m.weight[:, :, None, None], m.bias)  # noqa: E731
    v = conv(model.lift, torch.cat([x, coordinates.expand(x.shape[0], -1, -1, -1)], 1))
    for i, block in enumerate(model.blocks):
        w = block.spectral.weight  # rows 0 … m−1, −1 … −m
        X = torch.fft.rfft2(v)
        out = torch.zeros_like(X)
        for rows, weights in ((slice(0, modes), w[:modes]), (slice(-modes, None), w[modes:].flip(0))):
            out[:, :, rows, :modes] = torch.einsum("bixy,xyio->boxy", X[:, :, rows, :modes], weights)
        u = torch.fft.irfft2(out, s=v.shape[2:]) + conv(block.pointwise, v) + (v if block.residual == "inside" else 0)
        u = F.group_norm(u, 1, block.norm.weight, block.norm.bias)
        u = F.gelu(u) if i < len(model.blocks) - 1 else u
        if gain is not None:
            energy = lambda f: f.square().sum(1).mean((1, 2))  # noqa: E731
            u = gain * torch.sqrt(energy(v) / energy(u)).view(-1, 1, 1, 1) * u
        v = v + u if block.residual is True else u
    return conv(model.head.second, F.gelu(conv(model.head.first, v)))


@pytest.mark.parametrize("options", [{}, {"residual": False}, {"residual": "inside"}, {"gain": True}], ids=str)
def test_counting_is_the_published_form(options):
    torch.manual_seed(0)
    model = FNO(2, 3, width=6, modes=3, layers=3, **options).double()
    x = torch.randn(2, 2, 9, 12, dtype=D)
    r = torch.stack(torch.meshgrid(torch.linspace(0, 1, 9), torch.linspace(0, 1, 12), indexing="ij")).to(D)
    gain = 0.5 if options.get("gain") else None
    torch.testing.assert_close(model(x), published(model, x, r, 3, gain), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("placement", "nodes"),
    [
        ("cell", [1 / 12, 3 / 12, 5 / 12, 7 / 12, 9 / 12, 11 / 12]),
        ("periodic", [0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6]),
        ("left", [0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6]),
    ],
)
def test_coordinates_follow_the_placement(placement, nodes):
    torch.manual_seed(0)
    model = FNO(1, 1, width=4, modes=2, layers=1, placement=placement).double()
    x = torch.randn(1, 1, 6, 6, dtype=D)
    t = torch.tensor(nodes, dtype=D)
    r = torch.stack(torch.meshgrid(t, t, indexing="ij"))
    torch.testing.assert_close(model(x), published(model, x, r, 2), rtol=1e-10, atol=1e-12)


def test_coordinates_are_the_nodes_of_a_measure_that_has_some():
    torch.manual_seed(0)
    a, b = torch.tensor([0.0, 1.0, 1.5, 2.0, 4.0], dtype=D), torch.tensor([0.0, 0.2, 0.4, 0.5, 1.0], dtype=D)
    model = FNO(1, 1, width=4, modes=2, layers=1, norm="none", measure=Grid.from_coordinates(a, b)).double()
    with torch.no_grad():
        model.blocks[0].spectral.weight.zero_()
    x = torch.randn(1, 1, 5, 5, dtype=D)
    r = torch.stack(torch.meshgrid(a / 4, b, indexing="ij"))[None]
    v = F.conv2d(torch.cat([x, r], 1), model.lift.weight[:, :, None, None], model.lift.bias)
    p = model.blocks[0].pointwise
    v = v + F.conv2d(v, p.weight[:, :, None, None], p.bias)
    torch.testing.assert_close(model(x), model.head(v.flatten(2)).view(1, 1, 5, 5))


def test_parameter_counts_of_the_paper():
    """Complex numbers count once. 4·(2·12·12·32² + 32² + 32) + (3·32 + 32) + (32·128 + 128) + (128 + 1)."""
    assert count(FNO(norm="none")) == 1_188_353
    assert count(FNO(width=48, layers=8, norm="none")) == 5_333_825
    assert count(FNO()) == 1_188_353 + 4 * 64


def test_dimensions_one_and_three():
    assert FNO(dim=1, width=4, modes=3, layers=1)(torch.randn(2, 1, 20)).shape == (2, 1, 20)
    assert FNO(dim=3, width=4, modes=(2, 3, 2), layers=1)(torch.randn(1, 1, 6, 7, 8)).shape == (1, 1, 6, 7, 8)


def test_same_seed_same_model():
    outs = []
    for _ in range(2):
        torch.manual_seed(5)
        outs.append(FNO(width=4, modes=2, layers=2)(torch.ones(1, 1, 8, 8)))
    assert torch.equal(*outs)


def test_the_gain_starts_at_one_half_and_bounds_the_energy():
    """E‖y‖² ≤ (1 + α₀)² E‖x‖² for every block, with E under the block's measure."""
    torch.manual_seed(0)
    model = FNO(width=8, modes=3, layers=2, gain=True, norm="none", measure="trapezoid").double()
    block = model.blocks[0]
    assert math.isclose(F.softplus(block.gain).item(), 0.5, rel_tol=1e-6)
    n = 11
    w = torch.full((n,), 1 / (n - 1), dtype=D)
    w[[0, -1]] /= 2
    w = torch.outer(w, w).flatten()
    v = torch.randn(3, 8, n * n, dtype=D)
    y = block(v, (n, n))
    energy = lambda f: (f.square().sum(1) * w).sum(1)  # noqa: E731
    assert (energy(y) <= 1.5**2 * energy(v) * (1 + 1e-6)).all()
    torch.testing.assert_close(energy(y - v), 0.25 * energy(v), rtol=1e-6, atol=0)


def test_setting_the_measure_sets_every_spectral_sum_and_no_norm():
    model = FNO(width=4, modes=2, layers=3, norm="quad")
    model.measure = Anchored(9)
    assert all(m.measure == Anchored(9) for m in model.modules() if isinstance(m, SpectralConv))
    assert all(b.norm.measure == Grid("trapezoid") for b in model.blocks)


def test_quadrature_norms_follow_the_placement_unless_they_name_a_rule():
    assert FNO(width=4, modes=2, layers=1, norm="quad", placement="cell").blocks[0].norm.measure == Grid("midpoint")
    blend = FNO(width=4, modes=2, layers=1, norm="blend", placement="periodic").blocks[0].norm.measure
    assert (blend.alpha, blend.quadrature) == (0.3, Grid("periodic"))
    named = FNO(width=4, modes=2, layers=1, norm="quad:trapezoid", placement="cell")
    assert named.blocks[0].norm.measure == Grid("trapezoid")


def test_gradients_reach_every_parameter():
    torch.manual_seed(0)
    model = FNO(width=4, modes=2, layers=2, gain=True).double()
    model(torch.randn(2, 1, 6, 6, dtype=D)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_gradcheck_of_a_whole_network():
    torch.manual_seed(0)
    model = FNO(width=2, modes=2, layers=2, projection=3, norm="quad", measure="trapezoid").double()
    x = torch.randn(1, 1, 4, 5, dtype=D, requires_grad=True)
    assert gradients_are_right(model, x)
    assert torch.autograd.gradgradcheck(model, (x,), fast_mode=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FNO(modes=(3, 3, 3)), "3 entries for dim=2"),
        (lambda: FNO(gain=True, residual=False), "needs residual=True"),
        (lambda: FNO(gain=True, residual="inside"), "needs residual=True"),
        (lambda: FNO(residual="outside"), "True, False or 'inside', got 'outside'"),
        (lambda: FNO(layers=0), "layers must be 1 or more"),
        (lambda: FNO(placement="corner"), "placement says where samples lie"),
        (lambda: FNO()(torch.ones(1, 1, 20, 30)), r"need at least \(24, 22\) samples per axis.*\(20, 30\)"),
        (lambda: FNO(modes=2)(torch.ones(1, 3, 9, 9)), "1 channels on a 2-dimensional grid"),
        (lambda: FNO(modes=2)(torch.ones(1, 9, 9)), r"expected \(batch, 1, n, n\)"),
        (lambda: FNO(norm="leyer"), "layer"),
    ],
)
def test_errors_say_what_to_do(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_integers_are_refused():
    with pytest.raises(TypeError, match=r"torch\.int64"):
        FNO(modes=2)(torch.ones(1, 1, 9, 9, dtype=torch.int64))
