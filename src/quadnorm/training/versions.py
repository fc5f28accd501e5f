"""Where and with what a result was computed."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import quadnorm

PACKAGES = ("torch", "numpy", "scipy", "safetensors", "pydantic")


def environment() -> dict[str, Any]:
    """Versions, platform and threads, as plain JSON values. ``code`` tells two states of this package apart."""
    return {
        "quadnorm": quadnorm.__version__,
        "code": code_version(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


@cache
def code_version() -> str:
    """A hash of the package's sources: it changes with the code, and needs no repository.

    >>> len(code_version())
    16
    """
    root = Path(quadnorm.__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
