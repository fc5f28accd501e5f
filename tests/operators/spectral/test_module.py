"""Spectral convolution as a module: derivatives, ways of computing that agree, parameters, choices, errors."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm.measures import Grid
from quadnorm.measures._cache import CACHE
from quadnorm.operators import SpectralConv
from quadnorm.operators.spectral.dft import Wave, matrix
from quadnorm.operators.spectral.products import cheapest_order
from quadnorm.operators.spectral.transforms import through_matrices, through_real_matrices

D = torch.float64


def layer_of(*args, **options):
    torch.manual_seed(0)
    return SpectralConv(*args, dtype=D, **options)


# --- derivatives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["dense", "fft"])
@pytest.mark.parametrize("kernel", ["fft", "hermitian"])
def test_gradients(kernel, backend):
    layer = layer_of(2, 1, 2, kernel=kernel, backend=backend)
    x = torch.randn(1, 2, 4, 5, dtype=D, requires_grad=True)
    bias, skip = torch.randn(1, dtype=D, requires_grad=True), torch.randn(1, 2, dtype=D, requires_grad=True)
    names, values = zip(*layer.named_parameters(), strict=True)

    def f(x, bias, skip, *parameters):
        given = (x, bias, None, skip)
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), given)

    inputs = (x, bias, skip, *(v.detach().requires_grad_() for v in values))
    assert torch.autograd.gradcheck(f, inputs, fast_mode=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, inputs, fast_mode=True)


@pytest.mark.parametrize("n", [12, 60])
def test_the_result_may_be_changed_in_place(n):
    layer, x = layer_of(2, 2, 3, backend="dense"), torch.randn(1, 2, n, n, dtype=D, requires_grad=True)
    y = layer(x)
    y += x
    (g,) = torch.autograd.grad(y.sum(), x)
    (expected,) = torch.autograd.grad((layer(x) + x).sum(), x)
    torch.testing.assert_close(g, expected)


@pytest.mark.parametrize("measure", ["counting", "trapezoid", "masked"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_skip_adds_a_product(measure, dtype):
    mask = torch.ones(8, 9, dtype=torch.bool).tril(4)
    layer = layer_of(2, 3, 3, measure=Grid("trapezoid").masked(mask) if measure == "masked" else measure)
    x, skip, bias = (torch.randn(*s, dtype=dtype) for s in ((2, 2, 8, 9), (3, 2), (3,)))
    expected = layer(x, bias) + torch.einsum("oi,bixy->boxy", skip, x)
    close = {} if dtype == D else {"rtol": 2e-2, "atol": 2e-2}
    torch.testing.assert_close(layer(x, bias, skip=skip), expected, **close)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(layer(x, bias, skip=skip).to(dtype), expected, rtol=5e-2, atol=5e-2)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch.func imports its own deprecated parts
def test_transforms_of_functions():
    """Forward mode and vmap take the same layer through its plain formula."""
    layer = layer_of(2, 2, 3, measure="trapezoid")
    x, t = torch.randn(3, 1, 2, 7, 8, dtype=D), torch.randn(1, 2, 7, 8, dtype=D)
    y, dy = torch.func.jvp(layer, (x[0],), (t,))
    torch.testing.assert_close(y, layer(x[0]))
    torch.testing.assert_close(dy, layer(t))  # linear
    torch.testing.assert_close(torch.func.vmap(layer)(x), torch.stack([layer(v) for v in x]))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_all_ways_agree(data):
    """Dense complex, dense real and FFT forms give one result for any sizes and modes that fit."""
    d = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.integers(2, 9)) for _ in range(d))
    modes = tuple(data.draw(st.integers(1, max(1, n // 2))) for n in shape)
    layer = layer_of(2, 3, modes, backend="dense", kernel=data.draw(st.sampled_from(["fft", "hermitian"])))
    x = torch.randn(2, 2, *shape, dtype=D)
    y = layer(x)
    assert y.shape == (2, 3, *shape)
    mats = [
        (
            matrix(Wave(None), n, top, "analysis", torch.device("cpu"), D),
            matrix(Wave(None), n, top, "half" if a == d - 1 else "plain", torch.device("cpu"), D),
        )
        for a, (n, top) in enumerate(zip(shape, layer.modes.tops, strict=True))
    ]
    analysis, synthesis = zip(*mats, strict=True)
    for way in (through_matrices, through_real_matrices):
        torch.testing.assert_close(way(x, layer.full_weight(), None, layer.modes, analysis, synthesis), y)
    layer.backend = "fft"
    torch.testing.assert_close(layer(x), y, rtol=1e-10, atol=1e-13)


# --- parameters, choices, errors -------------------------------------------------------------------------------------


def test_initial_weights_are_uniform_and_reproducible():
    torch.manual_seed(3)
    a = SpectralConv(4, 8, 6)
    torch.manual_seed(3)
    b = SpectralConv(4, 8, 6)
    assert torch.equal(a.weight, b.weight)
    parts = torch.view_as_real(a.weight.detach()) * 32
    assert a.weight.shape == (12, 6, 4, 8)
    assert parts.min() >= 0
    assert parts.max() < 1
    assert abs(parts.mean() - 0.5) < 0.01
    assert abs(parts.std() - 12**-0.5) < 0.01


def test_moving_keeps_both_parts_of_complex_parameters():
    layer = SpectralConv(2, 2, 3)
    before = layer.weight.detach().clone()
    for move in (lambda m: m.double(), lambda m: m.to(torch.float64)):
        assert move(layer).weight.dtype == torch.complex128
        assert torch.equal(layer.weight.to(torch.complex64), before)
        assert layer.float().weight.dtype == torch.complex64
    assert torch.equal(layer.bfloat16().weight, before)  # there is no complex bfloat16
    assert layer.to("meta").weight.device.type == "meta"


def test_the_wave_zero_carries_the_bias():
    layer = layer_of(2, 3, 3, measure="trapezoid")
    x, b = torch.randn(1, 2, 8, 9, dtype=D), torch.randn(3, dtype=D)
    torch.testing.assert_close(layer(x, b), layer(x) + b.view(3, 1, 1), rtol=1e-12, atol=1e-14)


def test_the_cheaper_way_is_taken():
    """Matrix products win for few modes; with a quarter of all frequencies of a long axis the FFT does."""
    for modes, takes in ((16, False), (256, True)):
        layer = SpectralConv(1, 1, modes, dim=1)
        assert layer._takes_fft(layer._waves, (1024,)) is takes
        x = torch.randn(1, 1, 1024)
        y = layer(x)
        layer.backend = "dense" if takes else "fft"
        torch.testing.assert_close(layer(x), y, rtol=1e-4, atol=1e-4)


def test_the_cheapest_order_of_axes():
    assert cheapest_order((64, 64), (26, 24)) == (1, 0)
    assert cheapest_order((512, 16), (26, 16)) == (0, 1)  # shrink the long axis first


def test_matrices_are_kept_within_bounds():
    CACHE.clear()
    layer = SpectralConv(1, 1, 2)
    x = torch.randn(1, 1, 16, 16)
    layer(x)
    kept = len(CACHE)
    layer(x)
    assert len(CACHE) == kept > 0
    assert all(name in ("weight",) for name in layer.state_dict())
    assert CACHE.bytes <= CACHE.max_bytes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpectralConv(1, 1, 4, kernel="furier"), "furier"),
        (lambda: SpectralConv(1, 1, 4, backend="gpu"), "gpu"),
        (lambda: SpectralConv(1, 1, 0), "modes must be whole numbers"),
        (lambda: SpectralConv(1, 1, (2, 2, 2, 2)), "1 to 3 axes"),
        (lambda: SpectralConv(1, 1, 4, period=1.1), "kernel='quadrature'"),
        (lambda: SpectralConv(1, 1, 4, kernel="quadrature", period=0), "period must be positive"),
        (lambda: SpectralConv(1, 1, 4, padding=(0.1,)), "one per axis"),
        (lambda: SpectralConv(1, 1, 4, measure=("trapezoid",) * 3), "has 3 axes"),
        (lambda: SpectralConv(1, 1, 4)(torch.ones(1, 1, 7, 9)), r"need at least \(8, 6\) samples per axis.*\(7, 9\)"),
        (lambda: SpectralConv(1, 1, 4)(torch.ones(1, 1, 8, 5)), r"need at least \(8, 6\)"),
        (lambda: SpectralConv(2, 1, 4)(torch.ones(1, 3, 9, 9)), r"\(batch, 2, n, n\)"),
        (lambda: SpectralConv(2, 1, 4)(torch.ones(1, 2, 9)), "2-dimensional grid"),
        (
            lambda: SpectralConv(1, 1, 2, backend="fft", measure="trapezoid")(torch.ones(1, 1, 9, 9)),
            "backend='fft' needs equal weights",
        ),
    ],
)
def test_errors_say_what_to_do(make, message):
    with pytest.raises(ValueError, match=message):
        make()
