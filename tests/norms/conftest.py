import pytest
import torch

from quadnorm.norms.kernels.dispatch import use_kernel


@pytest.fixture(params=["torch", "numba"])
def kernel(request):
    """Both kernels must pass every test that asks for this."""
    with use_kernel(request.param):
        yield request.param


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
