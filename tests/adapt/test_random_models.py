"""Random small models: the report lists exactly what numerical probing shows, and the native values hold."""

import re
from collections import Counter

import pytest
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
MIXING = {  # what it is, the calls in it that mix samples, and whether a measure can be set for them
    "mean": (lambda x: x - x.mean((2, 3), keepdim=True), ["mean"], True),
    "std": (lambda x: x / x.flatten(2).std(-1)[..., None, None], ["std"], True),
    "moments": (lambda x: torch.addcmul(*torch.var_mean(x, (2, 3), keepdim=True), x), ["var_mean"], True),
    "group_norm": (lambda x: F.group_norm(x, 2), ["group_norm"], True),
    "softmax": (lambda x: x * x.flatten(2).softmax(-1).view_as(x), ["softmax"], True),
    "fourier": (
        lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * (torch.arange(x.shape[3] // 2 + 1) < 3), s=x.shape[2:]),
        ["rfft2", "irfft2"],
        True,
    ),
    "galerkin": (
        lambda x: torch.einsum("bcd,bdij->bcij", torch.einsum("bcij,bdij->bcd", x, x) / x[0, 0].numel(), x),
        ["einsum"],
        True,
    ),
    "attention": (
        lambda x: F.scaled_dot_product_attention(*[x.flatten(2).mT] * 3).mT.reshape(x.shape),
        ["scaled_dot_product_attention"],
        True,
    ),
    "amax": (lambda x: x - x.amax((2, 3), keepdim=True), ["amax"], False),
    "conv": (lambda x: F.conv2d(x, torch.ones(4, 1, 3, 3) / 9, padding=1, groups=4), ["conv2d"], False),
    "roll": (lambda x: x - x.roll(1, -1), ["roll"], False),
    "rows": (lambda x: x - x.mean(-1, keepdim=True), ["mean"], True),
    "pool": (lambda x: x * F.adaptive_avg_pool2d(x, 1), ["adaptive_avg_pool2d"], True),
}
FUNCTIONS = {**{n: (f, [], False) for n, f in POINTWISE.items()}, **MIXING}


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


def lines(report):
    """What a report lists, (kind, anchored or not), as often as it says."""
    for entry in report:
        times = re.search(r"\((\d+) times\)$", entry.why)
        yield from [(entry.kind, entry.action == "anchored")] * int(times[1] if times else 1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_probing_shows_what_the_table_says(name):
    function, calls, _ = FUNCTIONS[name]
    assert mixes(function) == bool(calls)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from([*FUNCTIONS]), min_size=1, max_size=4))
def test_the_reports_are_what_probing_shows(names):
    """Line by line: every call that mixes samples, and nothing else; and the native values hold."""
    torch.manual_seed(0)
    model = Chain([FUNCTIONS[n][0] for n in names]).eval()
    expected = Counter((f"call {c}", settable) for n in names for _, calls, settable in [FUNCTIONS[n]] for c in calls)
    extended = qn.extend(model, (9, 9), "endpoint", example=field(9, 9))
    kinds: Counter[str] = Counter(kind for kind, _ in expected.elements())
    assert Counter(kind for kind, _ in lines(extended.extend_report)) == kinds, str(extended.extend_report)
    native = model(field(9, 9))
    with torch.no_grad():
        fine = extended(field(17, 33))[..., ::2, ::4]
    assert (fine - native).norm() <= 1e-4 * native.norm() + 1e-5
    if not any(settable for _, settable in expected):
        with pytest.raises(ValueError, match="no spatial sum"):
            qn.anchor(model, (9, 9), "endpoint", example=field(9, 9))
        return
    anchored = qn.anchor(model, (9, 9), "endpoint", example=field(9, 9), force=True)
    assert Counter(lines(anchored.anchor_report)) == expected, str(anchored.anchor_report)
    torch.testing.assert_close(anchored(field(9, 9)), native, rtol=1e-4, atol=1e-5)
