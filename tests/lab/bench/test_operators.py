"""The benchmark's peers are the same functions as what they are compared with."""

import torch

from quadnorm.lab.bench.operators import EinsumTransolver, RFFT2Conv, neuraloperator_fno, run
from quadnorm.operators import FNO, SpectralConv, Transolver


def test_the_einsum_form_is_the_same_network():
    torch.manual_seed(0)
    model = Transolver(width=16, heads=2, layers=2)
    for p in model.parameters():
        if p.ndim > 1:
            torch.nn.init.normal_(p, std=0.3)
    x = torch.randn(2, 1, 9, 10)
    torch.testing.assert_close(model(x), EinsumTransolver(model)(x), rtol=1e-4, atol=1e-4)


def test_the_rfft2_form_is_the_same_layer():
    torch.manual_seed(0)
    ours, theirs = SpectralConv(4, 4, 3), RFFT2Conv(4, 3)
    with torch.no_grad():
        ours.weight[:3] = theirs.corners[0].permute(2, 3, 0, 1)
        ours.weight[3:] = theirs.corners[1].permute(2, 3, 0, 1).flip(0)
    x = torch.randn(2, 4, 12, 11)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-6)


def test_the_other_fno_is_of_the_same_size():
    """Same width, modes, layers and head: a ratio below 1 is not owed to a larger peer."""
    peer = neuraloperator_fno()
    assert peer is not None
    ours = sum(p.numel() for p in FNO().parameters())
    theirs = sum(p.numel() for p in peer.parameters())
    assert abs(theirs / ours - 1) < 0.1


def test_rows_are_complete():
    rows = run(sizes=(24,), threads=(1,), repeats=1, largest=64, memory=32)
    assert [r["peer"] for r in rows] == [
        "neuraloperator FNO",
        "rfft2 form",
        "einsum form",
        "linear",
        "linear",
        "itself",
        "whole",
    ]
    assert all(r["seconds"] > 0 and r["ratio"] > 0 for r in rows)
