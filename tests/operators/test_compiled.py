"""Operators and norms through PyTorch's default compiler, code generation included: minutes."""

import copy

import pytest
import torch
from torch import nn

from quadnorm.norms import make_norm
from tests.operators.test_tools import build, trained_alike

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # inductor's and the C++ compiler's own


@pytest.mark.parametrize("name", ["fno", "galerkin", "transolver"])
def test_training_steps(name):
    """One graph without breaks for several sizes, and the same parameters afterwards."""
    model = build(name, norm="quad", measure="trapezoid")
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        compiled = torch.compile(model, fullgraph=True, dynamic=True)
        trained_alike(compiled, copy.deepcopy(model), sizes=(9, 8, 17))


NORMS = ["quad", "quad:instance", "blend", "anchored:9", "rms", "layer", "instance"]


@pytest.mark.parametrize("name", NORMS)
def test_constant_fields_in_eval_mode(name):
    """BatchNorm in eval mode, ELU, a norm of a constant: inductor gives GroupNorm rounding errors times 1/√ε there.

    That is pytorch issue 181696. A quadrature norm gives exactly β, eager and compiled. Norms that promise PyTorch's
    own result have its fault, and are compared on fields that vary only.
    """
    torch.manual_seed(0)
    tower = nn.Sequential(nn.BatchNorm2d(4), nn.ELU(), make_norm(name, 4), nn.ELU()).eval()
    constant, varied = torch.full((3, 4, 9, 9), 0.7), torch.randn(3, 4, 9, 9)
    torch._dynamo.reset()
    compiled = torch.compile(tower, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(varied), tower(varied), atol=2e-6, rtol=1e-5)
        if name not in ("layer", "instance", "anchored:9"):
            torch.testing.assert_close(compiled(constant), tower(constant), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["quad:instance", "rms:instance"])
def test_large_fields_in_eval_mode(name):
    """Where inductor's InstanceNorm is 2e-5 from eager (pytorch issues 142839, 141541): sums one after another."""
    torch.manual_seed(0)
    layer = make_norm(name, 3).eval()
    x = torch.randn(1, 3, 1024, 1024) + 3
    exact = copy.deepcopy(layer).double()(x.double())
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True)
    with torch.no_grad():
        assert (compiled(x) - exact).abs().max() < 5e-6
        assert (layer(x) - exact).abs().max() < 5e-6


def test_a_vanishing_mean_after_the_norm():
    """InstanceNorm, average, unit length (pytorch issue 183601): the average is 0 up to rounding, so the rest is noise.

    What can be asked is that the weighted average is 0 to the last digits, eager and compiled.
    """
    layer = make_norm("quad:instance", 3, affine=False).eval()
    w = layer.measure.weights((10, 12), dtype=torch.float32)
    x = torch.randn(4, 3, 10, 12)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (layer(x) * w).sum((2, 3)), fullgraph=True)
    assert compiled(x).abs().max() < 1e-6
