from contextlib import nullcontext

import pytest
import torch

from quadnorm.norms.kernels.dispatch import use_kernel
from quadnorm.norms.kernels.triton import choice
from tests.norms.kernels.interpreter import quick

# Triton's interpreter is too slow for large tensors and many examples.
INTERPRETED = {"test_contract", "test_extremes", "test_masks"}


def pytest_generate_tests(metafunc):
    if "kernel" in metafunc.fixturenames:
        also = ["triton"] if choice.usable() and metafunc.module.__name__.split(".")[-1] in INTERPRETED else []
        metafunc.parametrize("kernel", ["torch", "numba", *also], indirect=True)


@pytest.fixture
def kernel(request):
    """Every kernel must pass every test that asks for this; Triton's runs in its interpreter."""
    with use_kernel(request.param), quick() if request.param == "triton" else nullcontext():
        yield request.param


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
