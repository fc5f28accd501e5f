"""The statements by name. A module is imported when its statement is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from quadnorm._suggest import unknown
from quadnorm.lab.theory.statement import Statement

# name → the module of this room whose STATEMENT it is
STATEMENTS: dict[str, str] = {
    "means": "sums.means",
    "uniform": "sums.uniform",
    "layers": "sums.layers",
    "periodic": "sums.periodic",
    "endpoint": "sums.endpoint",
    "blend": "sums.blend",
    "anchoring": "sums.anchoring",
    "transfer": "networks.transfer",
    "swap": "networks.swap",
    "gain": "networks.gain",
    "outside": "sums.outside",
    "meshes-tensor": "meshes.tensor",
    "meshes-strength": "meshes.strength",
    "meshes-simplices": "meshes.simplices",
    "meshes-clouds": "meshes.clouds",
    "meshes-sphere": "meshes.sphere",
    "meshes-limits": "meshes.limits",
    "mechanism": "meshes.mechanism",
}


def statement_names() -> list[str]:
    """All names, in the order of the paper."""
    return list(STATEMENTS)


def statement(name: str) -> Statement:
    """The statement of that name.

    >>> statement("means").label
    'thm:consistency'
    """
    if name not in STATEMENTS:
        raise ValueError(unknown("statement", name, STATEMENTS))
    loaded: Statement = import_module(f"quadnorm.lab.theory.{STATEMENTS[name]}").STATEMENT
    return loaded


def statements(names: Iterable[str] = ()) -> list[Statement]:
    """The statements of these names; all of them if there are none."""
    return [statement(name) for name in (list(names) or statement_names())]
