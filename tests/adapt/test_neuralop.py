"""neuraloperator's models, against the installed package."""

import contextlib
import inspect
import io
import pickle
import textwrap

import pytest
import torch
from neuralop.layers import spectral_convolution
from neuralop.layers.embeddings import GridEmbeddingND
from neuralop.layers.normalization_layers import AdaIN
from neuralop.layers.spectral_convolution import SpectralConv
from neuralop.models import FNO, TFNO, UNO
from torch import nn

from quadnorm.adapt import anchor, convert, extend
from quadnorm.adapt.neuralop import use_quadnorm
from quadnorm.adapt.watching.probes import smooth_field
from quadnorm.measures import PLACEMENTS
from quadnorm.norms import BlendQuadNorm, QuadNorm
from tests.adapt.fields import orders, smooth

SMALL = {"in_channels": 1, "out_channels": 1, "hidden_channels": 6, "n_layers": 2}


def seeded(kind=FNO, **options):
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
def test_waves_that_every_grid_holds_come_out_as_in_training(options, grid):
    """Waves of the training grid's period, on the training grid and on one twice as fine whose nodes contain it."""
    torch.manual_seed(0)
    layer = SpectralConv(4, 4, (6, 6), **options)
    fixed = anchor(layer, grid, "periodic", example=torch.randn(1, 4, *grid), force=True)
    phases = torch.rand(4, 2) * 6

    def waves(*sizes):
        r, s = (2 * torch.pi * torch.arange(n) / n for n in sizes)
        return torch.stack([torch.sin(r + a)[:, None] + torch.cos(2 * s + b) for a, b in phases])[None]

    with torch.no_grad():
        coarse, fine = layer(waves(*grid)), fixed(waves(*(2 * n for n in grid)))
        if any(m % n for n, m in zip(coarse.shape[2:], fine.shape[2:], strict=True)):
            pytest.skip("half of an odd grid is not part of half of one twice as fine")
        step = tuple(slice(None, None, m // n) for n, m in zip(coarse.shape[2:], fine.shape[2:], strict=True))
    assert (fine[(..., *step)] - coarse).abs().max() <= 1e-5 * coarse.abs().max()


@pytest.mark.parametrize("d", [1, 3])
def test_other_dimensions(d):
    layer = SpectralConv(3, 2, (4,) * d)
    fixed = anchor(layer, (9,) * d, "endpoint", example=torch.randn(1, 3, *(9,) * d), force=True)
    assert min(orders(fixed, (9, 17, 33), d, 3, torch.float32)) > 1.7


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
    model = seeded(kind, **options)
    d = len(options.get("n_modes", (6, 6)))
    fixed = anchor(model, 17, "endpoint")
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
    model = seeded(norm="instance_norm")
    jumps = []
    for m in (model, anchor(model, 32, "endpoint")):
        with torch.no_grad():
            y = m(smooth(94, dtype=torch.float32))[..., ::3, ::3]
            z = m(smooth(63, dtype=torch.float32))[..., ::2, ::2]
        jumps.append(((y - z).norm() / y.norm()).item())
    assert jumps[0] > 0.1
    assert jumps[1] < 0.01


def test_uno_sees_its_inner_grids():
    model = seeded(
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
    fixed = anchor(model, 16, "endpoint")
    assert any("sees 8×8 samples" in e.why for e in fixed.anchor_report.changed)
    x = torch.randn(1, 1, 16, 16)
    with torch.no_grad():
        assert torch.equal(fixed(x), model(x))
        assert fixed(torch.randn(1, 1, 32, 32)).shape == model(torch.randn(1, 1, 32, 32)).shape
    assert any(e.kind == "call interpolate" for e in fixed.anchor_report.left)


@pytest.mark.parametrize("placement", ["endpoint", "left", "periodic", "cell"])
def test_padding_by_a_share_keeps_its_domain(placement):
    model = seeded(domain_padding=0.2, norm="instance_norm")
    n, factor = (17, 3) if placement == "cell" else (17, 2)
    fine = {"endpoint": 33, "cell": 51}.get(placement, 34)
    at = slice(factor // 2 if placement == "cell" else 0, None, factor)
    x0, x = (smooth_field((m, m), (placement,) * 2, 0)[None, None].float() for m in (n, fine))
    anchored, extended = anchor(model, n, placement), extend(model, n, placement)
    with torch.no_grad():
        native = model(x0)
        gaps = [((w(x)[..., at, at] - native).norm() / native.norm()).item() for w in (model, anchored, extended)]
        assert torch.equal(anchored(x0), native)
        assert anchored(torch.randn(1, 1, 40, 28)).shape == (1, 1, 40, 28)
    assert gaps[1] < (0.25 if placement != "cell" else 0.6) * gaps[0]
    assert gaps[2] < 1e-5
    assert any("length in space" in e.why for e in anchored.anchor_report.changed)


def test_what_the_layer_does_is_seen_not_presumed(monkeypatch):
    """neuraloperator's main branch shifts the spectrum back by ifftshift: odd grids lose no wave there."""
    source = textwrap.dedent(inspect.getsource(SpectralConv.forward))
    changed = source.replace("out_fft = torch.fft.fftshift", "out_fft = torch.fft.ifftshift")
    assert changed != source
    scope = dict(vars(spectral_convolution))
    exec(changed, scope)
    model = seeded(norm="instance_norm")
    assert any(e.call == "fftshift" for e in anchor(model, 17, "endpoint").anchor_report)
    monkeypatch.setattr(SpectralConv, "forward", scope["forward"])
    fixed = anchor(model, 17, "endpoint")
    assert not any(e.call == "fftshift" for e in fixed.anchor_report)
    assert min(orders(fixed, (17, 33, 65), 2, dtype=torch.float32)) > 1.8


def test_ada_in():
    norm = AdaIN(3, 4, mlp=nn.Linear(3, 8))
    norm.set_embedding(torch.randn(3))
    fixed = anchor(norm, (9, 9), "endpoint", example=torch.randn(1, 4, 9, 9))
    weight, bias = norm.mlp(norm.embedding).detach().split(4)
    plain = nn.GroupNorm(4, 4)
    plain.weight.data, plain.bias.data = weight, bias
    z = torch.randn(2, 4, 17, 17)
    with torch.no_grad():
        assert torch.allclose(fixed(z), anchor(plain, (9, 9), "endpoint")(z), atol=1e-5)


def test_complex_data_are_worse_anchored():
    with pytest.raises(ValueError, match="worse"):
        anchor(SpectralConv(2, 2, (4, 4), complex_data=True), (9, 9), "endpoint")


@pytest.mark.parametrize("placement", ["cell", "periodic"])
def test_on_cell_centred_and_periodic_grids_nothing_moves_but_coordinates_and_odd_grids(placement):
    model = seeded(norm="instance_norm", positional_embedding=None)
    fixed = anchor(model, 16, placement)
    assert {e.call for e in fixed.anchor_report.changed} == {"fftshift"}
    x = torch.randn(1, 1, 32, 32)
    with torch.no_grad():
        assert torch.allclose(fixed(x), model(x), atol=1e-5)


@pytest.mark.parametrize("placement", list(PLACEMENTS))
def test_coordinates_of_samples_are_those_of_training(placement):
    """A new sample halfway between two training samples has the mean of their coordinates j/n."""
    model = Coordinate()
    fine = {"endpoint": 17, "interior": 19, "cell": 27}.get(placement, 18)
    fixed = anchor(model, (9,), placement, example=torch.zeros(1, 1, 9), force=True)
    got, native = (fixed(torch.zeros(1, 1, n))[0, 0] for n in (fine, 9))
    same = {"interior": slice(1, None, 2), "cell": slice(1, None, 3)}.get(placement, slice(0, None, 2))
    assert torch.allclose(got[same], native, atol=1e-6)
    assert torch.allclose(got.diff(), got.diff()[0].expand(fine - 1), atol=1e-6)


class Coordinate(nn.Module):
    """The coordinate that neuraloperator's models add to their input, and a sum of the input."""

    def __init__(self):
        super().__init__()
        self.embedding = GridEmbeddingND(in_channels=1, dim=1, grid_boundaries=[[0, 1]])

    def forward(self, x):
        return self.embedding(x)[:, 1:] + x.mean(-1, keepdim=True)


def test_anchored_models_pickle():
    fixed = anchor(seeded(norm="instance_norm"), 17, "endpoint")
    again = pickle.loads(pickle.dumps(fixed))
    x = torch.randn(1, 1, 33, 33)
    with torch.no_grad():
        assert torch.equal(again(x), fixed(x))


def test_training_with_quadnorm():
    use_quadnorm()
    use_quadnorm()  # twice is once
    model = seeded(norm="quad:instance")
    assert all(isinstance(m, QuadNorm) and m.mode == "instance" for m in model.fno_blocks.norm)
    assert len(model.fno_blocks.norm) == 4
    model(torch.randn(1, 1, 17, 17)).sum().backward()
    assert all(p.grad is not None for p in model.fno_blocks.norm[0].parameters())
    assert isinstance(seeded(norm="group_norm").fno_blocks.norm[0], nn.GroupNorm)
    assert seeded(norm=None).fno_blocks.norm is None
    with pytest.raises(ValueError, match="unknown norm 'quadd'; did you mean 'quad'"):
        seeded(norm="quadd")


@pytest.mark.parametrize("norm", ["instance_norm", "group_norm"])
def test_convert(norm):
    model, report = convert(seeded(norm=norm), "blend")
    assert all(isinstance(m, BlendQuadNorm) and m.num_features == 6 for m in model.fno_blocks.norm)
    assert len(report.changed) == 4
    assert model(torch.randn(1, 1, 17, 17)).shape == (1, 1, 17, 17)


@pytest.mark.parametrize("way", [anchor, extend])
@pytest.mark.parametrize("padding", [None, 0.25])
def test_under_autocast(way, padding):
    """A captured graph in bfloat16: near the run in single precision, with derivatives, copied and moved."""
    model = seeded(norm="instance_norm", domain_padding=padding, n_layers=1)
    adapted = way(model, 17, "endpoint", **({"force": True} if way is anchor else {}))
    x = torch.randn(2, 1, 33, 33, generator=torch.Generator().manual_seed(0))
    single = adapted(x)
    for other in (adapted, pickle.loads(pickle.dumps(adapted)).train().to("cpu")):
        with torch.autocast("cpu", torch.bfloat16):
            low = other(x)
        assert not other.obstacles
        assert low.dtype == torch.bfloat16
        assert 1e-4 < (low - single).norm() / single.norm() < 5e-2
        low.float().square().mean().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in other.parameters())
