"""How the command line reads grids and parameters, and shows tables."""

from collections.abc import Sequence
from typing import Any


def grid(text: str) -> int | tuple[int, ...]:
    """``65`` or ``65x129``.

    >>> grid("65"), grid("65x129")
    (65, (65, 129))
    """
    try:
        sizes = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        raise ValueError(
            f"cannot read the resolution {text!r}; expected samples per axis, as in 65 or 65x129"
        ) from None
    return sizes[0] if len(sizes) == 1 else sizes


def parameters(pairs: Sequence[str]) -> dict[str, Any]:
    """``["contrast=4", "fine=257"]`` as a dictionary; values are YAML."""
    import yaml

    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"cannot read the parameter {pair!r}; expected name=value")
        found[key.replace("-", "_")] = yaml.safe_load(value)
    return found


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; all columns but the first are right-aligned."""
    from rich.console import Console
    from rich.table import Table

    made = Table(title=title)
    for k, column in enumerate(columns):
        made.add_column(column, justify="right" if k else "left")
    for row in rows:
        made.add_row(*row)
    Console().print(made)
