"""Numbers among the arguments of a call belong to that call: those that count samples move with the grid."""

import pytest
import torch
from torch import nn

from quadnorm.adapt.watching.counts import Count, counts_of
from tests.adapt.small import FINE, WAYS, N, field, mean


class Pointwise(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.c, self.scale, self.form = nn.Conv2d(1, 1, 1), 1.0, form

    def forward(self, x, *more):
        return self.form(self, self.c(x), x, *more)


FORMS = {
    "argument": lambda m, h, x, dt=0.1: x + dt * (h - mean(h)),
    "attribute": lambda m, h, x, dt=0.1: (h - mean(h)) * m.scale,
    "power": lambda m, h, x, dt=0.1: (h - mean(h) + 9) ** dt,
    "alpha": lambda m, h, x, dt=0.1: x.add(h - mean(h), alpha=dt),
    "maximum": lambda m, h, x, dt=0.1: x / x.abs().max().item() - mean(h),
    "elements": lambda m, h, x, dt=0.1: h - h.sum() / h.numel(),
    "root": lambda m, h, x, dt=0.1: h / h.norm() * h.numel() ** 0.5,
    "rows": lambda m, h, x, dt=0.1: x - h.reshape(-1).sum() / h.reshape(-1, 1).shape[0],
    "steps": lambda m, h, x, dt=0.1: (h - mean(h)) / (h.shape[-1] - 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_a_used_model_does_what_a_new_one_does(way, form):
    """Another number, attribute, batch or scale of the data than in the first call."""
    torch.manual_seed(0)
    model = Pointwise(FORMS[form])
    used = way(model, N, "endpoint")
    used(field(FINE))
    for m in (model, used.model):
        m.scale = 2.5
    x = 3 * field(FINE, batch=4)
    y = used(x, 0.7)
    torch.testing.assert_close(y, way(model, N, "endpoint")(x, 0.7), rtol=1e-5, atol=1e-6)
    if form != "steps":  # 1/(n − 1) is the training grid's on every grid
        plain = model(x, 0.7)
        assert (y - plain).norm() < 0.06 * plain.norm()


def test_numbers_that_move():
    grid, refined = (9, 5), (17, 9)
    counts = counts_of((9 * 5 * 4, 0.5, 8, 1 / 9, 7), [(17 * 5 * 4, 0.5, 16, 1 / 17, 9), (9 * 9 * 4, 0.5, 8, 1 / 9, 7)],
                   grid, refined)  # fmt: skip
    elements, fixed, steps, inverse, odd = counts
    assert fixed is None
    assert (elements.powers, steps.powers, inverse.powers) == (
        ((0, 1.0), (0, 1.0)), ((1, 1.0), (0, 0.0)), ((0, -1.0), (0, 0.0))
    )  # fmt: skip
    assert odd == Count(7, None)
    now = elements.on_training_grid(33 * 17 * 12, grid, (33, 17))
    assert isinstance(now, int)
    assert now == 9 * 5 * 12
    assert steps.on_training_grid(32, grid, (33, 17)) == 8
