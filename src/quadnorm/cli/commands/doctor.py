"""``quadnorm doctor``: what is installed, what it enables, and whether the basics work here."""

from importlib.util import find_spec

from quadnorm._extras import EXTRAS, install
from quadnorm.cli.terminal import table


def doctor() -> None:
    """Show what is installed, what is missing, and whether the basics work on this machine."""
    from quadnorm.measures import Grid
    from quadnorm.norms import QuadNorm
    from quadnorm.norms.kernels.dispatch import numba_serves
    from quadnorm.problems import cache
    from quadnorm.training import environment

    here = environment()
    rows = [(key, str(here[key])) for key in ("quadnorm", "python", "platform", "cpu", "threads")]
    rows += [(name, version or "not installed") for name, version in here["packages"].items()]
    for extra, modules in EXTRAS.items():
        lacking = [m for m in modules if find_spec(m) is None]
        advice = f"lacks {', '.join(lacking)}: {install(extra)}"
        rows.append((f"extra {extra}", advice if lacking else "complete"))
    import torch

    x = torch.linspace(0, 1, 33, dtype=torch.float64).square().expand(1, 1, 33, 33)
    y = QuadNorm(1, affine=False)(x)
    centred = abs(float(Grid("trapezoid").integrate(y, ndim=2))) < 1e-12
    rows += [
        ("kernel on the CPU", "numba" if numba_serves(x) else "torch"),
        ("QuadNorm centres a field", "yes" if centred else "NO: please report this"),
        ("data cache", f"{cache.location()} ({cache.size() / 2**20:.0f} MiB)"),
    ]
    table(None, ["what", "here"], rows)
