"""Anchored PyTorch modules: the model at n0 to the last bit, the training grid's measure elsewhere."""

import copy

import pytest
import torch
from torch import nn

from quadnorm.adapt import CannotFollowError, anchor
from quadnorm.measures import Anchored
from tests.adapt.fields import orders, smooth


def weights(n, n0):
    """(1−1/n0)·trapezoid + (1/n0)·(δ_first + δ_last)/2, written out."""
    w = torch.full((n,), (1 - 1 / n0) / (n - 1), dtype=torch.float64)
    w[0] = w[-1] = (1 - 1 / n0) / (2 * (n - 1)) + 1 / (2 * n0)
    return w


def moments(x, n0, axes):
    """Mean and variance over ``axes`` of x (B, C, n, n), spatial weights as above, channels equal."""
    w = torch.outer(weights(x.shape[2], n0), weights(x.shape[3], n0))
    share = w / (x.shape[1] if 1 in axes else 1)
    mean = (x * share).sum(axes, keepdim=True)
    return mean, ((x - mean) ** 2 * share).sum(axes, keepdim=True)


def shaken(module):
    """Random γ and β."""
    for p in module.parameters():
        nn.init.normal_(p)
    return module.double()


@pytest.mark.parametrize(
    ("norm", "axes"),
    [
        (nn.GroupNorm(1, 4), (1, 2, 3)),
        (nn.GroupNorm(4, 4), (2, 3)),
        (nn.InstanceNorm2d(4, affine=True), (2, 3)),
        (nn.InstanceNorm2d(4), (2, 3)),
    ],
)
def test_norms_take_the_anchored_moments(norm, axes):
    norm = shaken(norm)
    fixed = anchor(norm, (9, 9), "endpoint")
    x = torch.randn(2, 4, 9, 9, dtype=torch.float64)
    assert torch.equal(fixed(x), norm(x))
    z = torch.randn(2, 4, 17, 13, dtype=torch.float64)
    mean, var = moments(z, 9, axes)
    expected = (z - mean) / torch.sqrt(var + norm.eps)
    if norm.weight is not None:
        expected = expected * norm.weight.view(-1, 1, 1) + norm.bias.view(-1, 1, 1)
    assert torch.allclose(fixed(z), expected, atol=1e-12)


def test_group_norm_with_several_groups():
    norm = shaken(nn.GroupNorm(2, 6))
    z = torch.randn(2, 6, 17, 17, dtype=torch.float64)
    parts = []
    for half in z.split(3, dim=1):
        mean, var = moments(half, 9, (1, 2, 3))
        parts.append((half - mean) / torch.sqrt(var + norm.eps))
    expected = torch.cat(parts, 1) * norm.weight.view(-1, 1, 1) + norm.bias.view(-1, 1, 1)
    assert torch.allclose(anchor(norm, (9, 9), "endpoint")(z), expected, atol=1e-12)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("order", ["channels first", "channels last", "space only"])
def test_layer_norm_over_space(affine, order):
    """γ and β belong to the training samples; at a grid that contains them they keep their values there."""
    shape = {"channels first": (3, 9, 9), "channels last": (9, 9, 3), "space only": (9, 9)}[order]
    norm = shaken(nn.LayerNorm(shape, elementwise_affine=affine))
    fixed = anchor(norm, (9, 9), "endpoint", example=torch.randn(2, *shape, dtype=torch.float64))
    x = torch.randn(2, *shape, dtype=torch.float64)
    assert torch.equal(fixed(x), norm(x))
    fine = tuple(17 if n == 9 else n for n in shape)
    z = torch.randn(2, *fine, dtype=torch.float64)
    field = {"channels first": z, "channels last": z.movedim(-1, 1), "space only": z[:, None]}[order]
    mean, var = moments(field, 9, (1, 2, 3))
    expected = (field - mean) / torch.sqrt(var + norm.eps)
    expected = {"channels first": expected, "channels last": expected.movedim(1, -1), "space only": expected[:, 0]}[
        order
    ]
    got = fixed(z)
    coarse = {"channels first": 2, "channels last": 1, "space only": 1}[order]
    pick = (slice(None),) * coarse + (slice(None, None, 2),) * 2
    if affine:
        assert torch.allclose(got[pick], expected[pick] * norm.weight + norm.bias, atol=1e-11)
    else:
        assert torch.allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("shape", [(3, 9, 9), (9, 9)])
