"""Spectral convolution against sums written out wave by wave."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from quadnorm import Anchored, Blend, Grid, Weights
from quadnorm.operators import SpectralConv

D = torch.float64


def waves_written_out(layer, x, turns, weights, nyquist=None):
    """y(j) = Σ_k c_k Re(W_kᵀ X_k e^{2πi k·s_j}), X_k = Σ_j w_j x_j e^{−2πi k·s_j}, one wave at a time."""
    grid = torch.stack(torch.meshgrid(*turns, indexing="ij"), -1)  # (*n, d)
    y = torch.zeros(x.shape[0], layer.out_channels, *x.shape[2:], dtype=D)
    for k, W in zip(layer.wavenumbers().flatten(0, -2), layer.full_weight(), strict=True):
        wave = torch.exp(2j * torch.pi * (grid * k).sum(-1))
        X = (x * weights * wave.conj()).flatten(2).sum(2)  # (B, I)
        c = 1 if k[-1] == 0 or 2 * int(k[-1]) == nyquist else 2
        y += c * ((X @ W).view(x.shape[0], -1, *(1 for _ in turns)) * wave).real
    return y


def published(x, corners, m):
    """The form that papers print: rfft2, two corners of m×m modes, irfft2."""
    X = torch.fft.rfft2(x)
    out = torch.zeros(x.shape[0], corners[0].shape[1], x.shape[2], x.shape[3] // 2 + 1, dtype=X.dtype)
    out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", X[:, :, :m, :m], corners[0])
    out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", X[:, :, -m:, :m], corners[1])
    return torch.fft.irfft2(out, s=x.shape[2:])


def corners_of(layer, m):
    w = layer.weight.detach()  # rows 0 … m−1, −1 … −m
    return w[:m].permute(2, 3, 0, 1), w[m:].flip(0).permute(2, 3, 0, 1)


def layer_of(*args, **options):
    torch.manual_seed(0)
    return SpectralConv(*args, dtype=D, **options)


@pytest.mark.parametrize("backend", ["dense", "fft"])
@pytest.mark.parametrize(("modes", "shape"), [((3,), (7,)), ((2, 3), (5, 8)), ((4, 5), (8, 8)), ((2, 3, 2), (4, 6, 5))])
def test_fft_kernel_is_the_sum_over_samples(modes, shape, backend):
    layer = layer_of(2, 3, modes, backend=backend)
    x = torch.randn(2, 2, *shape, dtype=D)
    turns = [torch.arange(n, dtype=D) / n for n in shape]
    expected = waves_written_out(layer, x, turns, 1 / np.prod(shape), nyquist=shape[-1])
    torch.testing.assert_close(layer(x), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("backend", ["dense", "fft"])
@pytest.mark.parametrize(("m", "shape"), [(3, (9, 11)), (4, (8, 8)), (5, (10, 8)), (1, (2, 1))])
def test_fft_kernel_is_the_published_layer(m, shape, backend):
    """Also where the last kept column is the frequency n/2, of which irfft2 takes the real part once."""
    layer = layer_of(3, 2, m, backend=backend)
    x = torch.randn(2, 3, *shape, dtype=D)
    torch.testing.assert_close(layer(x), published(x, corners_of(layer, m), m), rtol=1e-12, atol=1e-14)


def test_float32_agrees_with_rfft2_to_rounding():
    torch.manual_seed(0)
    layer = SpectralConv(8, 8, 12)
    x = torch.randn(2, 8, 64, 64)
    y = published(x, corners_of(layer, 12), 12)
    assert (layer(x) - y).abs().max() < 2e-6 * y.abs().max()


def test_one_wave_is_multiplied_by_its_weight():
    """cos(2π(2r₀ + r₁)) has the modes ±(2, 1) with amplitude ½; W = 3 + 4i turns it into 3 cos(·) − 4 sin(·)."""
    layer = layer_of(1, 1, 4)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[2, 1] = 3 + 4j
    r = torch.arange(16, dtype=D) / 16
    phase = 2 * torch.pi * (2 * r[:, None] + r)
    y = layer(torch.cos(phase)[None, None])[0, 0]
    torch.testing.assert_close(y, 3 * torch.cos(phase) - 4 * torch.sin(phase))


def test_mean_of_a_line_under_the_trapezoid_rule():
    """With the wave 0 alone and W = 1, y is ∫ (2 r₀ + r₁) = 3/2 everywhere; the trapezoid rule is exact for lines."""
    layer = layer_of(1, 1, 1, kernel="quadrature", measure="trapezoid")
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[0, 0] = 1
    a, b = torch.linspace(0, 1, 6, dtype=D), torch.linspace(0, 1, 9, dtype=D)
    y = layer((2 * a[:, None] + b)[None, None])
    torch.testing.assert_close(y, torch.full_like(y, 1.5))


def trapezoid(n):
    w = torch.full((n,), 1 / (n - 1), dtype=D)
    w[[0, -1]] /= 2
    return w


def test_quadrature_on_endpoint_nodes_with_a_period():
    layer = layer_of(2, 2, (3, 4), kernel="quadrature", measure="trapezoid", period=(1.0, 1.5))
    x = torch.randn(1, 2, 9, 10, dtype=D)
    turns = [torch.linspace(0, 1, 9, dtype=D), torch.linspace(0, 1, 10, dtype=D) / 1.5]
    expected = waves_written_out(layer, x, turns, torch.outer(trapezoid(9), trapezoid(10)))
    torch.testing.assert_close(layer(x), expected, rtol=1e-12, atol=1e-14)


def test_quadrature_on_a_nonuniform_grid():
    a = torch.tensor([0.0, 0.1, 0.4, 0.5, 0.8, 1.0, 2.0], dtype=D)
    b = torch.tensor([-1.0, 0.0, 0.5, 0.75, 2.0, 3.0], dtype=D)
    layer = layer_of(1, 2, (2, 3), kernel="quadrature", measure=Grid.from_coordinates(a, b))
    x = torch.randn(2, 1, 7, 6, dtype=D)
    wa = torch.cat([a[1:2] - a[:1], a[2:] - a[:-2], a[-1:] - a[-2:-1]]) / 2 / 2  # half the neighbours' distance, over 2
    wb = torch.cat([b[1:2] - b[:1], b[2:] - b[:-2], b[-1:] - b[-2:-1]]) / 2 / 4
    expected = waves_written_out(layer, x, [a / 2, (b + 1) / 4], torch.outer(wa, wb))
    torch.testing.assert_close(layer(x), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["blend", "mask", "weights"])
def test_measures_that_are_no_product_of_axes(kind):
    shape = (6, 7)
    w = torch.rand(shape, dtype=D)
    present = w > 0.3
    quad = torch.outer(trapezoid(6), trapezoid(7))
    measure, weights = {
        "blend": (Blend(0.3, Grid("trapezoid")), 0.3 / 42 + 0.7 * quad),
        "mask": (Grid("trapezoid").masked(present), quad * present / (quad * present).sum()),
        "weights": (Weights(w), w / w.sum()),
    }[kind]
    layer = layer_of(1, 1, (2, 3), measure=measure)
    x = torch.randn(2, 1, *shape, dtype=D)
    turns = [torch.linspace(0, 1, n, dtype=D) for n in shape]
    torch.testing.assert_close(layer(x), waves_written_out(layer, x, turns, weights), rtol=1e-12, atol=1e-14)


def test_counting_with_the_training_period_is_the_fft_at_that_grid():
    n0 = 11
    fft, quad = (
        layer_of(2, 2, 3, kernel=kernel, period=period) for kernel, period in (("fft", None), ("quadrature", n0 / 10))
    )
    x = torch.randn(1, 2, n0, n0, dtype=D)
    torch.testing.assert_close(fft(x), quad(x), rtol=1e-12, atol=1e-14)
    x = torch.randn(1, 2, 12, 12, dtype=D)
    assert (fft(x) - quad(x)).abs().max() > 1e-3 * fft(x).abs().max()


nonuniform = Grid.from_coordinates(np.linspace(0, 1, 12) ** 2, np.linspace(0, 1, 13) ** 1.5)


@pytest.mark.parametrize("kernel", ["fft", "hermitian"])
@pytest.mark.parametrize(
    "measure",
    [
        Anchored((12, 13)),
        Anchored((12, 13), "cell"),
        Anchored((12, 13), ("periodic", "left")),
        Anchored((12, 13), "gauss-legendre"),
        Anchored(nonuniform),
    ],
    ids=repr,
)
def test_anchoring_changes_nothing_on_the_training_grid(measure, kernel):
    """Also for nonuniform training grids, on which the FFT counts samples and does not see where they are."""
    layer = layer_of(2, 2, (6, 7), kernel=kernel)  # the last kept column is n₀//2 = 6
    x = torch.randn(2, 2, 12, 13, dtype=D)
    before = layer(x)
    layer.measure = measure
    torch.testing.assert_close(layer(x), before, rtol=1e-12, atol=1e-14)


def test_anchoring_keeps_the_single_frequency_half_of_the_samples():
    layer = layer_of(1, 1, (2, 7))
    x = torch.randn(1, 1, 5, 12, dtype=D)  # 2·6 = 12
    before = layer(x)
    layer.measure = Anchored((5, 12))
    torch.testing.assert_close(layer(x), before, rtol=1e-12, atol=1e-14)


def smooth(nodes):
    a, b = torch.meshgrid(*nodes, indexing="ij")
    return (torch.exp(a - b) * torch.cos(3 * a + b))[None, None]


def gaps(layer, nodes_of, sizes):
    """‖y_n − y_{2n}‖ on the places that all grids share, for a doubling sequence of sizes."""
    with torch.no_grad():
        out = [layer(smooth([nodes_of(n)] * 2))[0, 0] for n in sizes]
    first = sizes[0]
    shared = [y[:: (n - 1) // (first - 1), :: (n - 1) // (first - 1)] for n, y in zip(sizes, out, strict=True)]
    return [float((p - q).norm() / q.norm()) for p, q in pairwise(shared)]


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ({"kernel": "fft"}, 0.9, 1.1),
        ({"kernel": "hermitian"}, 0.9, 1.1),
        ({"kernel": "quadrature", "measure": "trapezoid"}, 1.9, 2.1),
        ({"kernel": "quadrature", "measure": "trapezoid", "padding": 0.25}, 1.9, 2.1),
        ({"kernel": "fft", "measure": Anchored(17)}, 1.9, 2.1),
        ({"kernel": "hermitian", "measure": Anchored(17)}, 1.9, 2.1),
        ({"kernel": "quadrature", "measure": "simpson"}, 3.8, 4.3),
    ],
    ids=str,
)
def test_order_of_consistency_between_grids(options, low, high):
    layer = layer_of(1, 2, 5, **options)
    e = gaps(layer, lambda n: torch.linspace(0, 1, n, dtype=D), (33, 65, 129, 257))
    rates = np.log2(np.array(e[:-1]) / e[1:])
    assert ((low < rates) & (rates < high)).all(), (e, rates)


def test_cell_centres_need_no_other_kernel_than_the_fft():
    """Equal weights on cell centres are the midpoint rule, and the FFT's period is the domain's: the same sums."""
    plain, midpoint = layer_of(2, 2, 4), layer_of(2, 2, 4, kernel="quadrature", measure="midpoint")
    for n in (9, 16):
        x = torch.randn(1, 2, n, n, dtype=D)
        torch.testing.assert_close(plain(x), midpoint(x), rtol=1e-11, atol=1e-14)


def test_padding_is_extension_by_zero():
    """f = ½ on 12 samples: transform 18 of them, the last 6 zero; the weights stay those of the 12."""
    layer = layer_of(2, 2, 4, padding=0.5)
    x = torch.randn(2, 2, 12, 12, dtype=D)
    extended = torch.nn.functional.pad(x, (0, 6, 0, 6))
    expected = published(extended, corners_of(layer, 4), 4)[:, :, :12, :12] * (18 / 12) ** 2
    torch.testing.assert_close(layer(x), expected, rtol=1e-12, atol=1e-14)


# --- the tied kernel -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("modes", "shape"), [((4,), (9,)), ((3, 4), (8, 9)), ((2, 3, 2), (5, 6, 7))])
def test_hermitian_weights_are_those_of_a_real_kernel(modes, shape):
    layer = layer_of(2, 1, modes, kernel="hermitian")
    W = {tuple(k.tolist()): w for k, w in zip(layer.wavenumbers().flatten(0, -2), layer.full_weight(), strict=True)}
    ranges = [range(1 - m, m) for m in modes[:-1]]
    assert set(W) == set(product(*ranges, range(modes[-1])))
    for k, w in W.items():
        if k[-1] == 0:
            torch.testing.assert_close(W[tuple(-c for c in k)], w.conj())
    assert W[(0,) * len(modes)].imag.abs().max() == 0
    # So the layer is a circular convolution with the real kernel κ(j) = Σ_k c_k Re(W_k e^{2πi k·j/n}) / N.
    x = torch.randn(1, 2, *shape, dtype=D)
    impulse = torch.zeros(2, 2, *shape, dtype=D)
    impulse[(0, 0, *(0,) * len(shape))] = impulse[(1, 1, *(0,) * len(shape))] = 1
    kappa = layer(impulse)[:, 0]  # (2, *n)
    y = torch.zeros(1, 1, *shape, dtype=D)
    for j in product(*(range(n) for n in shape)):
        rolled = torch.roll(kappa, j, tuple(range(1, len(shape) + 1)))
        y += (x[(slice(None), slice(None), *j)].view(2, *(1 for _ in shape)) * rolled).sum(0)
    torch.testing.assert_close(layer(x), y, rtol=1e-11, atol=1e-13)


def test_hermitian_parameter_count():
    """2-D, m = 3: 5·2 matrices with k₁ > 0, 2 pairs with k₁ = 0, one real."""
    layer = SpectralConv(4, 5, 3, kernel="hermitian")
    assert layer.weight.shape == (12, 4, 5)
    assert layer.dc.shape == (4, 5)
    assert not layer.dc.is_complex()
