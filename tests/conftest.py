"""Settings for the whole suite."""

import os

from hypothesis import settings

# Triton reads this when it is imported: its kernels run on CPU tensors, in its interpreter.
os.environ.setdefault("TRITON_INTERPRET", "1")

# The same examples on every run; first calls pay for imports and compilation, so no deadline.
settings.register_profile("quadnorm", deadline=None, derandomize=True)
settings.load_profile("quadnorm")
