"""How the command line reads grids and parameters."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

MOST_NODES = 10**6  # per axis
MOST_THREADS = 256

Param = Annotated[list[str] | None, typer.Option("--param", "-p", help="A parameter of the problem, name=value.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print comma-separated values instead of a table.")]
Seed = Annotated[int, typer.Option(help="Seed of the random streams.", min=0, max=2**63 - 1)]


def grid(text: str) -> int | tuple[int, ...]:
    """``65`` or ``65x129``.

    >>> grid("65"), grid("65x129")
    (65, (65, 129))
    """
    try:
        sizes = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        sizes = ()
    if not 1 <= len(sizes) <= 3 or not all(1 <= n <= MOST_NODES for n in sizes):
        raise ValueError(
            f"cannot read the resolution {text[:40]!r}; expected samples per axis, as in 65 or 65x129, "
            f"at most {MOST_NODES}"
        )
    return sizes[0] if len(sizes) == 1 else sizes


def parameters(pairs: Sequence[str] | None) -> dict[str, Any]:
    """``["contrast=4", "fine=257"]`` as a dictionary; values are YAML.

    >>> parameters(["viscosity=1e-3", "mesh=boundary"])
    {'viscosity': 0.001, 'mesh': 'boundary'}
    """
    from quadnorm._yaml import parse

    values: dict[str, Any] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"cannot read the parameter {pair!r}; expected name=value")
        values[key.replace("-", "_")] = parse(value, f"the parameter {pair[:80]!r}")
    return values
