"""What cannot be adapted is refused in plain words; what differs in one call is carried in that call alone."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm.adapt import CannotFollowError
from tests.adapt.models import Calls, field
from tests.adapt.ways import gaps


class Factorized(nn.Module):
    """Waves along one axis at a time of a padded field, as in F-FNO."""

    def __init__(self, pad=5):
        super().__init__()
        self.pad, self.lift, self.head = pad, nn.Conv2d(1, 6, 1), nn.Conv2d(6, 1, 1)
        self.weights = nn.Parameter(torch.randn(2, 6, 6, 4, dtype=torch.cfloat) / 6)

    def along(self, h, dim, weight):
        waves = torch.fft.rfft(h, dim=dim).movedim(dim, -1)
        kept = torch.zeros_like(waves)
        kept[..., :4] = torch.einsum("bixk,iok->boxk", waves[..., :4], weight)
        return torch.fft.irfft(kept.movedim(-1, dim), n=h.shape[dim], dim=dim)

    def forward(self, x):
        h = F.pad(self.lift(x), (0, self.pad, 0, self.pad))
        for _ in range(2):
            h = h + torch.tanh(self.along(h, -1, self.weights[0]) + self.along(h, -2, self.weights[1]))
        return self.head(h[..., : x.shape[-2], : x.shape[-1]])


def test_transforms_along_one_axis_of_a_padded_field_are_carried():
    torch.manual_seed(0)
    (raw, anchored, extended), (_, everywhere) = gaps(Factorized())
    assert anchored < 0.5 * raw
    assert extended < 1e-5
    actions = {e.call: e.action for e in everywhere.extend_report}
    assert actions == {"rfft": "carried", "irfft": "replayed"}


UNKNOWN = {  # functions over samples that are in no table
    "renorm": lambda h: torch.renorm(h.flatten(2).flatten(0, 1), 2, 0, 1.0).reshape(h.shape),
    "multi_dot": lambda h: torch.linalg.multi_dot([h[0, 0], h[0, 1].T, h[0, 2]])[None, None],
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_call_that_differs_is_carried_and_named(name):
    torch.manual_seed(0)
    model = Calls(lambda h: h + UNKNOWN[name](h) + h.mean((2, 3), keepdim=True)).eval()
    everywhere = qn.extend(model, 17, "endpoint", example=field(17, 17))
    lines = {e.call: (e.action, e.why) for e in everywhere.extend_report}
    assert lines["mean"][0] == "replayed"
    assert lines[name][0] == "carried"
    assert "differs from the run at the training grid" in lines[name][1]
    with torch.no_grad():
        fine, native = everywhere(2 * field(33, 33))[..., ::2, ::2], model(2 * field(17, 17))
    assert (fine - native).norm() < 1e-5 * native.norm()


class Stateful(nn.Module):
    """Adds what it gave the last time."""

    def __init__(self):
        super().__init__()
        self.lift, self.before = nn.Conv2d(1, 1, 1), None

    def forward(self, x):
        y = self.lift(x) - x.mean((2, 3), keepdim=True)
        y = y if self.before is None else y + self.before
        self.before = y.detach()
        return y


@pytest.mark.parametrize("way", [qn.anchor, qn.extend])
def test_a_stateful_model_is_called_stateful(way):
    with pytest.raises(CannotFollowError, match="the model is stateful"):
        way(Stateful(), (9, 9), "endpoint", example=field(9, 9))


class Normalised(nn.Module):
    """A pointwise normaliser: a mean and a spread for each training sample."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.linspace(0, 1, 8)[:, None] * torch.linspace(1, 2, 8))
        self.register_buffer("spread", 1 + 0.1 * torch.linspace(0, 1, 8)[:, None] * torch.linspace(1, 2, 8))

    def forward(self, x):
        return self.net((x - self.mean) / self.spread)


