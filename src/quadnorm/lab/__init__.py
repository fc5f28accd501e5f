"""Everything around the paper: studies, their analysis, report, theory and benchmarks. The library does not need it."""

import tomllib
from importlib.resources import files
from typing import Any


def read_table(path: str) -> dict[str, Any]:
    """A TOML file of the laboratory, where definitions are data: studies, claims, figures, statements.

    >>> read_table("theory/statements.toml")["means"]["label"]
    'thm:consistency'
    """
    return tomllib.loads(files("quadnorm.lab").joinpath(*path.split("/")).read_text(encoding="utf-8"))