def test_rms_norm_over_space(shape, eps):
    """x / √(Σ w x² + ε), ε of the number format unless given; γ keeps its values at the training samples."""
    norm = shaken(nn.RMSNorm(shape, eps=eps))
    fixed = anchor(norm, (9, 9), "endpoint", example=torch.randn(2, *shape, dtype=torch.float64))
    x = torch.randn(2, *shape, dtype=torch.float64)
    assert torch.equal(fixed(x), norm(x))
    z = 1 + torch.randn(2, *shape[:-2], 17, 17, dtype=torch.float64)
    w = torch.outer(weights(17, 9), weights(17, 9)) / (3 if len(shape) == 3 else 1)
    axes = tuple(range(1, z.ndim))
    scale = ((z**2 * w).sum(axes, keepdim=True) + (torch.finfo(torch.float64).eps if eps is None else eps)).sqrt()
    assert torch.allclose(fixed(z)[..., ::2, ::2], (z / scale)[..., ::2, ::2] * norm.weight, atol=1e-11)
    report = fixed.anchor_report[""]
    assert (report.kind, report.action) == ("RMSNorm", "anchored")
    assert "values at training samples, interpolated to other grids" in report.why


def test_norms_across_channels_are_no_spatial_sums():
    """RMSNorm over channels, response normalization and BatchNorm in eval mode: silent in the report, and no leak."""
    torch.manual_seed(0)
    norms = nn.LocalResponseNorm(3), nn.BatchNorm2d(4), LastAxis(nn.RMSNorm(4)), nn.GroupNorm(1, 4)
    fixed = anchor(nn.Sequential(nn.Conv2d(1, 4, 1), *norms).double().eval(), (9, 9), "endpoint")
    assert [(e.name, e.action) for e in fixed.anchor_report] == [("2", "unchanged"), ("4", "anchored")]
    assert min(orders(fixed, (17, 33, 65, 129))) > 1.9


class LastAxis(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return self.norm(x.movedim(1, -1)).movedim(-1, 1)


def test_token_wise_layer_norm_is_no_spatial_sum():
    norms = nn.Sequential(nn.GroupNorm(1, 8), LastAxis(nn.LayerNorm(8)))
    assert [e.name for e in anchor(norms, (9, 9), "endpoint").anchor_report] == ["0"]


def test_a_linear_over_all_samples_is_refused():
    """It has no meaning on another grid: a copy that runs at the training grid alone would be the model itself."""
    model = nn.Sequential(nn.GroupNorm(1, 8), nn.Flatten(2), nn.Linear(81, 8), nn.LayerNorm(8))
    with pytest.raises(CannotFollowError, match=r"runs on 9×9 but not on other grids .*quadnorm\.at_native"):
        anchor(model, (9, 9), "endpoint")


@pytest.mark.parametrize("d", [1, 2, 3])
def test_pools_and_instance_norms_in_every_dimension(d):
    pool = getattr(nn, f"AdaptiveAvgPool{d}d")(1)
    norm = getattr(nn, f"InstanceNorm{d}d")(2)
    model = nn.Sequential(norm, nn.GELU(), pool).double()
    fixed = anchor(model, (9,) * d, "endpoint", force=True)
    x = torch.randn(2, 2, *(9,) * d, dtype=torch.float64)
    assert torch.equal(fixed(x), model(x))
    sizes = (9, 17, 33) if d == 3 else (9, 17, 33, 65)
    assert min(orders(fixed, sizes, d, 2)) > 1.9
    assert max(orders(model, sizes, d, 2)) < 1.4


def test_pool_is_the_anchored_mean():
    z = torch.randn(2, 3, 17, 13, dtype=torch.float64)
    expected = torch.einsum("bcij,i,j->bc", z, weights(17, 9), weights(13, 9))[..., None, None]
    assert torch.allclose(anchor(nn.AdaptiveAvgPool2d(1), (9, 9), "endpoint")(z), expected, atol=1e-13)


def test_modules_behind_a_pool_are_no_means():
    """On one sample Flatten gives what a mean would; on several it does not, and is left alone."""
    torch.manual_seed(0)
    gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4), nn.Unflatten(1, (4, 1, 1)))
    fixed = anchor(gate.double(), (9, 9), "endpoint", example=torch.randn(1, 4, 9, 9, dtype=torch.float64))
    assert [(e.name, e.action) for e in fixed.anchor_report] == [("0", "anchored")]
    x = torch.randn(2, 4, 17, 17, dtype=torch.float64)
    weights = Anchored((9, 9)).weights((17, 17))
    assert torch.allclose(fixed(x), gate[1:](torch.einsum("bcij,ij->bc", x, weights)[..., None, None]), atol=1e-12)


