"""Where and with what a result was computed."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

import quadnorm

# Raised by one whenever the same config gives other numbers than before. Records store it; tables do not mix values.
NUMERICS = 1

PACKAGES = ("torch", "numpy", "scipy", "safetensors", "pydantic")


def environment() -> dict[str, Any]:
    """Versions, platform and threads, as JSON values; ``numerics`` is raised when results change."""
    return {
        "quadnorm": quadnorm.__version__,
        "numerics": NUMERICS,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
