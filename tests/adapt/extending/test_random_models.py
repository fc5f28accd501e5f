"""Random small models: the report lists exactly what numerical probing shows, and the native values hold."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from tests.adapt.models import field

POINTWISE = {
    "gelu": F.gelu,
    "channel mean": lambda x: x - x.mean(1, keepdim=True),
    "channel softmax": lambda x: x.softmax(1),
    "channels last": lambda x: F.layer_norm(x.movedim(1, -1), (4,)).movedim(-1, 1),
    "scale": lambda x: x * 0.5 + 1,
    "channel product": lambda x: torch.einsum("bcij,dc->bdij", x, torch.ones(4, 4) / 4),
}
MIXING = {
    "mean": lambda x: x - x.mean((2, 3), keepdim=True),
    "std": lambda x: x / x.flatten(2).std(-1)[..., None, None],
    "group_norm": lambda x: F.group_norm(x, 2),
    "softmax": lambda x: x * x.flatten(2).softmax(-1).view_as(x),
    "fourier": lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 0.5, s=x.shape[2:]),
    "galerkin": lambda x: torch.einsum("bcd,bdij->bcij", torch.einsum("bcij,bdij->bcd", x, x) / x[0, 0].numel(), x),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.flatten(2).mT] * 3).mT.reshape(x.shape),
    "amax": lambda x: x - x.amax((2, 3), keepdim=True),
    "conv": lambda x: F.conv2d(x, torch.ones(4, 1, 3, 3) / 9, padding=1, groups=4),
    "roll": lambda x: x - x.roll(1, -1),
    "rows": lambda x: x - x.mean(-1, keepdim=True),
    "pool": lambda x: x * F.adaptive_avg_pool2d(x, 1),
}


class Chain(nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.lift, self.functions = nn.Conv2d(1, 4, 1), functions

    def forward(self, x):
        x = self.lift(x)
        for f in self.functions:
            x = f(x)
        return x


def mixes(function):
    """Whether a change of one sample reaches another."""
    x = torch.randn(1, 4, 9, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64).float()
    y = x.clone()
    y[..., 4, 5] += 0.5
    change = (function(y) - function(x)).abs().amax(1)[0]
    change[4, 5] = 0
    return bool(change.max() > 1e-6)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from([*POINTWISE, *MIXING]), min_size=1, max_size=4))
def test_the_report_is_what_probing_shows(names):
    torch.manual_seed(0)
    functions = [{**POINTWISE, **MIXING}[n] for n in names]
    model = Chain(functions).eval()
    extended = qn.extend(model, (9, 9), example=field(9, 9))
    assert bool(extended.extend_report.entries) == any(mixes(f) for f in functions), str(extended.extend_report)
    with torch.no_grad():
        fine, native = extended(field(17, 33))[..., ::2, ::4], model(field(9, 9))
    assert (fine - native).norm() <= 1e-4 * native.norm() + 1e-5
