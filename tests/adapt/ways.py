"""How far each way is from the native run, on a model and smooth fields."""

import torch

import quadnorm as qn
from tests.adapt.models import field


def gaps(model, n=17, d=2, ways=("anchor", "extend")):
    """Relative distances from the run on n samples, at its nodes, on 2n − 1 samples: as it is, then by ``ways``."""
    model.eval()
    x, fine = field(*[n] * d), field(*[2 * n - 1] * d)
    nodes = (..., *[slice(None, None, 2)] * d)
    adapted = [getattr(qn, way)(model, (n,) * d, "endpoint", example=x) for way in ways]
    with torch.no_grad():
        native = model(x)
        assert all(torch.allclose(way(x), native, rtol=1e-5, atol=1e-6) for way in adapted)
        return [((way(fine)[nodes] - native).norm() / native.norm()).item() for way in (model, *adapted)], adapted
