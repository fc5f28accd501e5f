"""``quadnorm advise``: which norm, which measure, which way to another grid."""

from enum import StrEnum
from typing import Annotated

import typer

from quadnorm.cli.terminal import say


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
