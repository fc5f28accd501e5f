"""``quadnorm advise``: which norm, which measure, which way to another grid."""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec
from typing import Annotated

import typer

from quadnorm._extras import EXTRAS, install
from quadnorm.cli.terminal import say, table


class Operator(StrEnum):
    """Kinds of operators for which the advice differs."""

    fno = "fno"
    galerkin = "galerkin"
    transolver = "transolver"
    other = "other"


class Boundary(StrEnum):
    """Boundary conditions of the problem."""

    dirichlet = "dirichlet"
    neumann = "neumann"
    periodic = "periodic"


class Placed(StrEnum):
    """Where the samples of an axis lie."""

    endpoint = "endpoint"
    cell = "cell"
    periodic = "periodic"
    left = "left"
    interior = "interior"
    points = "points"


def advise(
    operator: Annotated[Operator, typer.Option(help="The kind of operator.")] = Operator.other,
    boundary: Annotated[Boundary, typer.Option(help="Boundary conditions.")] = Boundary.dirichlet,
    placement: Annotated[Placed, typer.Option(help="Where the samples lie.")] = Placed.endpoint,
    existing: Annotated[bool, typer.Option(help="The model is trained already.")] = False,
) -> None:
    """Recommend a norm and a measure for your setting, with the reason, the paper's table and the line of code."""
    from quadnorm.lab.studies.advice import advice

    for item in advice(operator, boundary, placement, existing):
        say(item.use)
        say(f"  why:    {item.why}")
        say(f"  source: {item.source}")
        say(f"  code:   {item.code}")


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
