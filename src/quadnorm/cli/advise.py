"""``quadnorm advise``: which norm, which measure, which way to another grid."""

from enum import StrEnum
from typing import Annotated

import typer

from quadnorm.cli.terminal import say


class Operator(StrEnum):
    """Kinds of operators that behave alike."""

    fno = "fno"
    galerkin = "galerkin"
    transolver = "transolver"
    other = "other"


class Boundary(StrEnum):
    """What holds at the boundary of the domain."""

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
    operator: Annotated[Operator, typer.Option(help="The operator.")] = Operator.other,
    boundary: Annotated[Boundary, typer.Option(help="Boundary conditions.")] = Boundary.dirichlet,
    placement: Annotated[Placed, typer.Option(help="Where the samples lie.")] = Placed.endpoint,
    existing: Annotated[bool, typer.Option(help="A model that is trained already.")] = False,
) -> None:
    """Say what to use, why, which table says so, and the line of code."""
    from quadnorm.lab.studies.advice import advice

    for item in advice(operator, boundary, placement, existing):
        say(item.use)
        say(f"  why:    {item.why}")
        say(f"  source: {item.source}")
        say(f"  code:   {item.code}")
