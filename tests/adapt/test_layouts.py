"""Fields among the inputs: labels, complex numbers, fields without channels, dicts."""

import pytest
import torch
from torch import nn

import quadnorm as qn
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
    extended = qn.extend(model, N, example=k[..., ::2, ::2])
    torch.testing.assert_close(extended(k)[..., ::2, ::2], native)
    assert not torch.allclose(extended(k), model(k), atol=1e-3)
    torch.testing.assert_close(qn.at_native(model, N, interpolate="nearest")(k)[..., ::2, ::2], native)
    assert carry(torch.tensor([0, 3, 3, 0, 3]), (4,)).tolist() == [0, 3, 0, 3]
    assert carry(torch.tensor([True, False, True]), (5,)).dtype == torch.bool


def test_labels_at_points():
    model, k = Labelled(), (2.9 * torch.rand(1, 1, *N)).long()
    points = torch.tensor([[0.0, 0.0], [0.26, 0.49], [1.0, 1.0]])
    y = qn.extend(model, N, example=k).at_points(points, k)
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
    torch.testing.assert_close(qn.at_native(model, 9)(x)[..., ::2], model(x[..., ::2]))


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
    y = way(model, N, **options)(x, forcing)
    torch.testing.assert_close(y[..., ::2, ::2], model(x[..., ::2, ::2], forcing[..., ::2, ::2]))


def test_at_native_takes_a_dict():
    class Named(nn.Module):
        def forward(self, batch):
            return {"u": batch["a"] - mean(batch["a"])}

    x = field(FINE)
    y = qn.at_native(Named(), N)({"a": x})["u"]
    torch.testing.assert_close(y[..., ::2, ::2], x[..., ::2, ::2] - mean(x[..., ::2, ::2]))


def test_outputs_on_other_grids_than_the_input():
    class Stress(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(1, 9, 1)

        def forward(self, x):
            return self.c(x).mean((-2, -1)).view(-1, 1, 3, 3)

    assert qn.at_native(Stress(), N)(field(FINE)).shape == (1, 1, 3, 3)
    finer = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Upsample(scale_factor=2))
    assert qn.at_native(finer, (8, 8), placement="cell")(field(24)).shape == (1, 1, 48, 48)
    assert qn.at_native(nn.Conv2d(1, 1, 3, 2, 1), N)(field(FINE)).shape == (1, 1, 9, 9)
