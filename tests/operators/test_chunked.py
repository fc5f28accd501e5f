"""Evaluation in strips gives what evaluation at once gives."""

import pytest
import torch

from quadnorm import Anchored, Blend, Grid
from quadnorm.operators import FNO

D = torch.float64


def build(**options):
    torch.manual_seed(0)
    model = FNO(2, 3, width=8, modes=3, layers=3, projection=8, **options).double()
    for name, p in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(p)
    return model


@pytest.mark.parametrize(
    "norm",
    [
        "none",
        "layer",
        "token",
        "instance",
        "group:4",
        "rms",
        "quad",
        "blend",
        "blend:learned",
        "anchored:9:instance",
        "quadrms",
        "learnablequad",
        "resconditioned",
        "quadband",
    ],
)
def test_every_norm(norm):
    model = build(norm=norm, measure="trapezoid")
    x = torch.randn(2, 2, 11, 9, dtype=D)
    with torch.no_grad():
        torch.testing.assert_close(model.forward_chunked(x, rows=4), model(x), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "hermitian"},
        {"measure": Anchored(9)},
        {"measure": Blend(0.5, Grid("trapezoid"))},
        {"gain": True, "measure": "trapezoid"},
        {"residual": False},
        {"residual": "inside"},
        {"padding": 0.25},
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [1, 5, 100])
def test_every_option(options, rows):
    model = build(**options)
    x = torch.randn(1, 2, 12, 10, dtype=D)
    with torch.no_grad():
        torch.testing.assert_close(model.forward_chunked(x, rows), model(x), rtol=1e-9, atol=1e-11)


def test_other_dimensions():
    for dim, shape in ((1, (20,)), (3, (6, 7, 8))):
        torch.manual_seed(0)
        model = FNO(dim=dim, width=4, modes=2, layers=2).double()
        x = torch.randn(1, 1, *shape, dtype=D)
        with torch.no_grad():
            torch.testing.assert_close(model.forward_chunked(x, 3), model(x), rtol=1e-9, atol=1e-11)


def test_less_memory():
    """Peak of the tensors alive, counted by PyTorch's own allocations: about one field instead of several."""
    from torch.profiler import ProfilerActivity, profile

    model = FNO(width=16, modes=4, layers=2)
    x = torch.randn(2, 1, 128, 128)
    field = 16 * 128 * 128 * 4
    peaks = []
    with torch.no_grad():
        for call in (lambda: model(x), lambda: model.forward_chunked(x, 8)):
            call()
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
                call()
            now = peak = 0
            for e in p.profiler.kineto_results.events():
                if e.name() == "[memory]":
                    now += e.nbytes()
                    peak = max(peak, now)
            peaks.append(peak / field)
    assert peaks[1] < 2.5 < 4 < peaks[0], peaks


def test_rows_must_be_positive():
    with pytest.raises(ValueError, match="rows must be 1 or more"):
        build().forward_chunked(torch.ones(1, 2, 12, 12, dtype=D), 0)
