"""Fields among the inputs: labels, complex numbers, fields without channels, dicts."""

from itertools import product

import pytest
import torch
from torch import nn

import quadnorm as qn
from quadnorm.adapt import shifted_runs
from quadnorm.carry.grids import carry
from tests.adapt.small import FINE, N, field, mean


class Labelled(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.n, self.d = nn.Embedding(3, 4), nn.GroupNorm(1, 4), nn.Conv2d(4, 1, 1)

    def forward(self, k):
        return self.d(self.n(self.e(k[:, 0]).movedim(-1, 1)).tanh())


def test_labels_are_restricted_to_the_nearest_sample():
    model, k = Labelled(), (2.9 * torch.rand(1, 1, FINE, FINE)).long()
    native = model(k[..., ::2, ::2])
    extended = qn.extend(model, N, "endpoint", example=k[..., ::2, ::2])
    torch.testing.assert_close(extended(k)[..., ::2, ::2], native)
    assert not torch.allclose(extended(k), model(k), atol=1e-3)
    torch.testing.assert_close(qn.at_native(model, N, "endpoint", interpolate="nearest")(k)[..., ::2, ::2], native)
    assert carry(torch.tensor([0, 3, 3, 0, 3]), (4,)).tolist() == [0, 3, 0, 3]
    assert carry(torch.tensor([True, False, True]), (5,)).dtype == torch.bool


def test_labels_at_points():
    model, k = Labelled(), (2.9 * torch.rand(1, 1, *N)).long()
    points = torch.tensor([[0.0, 0.0], [0.26, 0.49], [1.0, 1.0]])
    y = qn.extend(model, N, "endpoint", example=k).at_points(points, k)
    torch.testing.assert_close(y[0, 0], model(k)[0, 0][[0, 2, 8], [0, 4, 8]])


def test_complex_fields_keep_their_imaginary_parts():
    class Waves(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv1d(1, 2, 1)

        def forward(self, x):
            y = self.c(x)
            return torch.complex(y[:, :1], y[:, 1:])

    model, x = Waves(), torch.rand(1, 1, FINE)
    torch.testing.assert_close(qn.at_native(model, 9, "endpoint")(x)[..., ::2], model(x[..., ::2]))


class Forced(nn.Module):
    """A forcing (n, n) shared by all samples, or one each (B, n, n)."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(1, 1, 1)

    def forward(self, x, forcing):
        forcing = forcing if forcing.ndim == 2 else forcing[:, None]
        return (self.c(x) - mean(x)) * forcing


@pytest.mark.parametrize("way", [qn.at_native, qn.extend])
@pytest.mark.parametrize("own", [False, True])
def test_fields_without_channels_are_restricted_too(way, own):
    model, x = Forced(), field(FINE, batch=2)
    forcing = x[:, 0] if own else x[0, 0]
    options = {} if way is qn.at_native else {"example": (x[..., ::2, ::2], forcing[..., ::2, ::2])}
    y = way(model, N, "endpoint", **options)(x, forcing)
    torch.testing.assert_close(y[..., ::2, ::2], model(x[..., ::2, ::2], forcing[..., ::2, ::2]))


def test_at_native_takes_a_dict():
    class Named(nn.Module):
        def forward(self, batch):
            return {"u": batch["a"] - mean(batch["a"])}

    x = field(FINE)
    y = qn.at_native(Named(), N, "endpoint")({"a": x})["u"]
    torch.testing.assert_close(y[..., ::2, ::2], x[..., ::2, ::2] - mean(x[..., ::2, ::2]))


def test_outputs_on_other_grids_than_the_input():
    class Stress(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(1, 9, 1)

        def forward(self, x):
            return self.c(x).mean((-2, -1)).view(-1, 1, 3, 3)

    assert qn.at_native(Stress(), N, "endpoint")(field(FINE)).shape == (1, 1, 3, 3)
    finer = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Upsample(scale_factor=2))
    assert qn.at_native(finer, (8, 8), placement="cell")(field(24)).shape == (1, 1, 48, 48)
    assert qn.at_native(nn.Conv2d(1, 1, 3, 2, 1), N, "endpoint")(field(FINE)).shape == (1, 1, 9, 9)


class History(nn.Module):
    """``b t c h w``, the form of weather models: times and channels mixed at each sample, then a norm."""

    def __init__(self, order="b t c h w"):
        super().__init__()
        self.order, self.mix, self.norm = order, nn.Conv2d(6, 4, 1), nn.GroupNorm(1, 4)

    def forward(self, x):
        names = self.order.split()
        x = x.permute([names.index(n) for n in "btchw"]).flatten(1, 2)
        y = self.norm(self.mix(x)).tanh().unflatten(1, (2, 2))
        return y.permute(["btchw".index(n) for n in names])


@pytest.mark.parametrize(
    ("way", "order"),
    [
        *product([qn.extend, qn.at_native, shifted_runs], ["b t c h w", "b h w t c", "t b h c w", "b w t h c"]),
        *product([qn.anchor], ["b t c h w", "b h w t c"]),
    ],
)
def test_axes_by_name(way, order):
    torch.manual_seed(0)
    model, names = History(order), order.split()
    space = [names.index("h"), names.index("w")]
    coarse = torch.randn([{"b": 2, "t": 2, "c": 3, "h": 5, "w": 9}[n] for n in names])
    x = carry(coarse.movedim(space, (-2, -1)), (9, 17)).movedim((-2, -1), space)
    layout = f"{order} | h w"  # the grid is 5×9 in the order h, w, wherever they stand
    options = {} if way is qn.at_native else {"example": coarse}
    adapted = way(model, (5, 9), "endpoint", layout=layout, **options)
    y, native = adapted(x), model(coarse)
    at = tuple(slice(None, None, 2) if k in space else slice(None) for k in range(5))
    assert y.shape[names.index("h")] == 9
    gap = (y[at] - native).norm() / native.norm()
    assert gap < (0.3 if way is qn.anchor else 1e-5)


def test_samples_in_a_row_by_name_and_outputs_of_another_layout():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.head = nn.Linear(2, 6), nn.Linear(6, 1)

        def forward(self, x, mask):
            y = self.lift(x) * mask.flatten(1)[..., None]
            y = y - y.mean(1, keepdim=True)
            return self.head(y).mT.unflatten(-1, mask.shape[1:]), y.mean(1)

    model = Tokens()
    layout = "b (h w) c, b h w -> b c h w, b c"
    x, mask = torch.randn(2, 45, 2), torch.rand(2, 5, 9)
    extended = qn.extend(model, (5, 9), "endpoint", layout=layout, example=(x, mask))
    fine, wide = torch.randn(2, 9 * 17, 2), torch.rand(2, 9, 17)
    y, mean = extended(fine, wide)
    coarse = fine.unflatten(1, (9, 17))[:, ::2, ::2].flatten(1, 2)
    native, native_mean = model(coarse, wide[:, ::2, ::2])
    torch.testing.assert_close(y[..., ::2, ::2], native, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(mean, native_mean)
    carried, _ = qn.at_native(model, (5, 9), "endpoint", layout=layout)(fine, wide)
    assert carried.shape == (2, 1, 9, 17)
    torch.testing.assert_close(carried[..., ::2, ::2], native)


def test_random_numbers_in_named_axes():
    extended = qn.extend(History(), (9, 9), "endpoint", layout="b t c h w", example=torch.randn(1, 2, 3, 9, 9))
    assert "guessed" not in str(extended.extend_report)

    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Linear(3, 3)

        def forward(self, x):  # b h w t c
            return self.mix(x) - x.mean((1, 2), keepdim=True)

    y = qn.extend(Last(), (9, 9), "endpoint", layout="b h w t c")(torch.randn(2, 17, 17, 4, 3))
    assert y.shape == (2, 17, 17, 4, 3)


def test_what_was_guessed_is_said():
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4))
    assert "layout: first, (B, C, *spatial), guessed; the first input has shape (1, 1, 9, 9)" in str(
        qn.extend(model, (9, 9), "endpoint").extend_report
    )
    assert "layout='first'" in repr(qn.at_native(model, (9, 9), "endpoint"))


class LastOfTwo(nn.Module):
    """Channels last, two arguments: random numbers in one tensor do not run it."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(3, 1)

    def forward(self, x, force):
        return self.mix(torch.cat([x, force], -1))


def test_a_layout_is_seen_at_the_first_call():
    model = LastOfTwo()
    native = qn.at_native(model, (9, 9), "endpoint")
    assert "seen at the first call" in repr(native)
    x, force = torch.randn(1, 17, 17, 1), torch.randn(1, 17, 17, 2)
    torch.testing.assert_close(native(x, force)[:, ::2, ::2], model(x[:, ::2, ::2], force[:, ::2, ::2]))
    assert native.layout == "last"
    with pytest.raises(ValueError, match=r"could not be guessed \(as first.*as last.*pass layout="):
        qn.at_native(LastOfTwo(), (9, 9), "endpoint")(x, torch.randn(1, 17, 17, 5))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("b t c h", "but the grid has 2"),
        ("b c h w z", r"h, w, z, but the grid has 2.*\| h w"),
        ("b c (h w", "open bracket"),
        ("b c h) w", "brackets that do not match"),
        ("b c () h w", "nothing in them"),
        ("b c h h", "twice"),
        ("b ... h w", "no name of an axis"),
        ("b c h w | h v", "has the grid's axes h, v"),
        ("b c -> b c h w", "no argument with all"),
        ("firts", "first"),
    ],
)
def test_bad_layouts(layout, message):
    with pytest.raises(ValueError, match=message):
        qn.at_native(nn.Identity(), (9, 9), "endpoint", layout=layout)


