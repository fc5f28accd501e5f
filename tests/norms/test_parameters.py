"""γ, β and the constructor's numbers: what is refused, and what is taken from other libraries."""

import numpy as np
import pytest
import torch
from torch import nn

from quadnorm import AnchoredNorm, BlendQuadNorm, QuadNorm, quad_norm
from quadnorm.measures import Grid


@pytest.mark.parametrize("name", ["weight", "bias"])
@pytest.mark.parametrize("length", [3, 8])
def test_parameters_of_another_length_are_refused(kernel, name, length):
    """PyTorch's norms refuse them; a kernel would read what lies behind the last one."""
    layer, x = QuadNorm(4), torch.randn(2, 4, 6, 5)
    layer(x)
    getattr(layer, name).data = torch.ones(length)
    for grad in (True, False):
        with torch.set_grad_enabled(grad), pytest.raises(ValueError, match=f"{name} has shape .*4 channels"):
            layer(x)
    with pytest.raises(ValueError, match=f"{name} has shape"):
        quad_norm(x, Grid("trapezoid"), **{name: torch.ones(length)})
    getattr(layer, name).data = torch.ones(4)
    assert torch.isfinite(layer(x)).all()


def test_whole_numbers_of_numpy():
    n, x = np.int64(4), torch.randn(2, 4, 6, 6)
    assert torch.equal(QuadNorm(n, mode="group", num_groups=np.int32(2))(x), QuadNorm(4, mode="group", num_groups=2)(x))
    assert torch.equal(AnchoredNorm(n, (np.int64(9), np.int64(7)))(x), AnchoredNorm(4, (9, 7))(x))
    tokens = torch.randn(2, 12, 4)
    assert torch.equal(QuadNorm(n, layout=(np.int64(3), n))(tokens), QuadNorm(4, layout=(3, 4))(tokens))
    assert type(QuadNorm(n).num_features) is int
    for wrong in ({"num_features": 4.0}, {"num_features": True}, {"num_features": 4, "num_groups": 2.0}):
        with pytest.raises(ValueError, match=r"got num_|got 4\.0|got True"):
            QuadNorm(**wrong, mode="group")


def test_a_parametrized_share_is_the_one_that_is_used():
    layer = BlendQuadNorm(4, alpha=0.3, learn_alpha=True)
    nn.utils.parametrize.register_parametrization(layer, "alpha_logit", nn.Softplus())
    assert layer.alpha == pytest.approx(layer.alpha_logit.sigmoid().item())
    x = torch.randn(2, 4, 6, 5)
    torch.testing.assert_close(layer(x), BlendQuadNorm(4, alpha=layer.alpha)(x))
