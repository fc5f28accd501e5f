"""Settings for the whole suite."""

from hypothesis import settings

# The same examples on every run; first calls pay for imports and compilation, so no deadline.
settings.register_profile("quadnorm", deadline=None, derandomize=True)
settings.load_profile("quadnorm")
