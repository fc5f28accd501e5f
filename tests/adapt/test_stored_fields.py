"""Fields of the training grid's size, and values computed out of sight."""

import pytest
import torch
from torch import nn

import quadnorm as qn
from tests.adapt.models import Calls, field


class Stored(nn.Module):
    """Coordinates kept in a buffer of the training grid's size, beside the input or chosen by a mask."""

    def __init__(self, form):
        super().__init__()
        r = torch.linspace(0, 1, 17)
        self.form = form
        self.register_buffer("grid", torch.stack(torch.meshgrid(r, r, indexing="ij"))[None])
        self.lift, self.head = nn.Conv2d(3 if form == "cat" else 1, 6, 1), nn.Conv2d(6, 1, 1)

    def forward(self, x):
        if self.form == "cat":
            h = self.lift(torch.cat([x, self.grid.repeat(len(x), 1, 1, 1)], 1))
        elif self.form == "stack":
            h = self.lift(torch.stack([x[:, 0], self.grid[:, 0]], 1).sum(1, keepdim=True))
        else:
            h = torch.maximum(self.lift(x), self.grid[:, :1])
        return self.head(torch.tanh(h - h.mean((2, 3), keepdim=True)))


@pytest.mark.parametrize("form", ["cat", "stack", "maximum"])
def test_stored_coordinates_are_interpolated(form):
    torch.manual_seed(0)
    model, x = Stored(form).eval(), field(17, 17)
    with pytest.raises(RuntimeError):
        model(field(33, 33))
    fixed, everywhere = qn.anchor(model, 17, "endpoint", example=x), qn.extend(model, 17, "endpoint", example=x)
    with torch.no_grad():
        native = model(x)
        for way, tolerance in ((fixed, 1e-2), (everywhere, 1e-5)):
            assert (way(field(33, 33))[..., ::2, ::2] - native).norm() < tolerance * native.norm()
    assert fixed.anchor_report["grid"].action == "unchanged"
    assert "interpolated to other grids" in fixed.anchor_report["grid"].why


def _numpy_mean(h):
    return torch.from_numpy(h.detach().numpy().mean((2, 3), keepdims=True))


def test_a_mean_by_numpy_is_that_of_the_input_at_hand():
    """Out of PyTorch's sight: the training grid's value, of this input and not of the one that was looked at."""
    torch.manual_seed(0)
    model = Calls(lambda h: h - _numpy_mean(h) + h.mean((2, 3), keepdim=True) ** 2).eval()
    fixed, everywhere = (way(model, 17, "endpoint", example=field(17, 17)) for way in (qn.anchor, qn.extend))
    with torch.no_grad():
        native = model(3 * field(17, 17))
        for way in (fixed, everywhere):
            assert (way(3 * field(33, 33))[..., ::2, ::2] - native).norm() < 1e-2 * native.norm()
    for report in (fixed.anchor_report, everywhere.extend_report):
        assert any(e.kind == "value" and "NumPy" in e.why for e in report)
    with pytest.raises(ValueError, match="outside of PyTorch's calls"):
        qn.anchor(Calls(lambda h: h - _numpy_mean(h)), 17, "endpoint", example=field(17, 17))


def test_a_bias_as_long_as_the_grid_has_samples_is_no_field():
    """81 channels on 9×9 samples: the model runs on every grid, so nothing in it has one value per sample."""
    model = nn.Sequential(nn.Conv2d(1, 81, 1), nn.GELU(), nn.GroupNorm(1, 81), nn.Conv2d(81, 1, 1))
    report = qn.anchor(model, 9, "endpoint").anchor_report
    assert not report.left
    assert report.title.endswith("1 sum anchored, 0 left")
    assert not qn.audit(model, lambda n: field(n, n), [9, 17], placement="endpoint").left


def test_a_field_that_the_model_resamples_itself():
    class Resampled(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.place, self.head = (
                nn.Conv2d(1, 4, 1),
                nn.Parameter(torch.randn(1, 4, 9, 9)),
                nn.Conv2d(4, 1, 1),
            )

        def forward(self, x):
            place = nn.functional.interpolate(self.place, x.shape[-2:], mode="bilinear", align_corners=True)
            h = torch.tanh(self.lift(x) + place)
            return self.head(h - h.mean((2, 3), keepdim=True))

    report = qn.anchor(Resampled(), 9, "endpoint", force=True).anchor_report
    assert report["place"].action == "unchanged"
    assert report["place"].why.endswith("the model takes them to other grids itself")
