"""Every table that the paper prints, as data: one TOML file per table, named after its label.

A file has the printed cells (``"**7.10 ± 0.23**"`` is bold) and adds what the paper does not state:

====================  ==================================================================================================
key                   meaning
====================  ==================================================================================================
``label, caption``    the table's label; what it shows, in our words
``unit``              what the numbers are
``train``             training resolutions, points per axis
``seeds``             runs per cell; absent if the number differs within the table
``seeds_stated``      false if the number is taken from elsewhere in the paper (absent: true)
``spread``            the number after ±: ``ci95`` (Student t, ddof 1) or ``std`` (ddof 0); absent if there is no ±
``spread_stated``     false if the caption does not say it; the paper's general rule, 95 % intervals, is taken then
``bold``              ``best``, ``tied`` (with the best, by overlapping intervals) or ``other`` (the notes say what)
``notes``             what the table leaves open, and where it contradicts another one
``panels``            title, column heads, rows; ``resolutions`` of the columns after the first, if these hold errors
====================  ==================================================================================================
"""

from functools import cache
from importlib.resources import files
from tomllib import loads

from quadnorm._suggest import unknown
from quadnorm.lab.studies.paper.table import PrintedCell, PrintedPanel, PrintedTable

__all__ = [
    "NOT_EXPERIMENTAL",
    "PrintedCell",
    "PrintedPanel",
    "PrintedTable",
    "paper_labels",
    "paper_table",
    "paper_tables",
]

# In the order of the paper.
_TABLES = [
    "extreme-crossres",
    "deep-crossres",
    "multiarch-nonperiodic",
    "real-darcy",
    "key-results-summary",
    "real-benchmark-best-summary",
    "real-benchmark-summary",
    "real-darcy-crossres",
    "transolver-darcy",
    "real-darcy-extreme",
    "error-decomp",
    "transolver-helmholtz",
    "transolver-multires",
    "model-scaling",
    "alpha-matrix",
    "galerkin-2xgap",
    "arch-transfer",
    "bootstrap-cis",
    "helmholtz-galerkin-strong",
    "poisson-dirichlet-galerkin-strong",
    "real-ns-galerkin",
    "quadrature-ablation",
    "learnable-baselines",
    "effect-sizes",
    "high-to-low",
    "tost",
    "galerkin-elasticity",
    "galerkin-varcoeff",
    "galerkin-rxndiff",
    "transolver-varcoeff",
    "transolver-darcy-largescale",
    "transolver-darcy-xl",
    "galerkin-helmholtz-10seed",
    "transolver-helmholtz-largescale",
    "transolver-helmholtz-xl",
    "extended-baselines",
    "consistent-combo",
    "nonperiodic-breadth-summary",
    "bootstrap-cis-breadth",
    "galerkin-helmholtz-4x",
    "galerkin-elasticity-4x",
    "transolver-helmholtz-4x",
    "extreme-gap-summary",
    "galerkin-poisson-10seed",
]

NOT_EXPERIMENTAL = {"tab:notation": "symbols and their meanings; no values"}


def paper_labels() -> tuple[str, ...]:
    """Labels of the tables with values, in the order of the paper."""
    return tuple(f"tab:{name}" for name in _TABLES)


@cache
def paper_table(label: str) -> PrintedTable:
    """The table with this label; ``tab:`` may be left out.

    >>> paper_table("tab:extreme-crossres").errors()["QuadNorm", 256]
    PrintedCell(text='7.10 ± 0.23', bold=True)
    """
    name = label.removeprefix("tab:")
    if label in NOT_EXPERIMENTAL:
        raise ValueError(f"{label} is not kept as data: {NOT_EXPERIMENTAL[label]}")
    if name not in _TABLES:
        raise ValueError(unknown("table of the paper", label, _TABLES))
    return PrintedTable.from_dict(loads(files(__name__).joinpath("tables", f"{name}.toml").read_text(encoding="utf-8")))


def paper_tables() -> tuple[PrintedTable, ...]:
    """Every table with values, in the order of the paper.

    >>> len(paper_tables())
    44
    """
    return tuple(paper_table(label) for label in paper_labels())
