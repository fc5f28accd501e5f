"""Settings for the whole suite."""

import os

import pytest
from hypothesis import settings

# Triton reads this when it is imported: its kernels run on CPU tensors, in its interpreter.
os.environ.setdefault("TRITON_INTERPRET", "1")

# The same examples on every run; first calls pay for imports and compilation, so no deadline.
settings.register_profile("quadnorm", deadline=None, derandomize=True)
settings.load_profile("quadnorm")


@pytest.fixture(autouse=True)
def _no_mode_left_behind():
    """A default device or another mode that a test leaves on would change what later tests see."""
    import torch

    yield
    assert torch._C._len_torch_function_stack() == 0, "this test left a torch function mode on"
