"""What anchoring sees in a model: inner grids, sums in calls, what it has to leave."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from quadnorm.adapt import anchor
from quadnorm.operators import FNO


def test_models_without_values():
    with torch.device("meta"):
        model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(2, 4))
    fixed = anchor(model, 9, "endpoint")
    assert fixed(torch.empty(1, 1, 17, 17, device="meta")).shape == (1, 4, 17, 17)
    assert "not compared with the model" in str(fixed.anchor_report)
    other = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(2, 4))
    fixed.load_state_dict(other.state_dict(), assign=True)
    x = torch.randn(1, 1, 17, 17)
    assert torch.equal(fixed(x), anchor(other, 9, "endpoint")(x))


def test_modules_that_cannot_be_anchored_are_listed():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.GroupNorm(1, 4),
        nn.ZeroPad2d(2),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 2, stride=2),
        nn.BatchNorm2d(4),
        nn.AdaptiveAvgPool2d(2),
    )
    report = anchor(
        model, (16, 16), "endpoint", force=True
    ).anchor_report  # how far each way drifts depends on the draw
    reasons = {e.name: e.why for e in report.left}
    assert list(reasons) == ["0", "2", "3", "4", "5", "6"]
    assert "kernel of 3×3 samples" in reasons["0"]
    assert "pads a fixed number" in reasons["2"]
    assert "patches of 2×2 samples" in reasons["4"]
    assert "train mode" in reasons["5"]
    assert "bins" in reasons["6"]
    assert "running statistics" in anchor(model.eval(), (16, 16), "endpoint", force=True).anchor_report["5"].why
    assert list(report.to_frame()["action"]) == ["left", "anchored", *["left"] * 5]
    maximum = anchor(nn.Sequential(nn.GroupNorm(1, 4), nn.AdaptiveMaxPool2d(1)), (16, 16), "endpoint").anchor_report
    assert "picks from the samples" in maximum["1"].why


def test_sums_outside_of_modules_are_found():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.GroupNorm(1, 4)
            self.grid = nn.Parameter(torch.zeros(1, 4, 9, 9))

        def forward(self, x):
            y = self.norm(x + self.grid)
            y = torch.fft.irfft2(torch.fft.rfft2(y), s=y.shape[-2:])
            y = y / y.std((2, 3), keepdim=True)
            k = y.flatten(2)
            y = y + torch.einsum("bcn,bdn->bcd", k, k).sum((1, 2))[:, None, None, None]
            y = y * torch.einsum("bcij->bc", y)[..., None, None] + torch.einsum("bcij->bij", y)[:, None]
            return nn.functional.pad(k @ k.transpose(1, 2), (1, 1))

    report = anchor(Model(), (9, 9), "endpoint", force=True).anchor_report
    kinds = {e.kind for e in report}
    assert {"field", "call rfft2", "call irfft2", "call std", "call matmul", "call einsum"} <= kinds
    assert "call pad" not in kinds  # of a small matrix, not of the grid


CALLS = {
    "mean": lambda x: x - torch.mean(x, (2, 3), keepdim=True),
    "mean of one axis": lambda x: x - x.mean(2, keepdim=True),
    "mean of all": lambda x: x - x.mean(),
    "norm": lambda x: x / torch.linalg.vector_norm(x, dim=(2, 3), keepdim=True),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[1:]),
    "group_norm": lambda x: F.group_norm(x, 1),
    "softmax": lambda x: x * x.flatten(2).softmax(-1).view_as(x),
    "normalize": lambda x: F.normalize(x.flatten(2), dim=-1).view_as(x),
    "pool": lambda x: x - F.adaptive_avg_pool2d(x, 1),
    "maximum": lambda x: x - F.adaptive_max_pool2d(x, 1),
    "max": lambda x: x - x.max(),
    "window": lambda x: x - F.avg_pool2d(x, 3, 1, 1),
    "roll": lambda x: x - torch.roll(x, 1, -1),
    "diff": lambda x: torch.diff(x, append=x[..., :1]),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.flatten(2).transpose(1, 2)] * 3),
    "addmm": lambda x: torch.addmm(torch.zeros(4, 4), x[0].flatten(1), x[0].flatten(1).T),
    "tensordot": lambda x: torch.tensordot(x, x, dims=([2, 3], [2, 3])),
}


POINTWISE = {
    "mean": lambda x: x - x.mean(1, keepdim=True),
    "layer_norm": lambda x: F.layer_norm(x.movedim(1, -1), (4,)),
    "softmax": lambda x: x.softmax(1) + torch.softmax(x, dim=-3) + F.softmax(x, 1),
    "normalize": lambda x: F.normalize(x),
    "maximum": lambda x: torch.max(x, x.square()).max(1)[0],
    "matmul": lambda x: x.flatten(2).transpose(1, 2) @ torch.ones(4, 4),
    "roll": lambda x: torch.roll(x, 1, 1) + torch.diff(x, dim=1, append=x[:, :1]),
    "frequencies": lambda x: x + torch.fft.fftfreq(9),
}


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.norm, self.function = nn.GroupNorm(1, 4), function

    def forward(self, x):
        return self.function(self.norm(x))


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_see_the_number_of_samples_are_listed(name):
    report = anchor(Call(CALLS[name]), (9, 9), "endpoint", example=torch.randn(1, 4, 9, 9), force=True).anchor_report
    calls = [e for e in report if e.kind.startswith("call ")]
    assert calls
    assert all("sample" in e.why or e.action == "anchored" for e in calls)


@pytest.mark.parametrize("name", POINTWISE)
def test_calls_that_do_not_are_not(name):
    assert not anchor(Call(POINTWISE[name]), (9, 9), "endpoint", example=torch.randn(1, 4, 9, 9)).anchor_report.left


def test_a_model_that_gives_nan_on_random_input_is_not_called_different():
    report = anchor(Call(lambda x: x.log()), (9, 9), "endpoint", example=torch.randn(1, 4, 9, 9)).anchor_report
    assert "its own output" in report.notes[0]


def test_inner_grids_are_seen_in_the_run():
    """After a stride of two the module's own training grid is 9×9, and its native output must stay what it was."""
    model = nn.Sequential(nn.Conv2d(1, 4, 1, stride=2), nn.GroupNorm(1, 4)).double()
    fixed = anchor(model, (17, 17), "endpoint")
    x = torch.randn(2, 1, 17, 17, dtype=torch.float64)
    assert torch.equal(fixed(x), model(x))
    assert "sees 9×9 samples" in fixed.anchor_report["1"].why
    z = torch.randn(1, 1, 33, 33, dtype=torch.float64)
    inner = anchor(model[1], (9, 9), "endpoint", example=torch.randn(1, 4, 9, 9, dtype=torch.float64))
    assert torch.allclose(fixed(z), inner(model[0](z)), atol=1e-12)


def test_a_model_that_refuses_every_guess_says_why():
    """12 modes need 25 samples: no input at 17×17 can work, and the message has the model's own reason."""
    with pytest.raises(ValueError, match=r"none could be guessed; pass example=.*\n(.*\n)*  \(1, 1, 17, 17\): .*modes"):
        anchor(FNO(width=4, layers=1, modes=12), 17)
