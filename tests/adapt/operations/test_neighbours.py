"""Differences, running sums and recurrences over neighbouring samples."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from tests.adapt.models import Calls, field
from tests.adapt.ways import gaps


def _derivative(x, form):
    n = x.shape[-1]
    if form == "pad":
        return F.pad((x[..., 2:] - x[..., :-2]) * (n - 1) / 2, (1, 1), mode="replicate")
    d, dx = torch.zeros_like(x), (1 / (n - 1) if form == "written" else torch.tensor(1 / (n - 1)))
    d[..., 1:-1] = (x[..., 2:] - x[..., :-2]) / (2 * dx)
    d[..., 0], d[..., -1] = (x[..., 1] - x[..., 0]) / dx, (x[..., -1] - x[..., -2]) / dx
    return d


@pytest.mark.parametrize("form", ["pad", "written", "tensor"])
def test_differences_keep_the_new_grids_spacing(form):
    """The mean is anchored; a derivative by differences is left, divided by the new grid's spacing."""
    torch.manual_seed(0)
    model = Calls(lambda h: h - h.mean(-1, keepdim=True) + 0.1 * _derivative(h, form), dim=1)
    (raw, anchored), (fixed,) = gaps(model, 33, 1, ["anchor"])
    assert anchored < 0.5 * raw
    assert {e.kind: e.action for e in fixed.anchor_report} == {"call mean": "anchored", "call getitem": "left"}


def test_what_cannot_be_extended_is_not_recommended():
    torch.manual_seed(0)
    model = Calls(lambda h: h - h.mean(-1, keepdim=True) + 0.1 * _derivative(h, "written"), dim=1)
    result = qn.audit(model, field, [33, 65], placement="endpoint")
    assert "extended" not in result.totals
    assert result.recommendation.startswith("transfer")


def test_running_sums_are_divided_by_as_many_as_they_have():
    """Σ_{i≤j} h_i / n is left, of O(h): halved by the training grid's n it would be wrong by O(1)."""
    torch.manual_seed(0)
    model = Calls(lambda h: h.cumsum(-1) / h.shape[-1] - h.mean(-1, keepdim=True), dim=1).eval()
    fixed = qn.anchor(model, (33,), "endpoint", example=field(33), force=True)
    with torch.no_grad():
        native, fine = model(field(33)), fixed(field(65))[..., ::2]
    assert (fine - native).norm() < 0.03 * native.norm()


@pytest.mark.parametrize(("cell", "sequence"), [(nn.GRU, True), (nn.LSTM, True), (nn.GRU, False)])
def test_recurrent_layers(cell, sequence):
    """Along the samples a recurrence is carried, and listed; over a sequence that each sample has, it is not."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = cell(1, 6, batch_first=True), nn.Linear(6, 1)

        def forward(self, x):
            tokens = x.mT if sequence else x.mT.reshape(-1, 1, 1).expand(-1, 3, 1)
            y = self.head(self.cell(tokens)[0])
            return (y if sequence else y[:, -1].reshape(len(x), -1, 1)).mT - x.mean(-1, keepdim=True)

    torch.manual_seed(0)
    (_, _, extended), (fixed, everywhere) = gaps(Recurrent(), 17, 1)
    assert extended < 1e-5
    left = [e.call for e in fixed.anchor_report.left if e.call in ("gru", "lstm")]
    carried = [e.kind for e in everywhere.extend_report if e.action == "carried" and e.kind != "call getitem"]
    assert len(left) == len(carried) == (1 if sequence else 0)
