"""``quadnorm doctor``: what is installed, what it enables, and whether the basics work here."""

from importlib.util import find_spec

EXTRAS = {
    "fast": ("numba",),
    "mesh": ("scipy", "skfem", "shapely"),
    "bench": (
        "scipy",
        "h5py",
        "safetensors",
        "pydantic",
        "yaml",
        "typer",
        "rich",
        "pandas",
        "statsmodels",
        "matplotlib",
    ),
    "dist": ("distributed",),
    "compat": ("neuralop",),
}


def doctor() -> None:
    """Say what is installed, what is missing, and whether the basics work on this machine."""
    from rich.console import Console
    from rich.table import Table

    from quadnorm.measures import Grid
    from quadnorm.norms import QuadNorm
    from quadnorm.norms.kernels.dispatch import numba_serves
    from quadnorm.problems import cache
    from quadnorm.training import environment

    console = Console(highlight=False)
    found = environment()
    made = Table("what", "found", show_header=False)
    for key in ("quadnorm", "python", "platform", "cpu", "threads"):
        made.add_row(key, str(found[key]))
    for name, version in found["packages"].items():
        made.add_row(name, version or "not installed")
    for extra, modules in EXTRAS.items():
        lacking = [m for m in modules if find_spec(m) is None]
        made.add_row(
            f"extra {extra}",
            "complete" if not lacking else f"lacks {', '.join(lacking)}: pip install 'quadnorm\\[{extra}]'",
        )
    import torch

    x = torch.linspace(0, 1, 33, dtype=torch.float64).square().expand(1, 1, 33, 33)
    y = QuadNorm(1, affine=False)(x)
    made.add_row("kernel on the CPU", "numba" if numba_serves(x) else "torch")
    centred = abs(float(Grid("trapezoid").integrate(y, ndim=2))) < 1e-12
    made.add_row("QuadNorm centres a field", "yes" if centred else "NO: please report this")
    made.add_row("data cache", f"{cache.location()} ({cache.size() / 2**20:.0f} MiB)")
    console.print(made)