def test_unbatched_input_and_flattened_grids():
    norm = nn.InstanceNorm2d(3)
    fixed, batched = (
        anchor(norm, (9, 9), "endpoint", example=torch.randn(3, 9, 9), layout="c h w"),
        anchor(norm, (9, 9), "endpoint"),
    )
    z = torch.randn(3, 17, 17)
    assert torch.allclose(fixed(z), batched(z[None])[0], atol=1e-6)
    flat = anchor(nn.GroupNorm(1, 3), (9, 9), "endpoint", example=torch.randn(1, 3, 81))
    kept = anchor(nn.GroupNorm(1, 3), (9, 9), "endpoint")
    for grid in ((5, 5), (32, 128), (27, 3)):  # the last has as many samples as the training grid
        far = torch.randn(1, 3, *grid)
        assert torch.allclose(flat(far.flatten(2), grid=grid).view_as(far), kept(far), atol=1e-5)
    with pytest.raises(ValueError, match="4096 samples in a row do not say which grid they make; pass grid="):
        flat(torch.randn(1, 3, 32 * 128))
    with pytest.raises(ValueError, match=r"grid=\(32, 128\) has 4096 samples, but the input has 4160"):
        flat(torch.randn(1, 3, 64 * 65), grid=(32, 128))


def test_a_model_that_flattens_its_field_knows_the_grid():
    """32×128 samples in a row used to be taken for 64×64."""
    flattens = anchor(
        nn.Sequential(nn.Flatten(2), nn.GroupNorm(1, 3)), (8, 8), "endpoint", example=torch.randn(1, 3, 8, 8)
    )
    kept = anchor(nn.GroupNorm(1, 3), (8, 8), "endpoint")
    x = torch.randn(1, 3, 32, 128)
    assert torch.allclose(flattens(x).view_as(x), kept(x), atol=1e-5)


class Doubled(nn.Module):
    def forward(self, p):
        return 2 * p


NORMS = [nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.LayerNorm((4, 9, 9))]


@pytest.mark.parametrize("norm", NORMS, ids=lambda m: type(m).__name__)
def test_parametrized_norms_keep_their_parametrization(norm):
    nn.init.normal_(norm.weight)
    doubled = nn.utils.parametrize.register_parametrization(copy.deepcopy(norm), "weight", Doubled())
    with torch.no_grad():
        norm.weight.mul_(2)
    x, native = torch.randn(1, 4, 17, 17), torch.randn(1, 4, 9, 9)
    expected = anchor(norm, (9, 9), "endpoint", example=native, force=True)(x)
    fixed = anchor(doubled, (9, 9), "endpoint", example=native, force=True)
    assert torch.allclose(fixed(x), expected, atol=1e-5)
    nn.utils.parametrize.remove_parametrizations(fixed.model, "weight")
    assert torch.allclose(fixed(x), expected, atol=1e-5)


def test_a_mean_of_ones_own_is_recognised_by_what_it_does():
    class Mine(nn.Module):
        def forward(self, x):
            return x.flatten(2).mean(2)

    class Maximum(nn.Module):
        def forward(self, x):
            return x.amax((2, 3))

    model = nn.Sequential(nn.Conv2d(1, 3, 1), nn.GELU(), Mine()).double()
    fixed = anchor(model, (9, 9), "endpoint")
    assert (fixed.anchor_report["2"].kind, fixed.anchor_report["2"].action) == ("call mean", "anchored")
    assert min(orders(fixed, (9, 17, 33, 65))) > 1.9
    left = anchor(
        nn.Sequential(nn.Conv2d(1, 3, 1), nn.GroupNorm(1, 3), Maximum()), (9, 9), "endpoint"
    ).anchor_report.left
    assert [(e.name, e.call) for e in left] == [("2", "amax")]


@pytest.mark.parametrize("placement", ["cell", "periodic"])
def test_cell_centred_and_periodic_models_do_not_change(placement):
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.AdaptiveAvgPool2d(1))
    fixed = anchor(model, (8, 8), placement)
    assert not fixed.anchor_report.changed
    assert len(fixed.anchor_report.unchanged) == 3
    for n in (8, 11, 16):
        x = torch.randn(2, 1, n, n)
        assert torch.equal(fixed(x), model(x))


def test_placement_per_axis():
    """Endpoint along the first axis, periodic along the second: only the first carries a boundary mass."""
    z = torch.randn(1, 1, 17, 10, dtype=torch.float64)
    fixed = anchor(nn.AdaptiveAvgPool2d(1), (9, 8), ("endpoint", "periodic"))
    expected = torch.einsum("bcij,i->bc", z, weights(17, 9)) / 10
    assert torch.allclose(fixed(z)[..., 0, 0], expected, atol=1e-14)


def test_left_placement_keeps_the_training_grids_measure():
    """Gaps fill [0, 1−1/n0]; on a finer left grid the integral of r under it is the mean of r on n0 samples."""
    fixed = anchor(nn.AdaptiveAvgPool1d(1), (8,), "left")
    r = torch.arange(32, dtype=torch.float64) / 32
    assert fixed(r[None, None]).item() == pytest.approx(sum(j / 8 for j in range(8)) / 8, abs=1e-12)


def test_smooth_field_helper_is_not_symmetric():
    x = smooth(9)[0, 0]
    assert (x - x.flip(0)).abs().max() > 0.1
