"""Slow, obvious, float64: what every norm is compared with."""

import numpy as np
import torch
from torch import nn

MODES = [("layer", 1, 1), ("instance", 1, 4), ("group", 2, 2)]  # mode, num_groups, groups


def randomized(layer):
    """The layer with γ and β other than 1 and 0."""
    for p in layer.parameters():
        nn.init.uniform_(p, 0.5, 1.5)
    return layer


def trapezoid_weights(shape):
    """Products of h, halved at both ends; built here, not taken from the package."""
    w = np.ones(())
    for n in shape:
        a = np.ones(n)
        if n > 1:
            a[0] = a[-1] = 0.5
        w = np.multiply.outer(w, a / a.sum())
    return w


def counting_weights(shape):
    return np.full(shape, 1 / np.prod(shape))


def reference(x, w, groups=1, weight=None, bias=None, eps=1e-5, centre=True):
    """Loops over batch entries and groups; sums over whatever is there."""
    x = x.detach().double().numpy()
    w = np.asarray(w.detach().double() if isinstance(w, torch.Tensor) else w, dtype=np.float64)
    B, C = x.shape[:2]
    D = C // groups
    if w.ndim == x.ndim - 2:
        w = np.broadcast_to(w, (B, *w.shape))
    y = np.empty_like(x)
    for b in range(B):
        p = w[b] / w[b].sum()
        for g in range(groups):
            part = x[b, g * D : (g + 1) * D]
            here = p > 0
            mean = (part[:, here] * p[here]).sum() / D if centre else 0.0
            var = ((part[:, here] - mean) ** 2 * p[here]).sum() / D
            y[b, g * D : (g + 1) * D] = (part - mean) / np.sqrt(var + eps)
    shape = (1, C, *[1] * (x.ndim - 2))
    if weight is not None:
        y = y * weight.detach().double().numpy().reshape(shape)
    if bias is not None:
        y = y + bias.detach().double().numpy().reshape(shape)
    return torch.from_numpy(y)
