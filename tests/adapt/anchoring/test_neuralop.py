"""neuraloperator's models, against the installed package."""

import contextlib
import io
import pickle

import pytest
import torch
from neuralop.layers.normalization_layers import AdaIN
from neuralop.layers.spectral_convolution import SpectralConv
from neuralop.models import FNO, TFNO, UNO
from torch import nn

from quadnorm.adapt import anchor, convert
from quadnorm.adapt.anchoring.neuralop import AnchoredSpectralConv, use_quadnorm
from quadnorm.norms import BlendQuadNorm, QuadNorm
from tests.adapt.fields import orders, smooth

SMALL = {"in_channels": 1, "out_channels": 1, "hidden_channels": 6, "n_layers": 2}


def made(kind=FNO, **options):
    torch.manual_seed(0)
    options = {"n_modes": (6, 6), **SMALL, **options}
    if kind is UNO:
        options.pop("n_modes")
    with contextlib.redirect_stdout(io.StringIO()):  # UNO prints its arguments
        return kind(**options).eval()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"factorization": "tucker", "rank": 0.5},
        {"factorization": "cp", "rank": 0.5, "implementation": "factorized"},
        {"factorization": "tt", "rank": 0.5, "implementation": "factorized"},
        {"separable": True},
        {"max_n_modes": (10, 10)},
        {"resolution_scaling_factor": 2},
        {"resolution_scaling_factor": 0.5},
        {"fft_norm": "ortho", "resolution_scaling_factor": 2},
        {"fft_norm": "backward", "bias": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("grid", [(17, 17), (16, 16), (16, 17), (17, 12)], ids=str)
def test_explicit_sums_are_the_transform_on_the_training_grid(options, grid):
    """On the training grid the anchored layer calls its base; here its own sums are compared with it."""
    torch.manual_seed(0)
    layer = SpectralConv(4, 4, (6, 6), **options)
    fixed = anchor(layer, grid, example=torch.randn(1, 4, *grid))
    assert type(fixed) is AnchoredSpectralConv
    x = torch.randn(2, 4, *grid)
    with torch.no_grad():
        expected = layer(x)
        got = fixed.summed(x, tuple(expected.shape[2:]))
    assert (got - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("d", [1, 3])
def test_explicit_sums_in_other_dimensions(d):
    layer = SpectralConv(3, 2, (6,) * d)
    fixed = anchor(layer, (9,) * d, example=torch.randn(1, 3, *(9,) * d))
    x = torch.randn(2, 3, *(9,) * d)
    with torch.no_grad():
        assert (fixed.summed(x, (9,) * d) - layer(x)).abs().max() <= 1e-5 * layer(x).abs().max()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (FNO, {"norm": "instance_norm"}),
        (FNO, {"norm": "group_norm", "channel_mlp_skip": "linear"}),
        (FNO, {"norm": None, "n_modes": (6,)}),
        (TFNO, {"norm": "group_norm", "rank": 0.5}),
        (FNO, {"factorization": "cp", "rank": 0.5}),
        (FNO, {"factorization": "tt", "rank": 0.5}),
    ],
)
def test_models_keep_their_native_output_and_gain_an_order(kind, options):
    model = made(kind, **options)
    d = len(options.get("n_modes", (6, 6)))
    fixed = anchor(model, 17)
    x = torch.randn(2, 1, *(17,) * d)
    with torch.no_grad():
        assert torch.equal(fixed(x), model(x))
    assert min(orders(fixed, (17, 33, 65), d, dtype=torch.float32)) > 1.8
    assert max(orders(model, (17, 33, 65), d, dtype=torch.float32)) < 1.4
    assert not fixed.anchor_report.left


def test_odd_and_even_grids_agree_once_anchored():
    """The layer's two shifts of the spectrum cancel on even grids only, so its output jumps between 94 and 63 samples.

    Both contain the 32 training nodes, as every third and every second of theirs.
    """
    model = made(norm="instance_norm")
    jumps = []
    for m in (model, anchor(model, 32)):
        with torch.no_grad():
            y = m(smooth(94, dtype=torch.float32))[..., ::3, ::3]
            z = m(smooth(63, dtype=torch.float32))[..., ::2, ::2]
        jumps.append(((y - z).norm() / y.norm()).item())
    assert jumps[0] > 0.1
    assert jumps[1] < 0.01


