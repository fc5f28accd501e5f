"""Checkpoints and what happens inside them."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import quadnorm as qn
from tests.adapt.small import FINE, WAYS, N, field, mean


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True:UserWarning")
def test_what_cannot_be_seen_is_listed():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(1, 1, 1)

        def forward(self, x):
            return checkpoint(lambda v: v - mean(self.c(v)), x, use_reentrant=True) * mean(x)

    (entry,) = (e for e in qn.anchor(Block(), N, "endpoint").anchor_report if e.action == "left")
    assert "PyTorch hides the sums inside it" in entry.why


@pytest.mark.parametrize("way", WAYS)
def test_checkpoints_change_nothing(way):
    class Block(nn.Module):
        def __init__(self, keep):
            super().__init__()
            self.c, self.keep = nn.Conv2d(1, 1, 1), keep

        def forward(self, x):
            part = lambda v: (v - mean(self.c(v))).tanh()  # noqa: E731
            return part(x) if self.keep else checkpoint(part, x, use_reentrant=False)

    plain, saving = Block(True), Block(False)
    saving.load_state_dict(plain.state_dict())
    results = []
    for model in (plain, saving):
        adapted, x = way(model, N, "endpoint"), field(FINE).requires_grad_()
        y = adapted(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), [x, *adapted.parameters()])])
    torch.testing.assert_close(*results)
    saving(field(FINE)).sum().backward()  # and by itself as before
