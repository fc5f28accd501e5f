"""Which extra brings which package, and the command that installs it."""

from __future__ import annotations

import re
from pathlib import Path

# By the name one imports; the first extra that lists a package is the one to advise.
EXTRAS: dict[str, tuple[str, ...]] = {
    "fast": ("numba",),
    "triton": ("triton",),
    "bench": (
        *("scipy", "h5py", "safetensors", "pydantic", "yaml", "typer", "rich", "pandas", "statsmodels"),
        *("matplotlib", "jinja2", "tensorboard", "platformdirs", "skfem", "shapely"),
    ),
    "mesh": ("scipy", "skfem", "shapely"),
    "data": ("xarray", "h5netcdf", "h5py", "scipy", "shapely", "zarr"),
    "dist": ("distributed",),
    "compat": ("neuralop",),
}
_ADVICE = re.compile(r"pip install 'quadnorm\[(\w+)\]'")


def install(extra: str) -> str:
    """The command that installs an extra: from the clone where the package is one, else from the registry."""
    clone = Path(__file__).parents[2]
    if (clone / "pyproject.toml").is_file() and (clone / "src" / "quadnorm").is_dir():
        return f"pip install -e '.[{extra}]' (in the folder of the clone)"
    return f"pip install 'quadnorm[{extra}]'"


def missing_module(error: ModuleNotFoundError) -> str | None:
    """One line for a missing package of an extra; None for any other module.

    >>> missing_module(ModuleNotFoundError("No module named 'typer'", name="typer")).split(":")[0]
    'typer is not installed'
    """
    name = (error.name or "").split(".")[0]
    name = {"click": "typer", "_yaml": "yaml"}.get(name, name)
    for extra, modules in EXTRAS.items():
        if name in modules:
            return f"{name} is not installed: {install(extra)}"
    return None


def advised(message: str) -> str:
    """A message with its advice to install an extra in the form that works here."""
    return _ADVICE.sub(lambda match: install(match[1]), message)
