"""Interpolation between grids, against calculus and scipy, on nodes built here."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from quadnorm.carry import carry
from quadnorm.carry.grids import nested

NODES = {
    "endpoint": lambda n: np.arange(n) / (n - 1),
    "cell": lambda n: (np.arange(n) + 0.5) / n,
    "periodic": lambda n: np.arange(n) / n,
    "left": lambda n: np.arange(n) / n,
    "interior": lambda n: (np.arange(n) + 1) / (n + 1),
}


def on(f, placement, n):
    return torch.from_numpy(f(NODES[placement](n)))


@pytest.mark.parametrize("placement", ["endpoint", "cell", "left", "interior"])
def test_splines_reproduce_cubics(placement):
    """A cubic is its own spline: all derivatives of third order are continuous. Outside of the nodes too."""

    def f(t):
        return 2 * t**3 - t**2 + 3 * t - 1

    assert torch.allclose(carry(on(f, placement, 9), (31,), placement), on(f, placement, 31), atol=1e-12)


def test_spline_is_scipys_not_a_knot_spline():
    from scipy.interpolate import CubicSpline

    x, t = np.linspace(0, 1, 12), np.linspace(0, 1, 50)
    values = np.random.default_rng(0).normal(size=12)
    expected = CubicSpline(x, values, bc_type="not-a-knot")(t)
    assert np.allclose(carry(torch.from_numpy(values), (50,)).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("method", "order"), [("cubic", 4), ("linear", 2)])
def test_order_of_convergence(method, order):
    def f(t):
        return np.exp(t) * np.sin(5 * t)

    errors = [
        (carry(on(f, "endpoint", n), (1001,), method=method) - on(f, "endpoint", 1001)).abs().max().item()
        for n in (26, 51)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.2)


@pytest.mark.parametrize("n", [8, 9])
def test_periodic_is_fourier_zero_padding(n):
    """Resampling by padding the spectrum, written with numpy's FFT; an even n splits its highest wave in two halves."""
    values = np.random.default_rng(1).normal(size=n)
    spectrum = np.fft.rfft(values) * 3
    if n % 2 == 0:
        spectrum[-1] /= 2
    expected = np.fft.irfft(np.pad(spectrum, (0, 3 * n // 2 + 1 - len(spectrum))), 3 * n)
    assert np.allclose(carry(torch.from_numpy(values), (3 * n,), "periodic").numpy(), expected, atol=1e-12)


def test_linear_wraps_around_on_periodic_axes():
    y = carry(torch.tensor([0.0, 4.0]), (8,), "periodic", "linear")
    assert y.tolist() == [0, 1, 2, 3, 4, 3, 2, 1]


@pytest.mark.parametrize("method", ["cubic", "linear", "nearest"])
def test_a_node_beyond_the_last_is_no_node_of_the_old_grid(method):
    """0, ¼, ½, ¾ do not hold 1, which is the next of their steps."""
    y = carry(torch.arange(4.0), (5,), "endpoint", method, source="left")
    assert y[:4].tolist() == [0, 1, 2, 3]
    assert y[4] == pytest.approx(3 if method == "nearest" else 4)


def test_nearest_keeps_the_fields_values():
    x = torch.tensor([3.0, 12.0, 3.0, 12.0, 12.0])
    assert set(carry(x, (14,), method="nearest").tolist()) == {3.0, 12.0}


@given(st.sampled_from(sorted(NODES)), st.integers(2, 12), st.integers(1, 4), st.sampled_from(["cubic", "linear"]))
def test_old_nodes_keep_their_values(placement, n, factor, method):
    x = torch.randn(3, n, dtype=torch.float64)
    if placement == "cell":
        factor = 2 * factor - 1  # cell centres nest in thirds
    fine = {"endpoint": (n - 1) * factor + 1, "interior": (n + 1) * factor - 1}.get(placement, n * factor)
    assert nested(placement, n, fine)
    y = carry(x, (fine,), placement, method)
    assert torch.equal(
        carry(y, (n,), placement, method), x
    )  # restriction of nested grids is selection, to the last bit


def test_several_axes_batches_and_gradients():
    x = torch.randn(2, 3, 5, 6, dtype=torch.float64, requires_grad=True)
    y = carry(x, (9, 12), ("endpoint", "periodic"))
    assert y.shape == (2, 3, 9, 12)
    one_by_one = torch.stack([torch.stack([carry(c, (9, 12), ("endpoint", "periodic")) for c in b]) for b in x])
    assert torch.allclose(y, one_by_one, atol=1e-13)
    assert torch.autograd.gradcheck(lambda t: carry(t, (9, 12), ("endpoint", "periodic")), x, fast_mode=True)


def test_errors():
    x = torch.zeros(5)
    with pytest.raises(ValueError, match="did you mean 'cubic'"):
        carry(x, (9,), method="cubics")
    with pytest.raises(ValueError, match="did you mean 'endpoint'"):
        carry(x, (9,), "endpoints")
    with pytest.raises(ValueError, match="2 placements"):
        carry(x, (9,), ("cell", "cell"))
    with pytest.raises(ValueError, match="no 2 spatial axes"):
        carry(x, (9, 9))


@pytest.mark.parametrize(("m", "n"), [(8, 20), (9, 20), (20, 8), (20, 9), (21, 8), (7, 7), (12, 5), (1, 4)])
@pytest.mark.parametrize("target", sorted(NODES))
def test_trigonometric_interpolant_at_any_nodes(target, m, n):
    """Σ_k X_k e^{2πikt} over −m/2 ≤ k ≤ m/2, the two outermost halved if m is even: written out, for every node."""
    values = np.random.default_rng(2).normal(size=m)
    k = np.arange(-(m // 2), m // 2 + 1)
    share = np.where((m % 2 == 0) & (np.abs(k) == m // 2), 0.5, 1.0)
    spectrum = share * (values @ np.exp(-2j * np.pi * np.outer(np.arange(m) / m, k))) / m
    expected = (np.exp(2j * np.pi * np.outer(NODES[target](n), k)) @ spectrum).real
    got = carry(torch.from_numpy(values), (n,), target, source="periodic")
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


def test_periodic_axes_take_no_more_memory_than_the_fields():
    """384 → 3072 samples: an (m/2, n, m) array of waves would hold 226 million numbers."""
    x = torch.randn(1, 384, 384)
    tracemalloc.start()
    with Largest() as largest:
        y = carry(x, (3072, 384), "periodic")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    torch.testing.assert_close(y[0, ::8], x[0])
    assert largest.numel <= 2 * y.numel()
    assert peak < 2**27  # bytes of numpy arrays and whatever is imported on the way


class Largest(TorchDispatchMode):
    """The largest tensor that any operation returns."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numel = max(self.numel, out.numel())
        return out
