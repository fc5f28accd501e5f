"""Models that take (B, *spatial, C): audited as they are, with the numbers of the same model with channels first."""

import pytest
import torch
from torch import nn

from quadnorm.adapt import audit
from tests.adapt.fields import smooth


class Last(nn.Module):
    """A classic form: channels last outside, first inside."""

    def __init__(self, d):
        super().__init__()
        torch.manual_seed(0)
        self.lift, self.norm, self.head = nn.Linear(1, 4), nn.GroupNorm(2, 4), nn.Linear(4, 1)
        self.d = d

    def forward(self, x):
        v = self.norm(self.lift(x).movedim(-1, 1)).movedim(1, -1)
        return self.head(torch.tanh(v) + v.mean(tuple(range(1, self.d + 1)), keepdim=True))


class First(Last):
    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


def line(n):
    return torch.exp(torch.linspace(0, 1, n, dtype=torch.float64))[None, None]


@pytest.mark.parametrize(("d", "field"), [(1, line), (2, smooth)])
def test_numbers_are_those_of_the_model_with_channels_first(d, field):
    sizes = [9, 17, 33]

    def last(n):
        x = field(n).movedim(1, -1)
        return x, 2 * x

    plain = audit(First(d).double(), lambda n: (field(n), 2 * field(n)), sizes, placement="endpoint")
    found = audit(Last(d).double(), last, sizes, placement="endpoint")
    assert [(r.name, r.kind) for r in found.leaks] == [(r.name, r.kind) for r in plain.leaks]
    assert {r.name for r in found.leaks} == {"norm", ""}  # the norm, and the mean in the model's own forward
    assert found.totals == plain.totals
    assert found.errors == plain.errors
    assert found.recommendation == plain.recommendation
    assert "model" not in {r.name for r in found.rows}


def test_samples_in_a_row_are_refused_with_what_to_do():
    model = Last(1).double()
    with pytest.raises(ValueError, match=r"81 samples in a row.*wrap the model"):
        audit(model, lambda n: smooth(n).flatten(2).movedim(1, -1), [9, 17], placement="endpoint")
