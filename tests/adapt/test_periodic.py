"""Periodic grids leak through coordinate channels, which jump where the axis closes; ``-s`` prints the figures."""

import torch

import quadnorm as qn
from quadnorm.operators import FNO
from tests.adapt.models import field


def drift(run, model, n, m):
    with torch.no_grad():
        y0 = model(field(n, n, placement="periodic"))
        y = run(field(m, m, placement="periodic"))
    step = m // n
    return ((y[..., ::step, ::step] - y0).norm() / y0.norm()).item()


def test_coordinates_leak_and_nothing_else_does():
    torch.manual_seed(0)
    n, m = 32, 128
    model = FNO(width=8, modes=6, layers=3, norm="instance", placement="periodic").eval()
    ways = {"as it is": drift(model, model, n, m), "extended": drift(qn.extend(model, n), model, n, m)}
    with torch.no_grad():
        model.lift.weight[:, 1:] = 0
    ways["without coordinates"] = drift(model, model, n, m)
    print(ways)
    assert ways["as it is"] > 1e-3
    assert ways["without coordinates"] < 1e-5
    assert ways["extended"] < 1e-5
