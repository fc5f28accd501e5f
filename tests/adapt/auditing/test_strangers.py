"""Audits of models as strangers write them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from tests.adapt.models import Calls, field


def test_audit_of_a_model_that_returns_several_fields():
    torch.manual_seed(0)

    class Several(Calls):
        def forward(self, x):
            h = self.lift(x)
            return {"u": super().forward(x), "more": (h, h.amax((2, 3)))}

    result = qn.audit(
        Several(lambda h: h - h.mean((2, 3), keepdim=True)), lambda n: field(n, n), [17, 33, 65], placement="endpoint"
    )
    assert [row.kind for row in result.leaks][:1] == ["call mean"]
    assert result.order["anchored"] == pytest.approx(2.0, abs=0.3)


def test_audit_measures_what_leads_to_a_grid_of_its_own():
    """Strided and transposed convolutions, pools and resampling have rows, and do not hide the others."""
    torch.manual_seed(0)
    down, up = nn.Conv2d(6, 6, 3, stride=2, padding=1), nn.ConvTranspose2d(6, 6, 2, stride=2)
    model = nn.Sequential(nn.Conv2d(1, 6, 1), down, nn.GELU(), up, nn.GroupNorm(1, 6), nn.Conv2d(6, 1, 1))
    data = lambda n: field(n, n, placement="cell")  # noqa: E731
    result = qn.audit(model, data, [32, 64], placement="cell")
    assert {row.name for row in result.leaks} >= {"1", "3"}
    pyramid = Calls(lambda h: F.interpolate(F.avg_pool2d(h, 2), scale_factor=2.0))
    rows = {row.kind: row.introduced for row in qn.audit(pyramid, data, [32, 64], placement="cell").leaks}
    assert set(rows) == {"call avg_pool2d", "call interpolate"}


def test_audit_says_that_nothing_could_be_compared():
    def scan(h):
        state, states = torch.zeros_like(h[..., 0]), []
        for j in range(h.shape[-1]):
            state = 0.9 * state + 0.1 * h[..., j]
            states.append(state)
        return torch.stack(states, -1)

    torch.manual_seed(0)
    assert "no module or call could be compared" in str(
        qn.audit(Calls(scan, dim=1), field, [9, 17], placement="endpoint")
    )
