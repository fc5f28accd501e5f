"""Settings for the whole suite."""

import os

from hypothesis import settings

# First calls pay for imports and compilation, so no deadline; in CI the examples are the same on every run.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