def test_uno_sees_its_inner_grids():
    model = made(
        UNO,
        n_layers=3,
        lifting_channels=6,
        projection_channels=6,
        uno_out_channels=[6, 6, 6],
        uno_n_modes=[[4, 4]] * 3,
        uno_scalings=[[0.5, 0.5], [1, 1], [2, 2]],
        norm="group_norm",
        channel_mlp_skip="linear",
    )
    fixed = anchor(model, 16)
    assert {m.measure.anchor for m in fixed.modules() if isinstance(m, AnchoredSpectralConv)} == {(16, 16), (8, 8)}
    x = torch.randn(1, 1, 16, 16)
    with torch.no_grad():
        assert torch.equal(fixed(x), model(x))
        assert fixed(torch.randn(1, 1, 32, 32)).shape == model(torch.randn(1, 1, 32, 32)).shape
    assert any(e.kind == "call interpolate" for e in fixed.anchor_report.left)


def test_padding_is_listed():
    report = anchor(made(domain_padding=0.25), 17, force=True).anchor_report
    assert "pads round(" in report["domain_padding"].why


def test_ada_in():
    norm = AdaIN(3, 4, mlp=nn.Linear(3, 8))
    norm.set_embedding(torch.randn(3))
    fixed = anchor(norm, (9, 9), example=torch.randn(1, 4, 9, 9))
    weight, bias = norm.mlp(norm.embedding).detach().split(4)
    plain = nn.GroupNorm(4, 4)
    plain.weight.data, plain.bias.data = weight, bias
    z = torch.randn(2, 4, 17, 17)
    with torch.no_grad():
        assert torch.allclose(fixed(z), anchor(plain, (9, 9))(z), atol=1e-5)


def test_complex_and_half_precision_are_left_with_words():
    for options, word in (({"complex_data": True}, "complex_data"), ({"fno_block_precision": "mixed"}, "mixed")):
        layer = SpectralConv(2, 2, (4, 4), **options)
        with pytest.raises(ValueError, match=rf"{word}|worse"):  # by its calls it would be worse than as it is
            anchor(layer, (9, 9))


@pytest.mark.parametrize("placement", ["cell", "periodic"])
def test_cell_centred_and_periodic_models_do_not_change(placement):
    model = made(norm="instance_norm")
    fixed = anchor(model, 16, placement)
    assert not fixed.anchor_report.changed
    x = torch.randn(1, 1, 32, 32)
    with torch.no_grad():
        assert torch.equal(fixed(x), model(x))


def test_anchored_models_pickle():
    fixed = anchor(made(norm="instance_norm"), 17)
    again = pickle.loads(pickle.dumps(fixed))
    x = torch.randn(1, 1, 33, 33)
    with torch.no_grad():
        assert torch.equal(again(x), fixed(x))


def test_training_with_quadnorm():
    use_quadnorm()
    use_quadnorm()  # twice is once
    model = made(norm="quad:instance")
    assert all(isinstance(m, QuadNorm) and m.mode == "instance" for m in model.fno_blocks.norm)
    assert len(model.fno_blocks.norm) == 4
    model(torch.randn(1, 1, 17, 17)).sum().backward()
    assert all(p.grad is not None for p in model.fno_blocks.norm[0].parameters())
    assert isinstance(made(norm="group_norm").fno_blocks.norm[0], nn.GroupNorm)
    assert made(norm=None).fno_blocks.norm is None
    with pytest.raises(ValueError, match="unknown norm 'quadd'; did you mean 'quad'"):
        made(norm="quadd")


@pytest.mark.parametrize("norm", ["instance_norm", "group_norm"])
def test_convert(norm):
    model, report = convert(made(norm=norm), "blend")
    assert all(isinstance(m, BlendQuadNorm) and m.num_features == 6 for m in model.fno_blocks.norm)
    assert len(report.changed) == 4
    assert model(torch.randn(1, 1, 17, 17)).shape == (1, 1, 17, 17)