@pytest.mark.parametrize("placement", ["endpoint", "cell", "periodic"])
def test_a_pointwise_normaliser_is_taken_to_other_grids(placement):
    """Its fields are interpolated, also where counting is the integral and no sum changes."""
    torch.manual_seed(0)
    model = Normalised(nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4), nn.Conv2d(4, 1, 1)))
    with pytest.raises(RuntimeError):
        model(field(16, 16))
    fixed = qn.anchor(model, 8, placement, example=field(8, 8, placement=placement), force=True)
    assert fixed(field(16, 16, placement=placement)).shape == (1, 1, 16, 16)
    assert "interpolated to other grids" in fixed.anchor_report["mean"].why


class Positions(nn.Module):
    """A table of positions for patches of the training grid, as in vision transformers."""

    def __init__(self, table):
        super().__init__()
        self.patch, self.back = nn.Conv2d(1, 8, 4, 4), nn.ConvTranspose2d(8, 1, 4, 4)
        waves = torch.sin(torch.arange(16.0)[:, None] * torch.arange(8) / 8)[None]
        if table == "learned":
            self.table = nn.Parameter(torch.randn(1, 16, 8))
        else:  # as SimpleViT has them
            self.register_buffer("table", waves, persistent=False)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        h = self.patch(x)
        tokens = self.layer(h.flatten(2).mT + self.table)
        return self.back(tokens.mT.reshape(h.shape))


class Mixing(nn.Module):
    """Positions of patches, mixed by their waves, as in DPOT."""

    def __init__(self):
        super().__init__()
        self.patch, self.back = nn.Conv2d(1, 8, 4, 4), nn.ConvTranspose2d(8, 1, 4, 4)
        self.table, self.norm = nn.Parameter(torch.randn(1, 8, 4, 4)), nn.GroupNorm(2, 8)

    def forward(self, x):
        h = self.patch(x) + self.table
        waves = torch.fft.rfft2(self.norm(h), norm="ortho")
        return self.back(h + torch.fft.irfft2(waves * waves.abs().tanh(), s=h.shape[-2:], norm="ortho"))


class Latent(nn.Module):
    """Tokens of latent space for a fixed number of patches, as in LSM."""

    def __init__(self):
        super().__init__()
        self.lift, self.head = nn.Conv2d(1, 8, 1), nn.Conv2d(8, 1, 1)
        self.tokens = nn.Parameter(torch.randn(4, 8))

    def forward(self, x):
        v = self.lift(x)
        patches = v.reshape(-1, 8, 4, 4, 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, 16, 8)
        latent = (self.tokens @ patches.mT).softmax(-1) @ patches
        patches = patches + (patches @ latent.mT).softmax(-1) @ latent
        v = patches.reshape(-1, 4, 4, 4, 4, 8).permute(0, 5, 1, 3, 2, 4).reshape(-1, 8, 16, 16)
        return self.head(v)


@pytest.mark.parametrize("make", [lambda: Positions("learned"), lambda: Positions("waves"), Mixing, Latent])
def test_a_model_of_one_grid_is_refused(make):
    """It would be the model, and raise at the first grid that is another one."""
    with pytest.raises((CannotFollowError, ValueError), match=r"does not run on other grids|found no spatial sum"):
        qn.anchor(make().eval(), (16, 16), "cell", example=field(16, 16), force=True)


@pytest.mark.parametrize("way", ["anchor", "extend", "at_native"])
@pytest.mark.parametrize("last", [False, True])
def test_an_example_tells_how_many_axes_there_are(way, last):
    """Pointwise maps by one-dimensional convolutions on flattened grids say nothing of the grid's axes."""

    class Flattened(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Conv1d(1, 4, 1)

        def forward(self, x):
            x = x.movedim(-1, 1) if last else x
            v = self.map(x.flatten(2)).unflatten(2, x.shape[2:])
            y = v - v.mean((2, 3), keepdim=True)
            return y.movedim(1, -1) if last else y

    x = torch.randn(2, 9, 9, 1) if last else torch.randn(2, 1, 9, 9)
    new = torch.randn(2, 17, 17, 1) if last else torch.randn(2, 1, 17, 17)
    adapted = getattr(qn, way)(Flattened(), 9, "endpoint", example=x)
    assert adapted(new).shape == ((2, 17, 17, 4) if last else (2, 4, 17, 17))
