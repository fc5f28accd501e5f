"""The table of all statements by name; a statement's module is imported only when the statement is used."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from quadnorm._suggest import unknown
from quadnorm.lab.theory.statement import Statement

# name of a statement → the module of this package that defines it as STATEMENT, or under the name after the colon
STATEMENTS: dict[str, str] = {
    "means": "sums.means",
    "uniform": "sums.uniform",
    "consistency": "sums.layers:CONSISTENCY",
    "layers": "sums.layers",
    "lipschitz": "sums.layers:LIPSCHITZ",
    "periodic": "sums.periodic",
    "endpoint": "sums.endpoint",
    "blend": "sums.blend",
    "anchoring": "sums.anchoring",
    "transfer": "networks.transfer",
    "trajectory": "networks.transfer:TRAJECTORY",
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
    module, _, attribute = STATEMENTS[name].partition(":")
    loaded: Statement = getattr(import_module(f"quadnorm.lab.theory.{module}"), attribute or "STATEMENT")
    return loaded


def statements(names: Iterable[str] = ()) -> list[Statement]:
    """The statements with these names; all statements if no name is given."""
    return [statement(name) for name in (list(names) or statement_names())]
