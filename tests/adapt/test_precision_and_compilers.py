"""Half precision, compiled and scripted models."""

import copy

import pytest
import torch
from torch import nn

import quadnorm as qn
from tests.adapt.models import field
from tests.adapt.ways import gaps


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_softmax_in_half_precision_is_rounded_once(dtype):
    """Logits of size 20: differences of rounded logits would be wrong by a tenth."""
    model = nn.Identity()
    model.forward = lambda x: x + torch.softmax(20 * x, -1) @ torch.ones_like(x).mT
    x = field(17)
    fixed, everywhere = (way(model, (17,), "endpoint", example=x.to(dtype)) for way in (qn.anchor, qn.extend))
    with torch.no_grad():
        exact = qn.anchor(model, (17,), "endpoint", example=x)(field(33))
        for way in (fixed, everywhere):
            assert (way(field(33).to(dtype)).float() - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_at_native_runs_scripted_and_wrapped_models():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(1, 4), nn.Conv2d(4, 1, 1)).eval()
    x, y = field(33, 33), model(field(17, 17))
    for other in (torch.jit.script(copy.deepcopy(model)), nn.DataParallel(model)):
        assert torch.allclose(qn.at_native(other, (17, 17), "endpoint")(x)[..., ::2, ::2], y, atol=1e-5)
    with pytest.raises(TypeError, match=r"quadnorm\.at_native, which runs a scripted model as it is"):
        qn.extend(torch.jit.script(copy.deepcopy(model)), 17, "endpoint")


def test_a_compiled_part():
    torch.manual_seed(0)
    part = torch.compile(nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4)), backend="eager")
    (raw, anchored, extended), _ = gaps(nn.Sequential(part, nn.Tanh(), nn.Conv2d(4, 1, 1)))
    assert anchored < 0.2 * raw
    assert extended < 1e-5