def test_samples_in_a_row_behind_the_channels_are_guessed():
    model = nn.Sequential(nn.Conv1d(3, 4, 1), nn.GroupNorm(1, 4), nn.Tanh(), nn.Conv1d(4, 1, 1))
    x = torch.randn(1, 3, 17 * 17)
    coarse = x.unflatten(-1, (17, 17))[..., ::2, ::2].flatten(2)
    extended = qn.extend(model, (9, 9), "endpoint", example=coarse)
    assert extended.layout == "b c (s0 s1)"
    y = extended(x, grid=(17, 17)).unflatten(-1, (17, 17))[..., ::2, ::2].flatten(2)
    torch.testing.assert_close(y, model(coarse), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lead", [(), (2,)])
def test_fields_without_channels_or_batch(lead):
    class Bare(nn.Module):
        def forward(self, x):
            return x / x.mean((-2, -1), keepdim=True)

    coarse = 1 + torch.rand(*lead, 9, 9)
    fine = carry(coarse, (17, 17))
    y = qn.extend(Bare(), (9, 9), "endpoint", example=coarse)(fine)
    torch.testing.assert_close(y[..., ::2, ::2], Bare()(coarse), rtol=1e-5, atol=1e-6)


def test_masks_of_tokens_and_of_their_pairs():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x, absent, blind):
            return self.attention(x, x, x, key_padding_mask=absent, attn_mask=blind, need_weights=False)[0]

    torch.manual_seed(0)
    model = Masked().eval()
    x, absent = torch.randn(2, 25, 4), torch.rand(2, 25) > 0.8
    blind = torch.rand(25, 25) > 0.9
    fine = carry(x.unflatten(1, (5, 5)).movedim(-1, 1), (9, 9)).flatten(2).mT
    wide = carry(absent.unflatten(1, (5, 5)), (9, 9)).flatten(1)
    pairs = carry(carry(blind.unflatten(1, (5, 5)), (9, 9)).flatten(1).mT.unflatten(1, (5, 5)), (9, 9)).flatten(1).mT
    native = qn.at_native(model, (5, 5), "endpoint", layout="tokens")
    y = native(fine, wide, pairs, grid=(9, 9)).unflatten(1, (9, 9))[:, ::2, ::2].flatten(1, 2)
    torch.testing.assert_close(y, model(x, absent, blind), rtol=1e-5, atol=1e-6)


