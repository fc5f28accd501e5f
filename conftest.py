"""Settings for the whole suite: the tests, and the examples in docstrings."""

import os
import random

import pytest
from hypothesis import settings

# Triton reads this when it is imported: its kernels run on CPU tensors, in its interpreter.
os.environ.setdefault("TRITON_INTERPRET", "1")

# The same examples on every run; first calls pay for imports and compilation, so no deadline.
settings.register_profile("quadnorm", deadline=None, derandomize=True)
settings.load_profile("quadnorm")

# Another number draws other weights and inputs everywhere, which shows tests that pass by luck.
SEED = int(os.environ.get("QUADNORM_TEST_SEED", "0"))


def _seed():
    import numpy as np
    import torch

    torch.manual_seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002  what code under test may still read
    random.seed(SEED)


def pytest_collectstart(collector):
    """Seed before a module is imported, so that models made there are the same in every run, whatever is collected."""
    if isinstance(collector, pytest.Module):
        _seed()


@pytest.fixture(autouse=True)
def _same_random_numbers():
    """Draw the same weights and inputs in every run, in whatever order and process the tests run."""
    _seed()


@pytest.fixture(autouse=True)
def _no_mode_left_behind():
    """A default device or another mode that a test leaves on would change what later tests see."""
    import torch

    yield
    assert torch._C._len_torch_function_stack() == 0, "this test left a torch function mode on"