class Ocean(nn.Module):
    """As ocean U-Nets have it: a mask as an argument, land set to zero, a mean over the sea."""

    def __init__(self):
        super().__init__()
        self.lift, self.head = nn.Conv2d(1, 4, 1), nn.Conv2d(4, 1, 1)

    def forward(self, x, sea):
        y = self.lift(x) * sea[:, None]
        return self.head(y - y.sum((2, 3), keepdim=True) / sea.sum((1, 2))[:, None, None, None]) * sea[:, None]


def test_land_goes_to_the_training_grid_as_a_fraction():
    """A coarse cell that is half land counts half in the sums, which are then those of the fine sea."""
    torch.manual_seed(0)
    model = Ocean()
    layout = "b c h w, b h w @mean -> b c h w"
    x, sea = torch.ones(1, 1, 16, 16), torch.zeros(1, 16, 16)
    sea[..., :9, :] = 1  # the fifth row of coarse cells is half land
    example = torch.randn(1, 1, 8, 8), torch.ones(1, 8, 8)
    totals = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.ocean = model

        def forward(self, x, sea):
            totals.append(sea.detach().mean())
            return self.ocean(x, sea)

    native = qn.at_native(Spy(), (8, 8), "cell", layout=layout)
    native(x, sea)
    torch.testing.assert_close(totals[-1], sea.mean())
    nearest = qn.at_native(Spy(), (8, 8), "cell", layout=layout.replace("@mean", "@nearest"))
    nearest(x, sea)
    assert abs(float(totals[-1] - sea.mean())) > 0.05
    extended = qn.extend(model, (8, 8), "cell", layout=layout, example=example)
    rough = torch.randn(1, 1, 16, 16)
    y = extended(rough, sea)
    assert bool((y[..., 9:, :] == 0).all())  # the new grid's own coast
    with pytest.raises(ValueError, match="mean"):
        qn.at_native(model, (8, 8), "cell", layout="b c h w, b h w @means")
