"""Every table that the paper prints, as data: one TOML file per table in ``paper_tables``, named after its label.

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

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from quadnorm._suggest import unknown
from quadnorm.lab import read_table

_NUMBER = re.compile(r"(?<![\w.²])[-+]?\d+(?:\.\d+)?(?![\d²])")
_SPREAD = re.compile(r"([-+]?[\d.]+) ± ([\d.]+)")
_INTERVAL = re.compile(r"\[(-?[\d.]+)%?(?:,| to) (-?[\d.]+)%?\]")


@dataclass(frozen=True)
class PrintedCell:
    """One printed cell, without its bold marks.

    >>> cell = PrintedCell("18% [17 to 19%]")
    >>> cell.value, cell.spread, cell.interval
    (18.0, None, (17.0, 19.0))
    """

    text: str
    bold: bool = False

    @classmethod
    def parse(cls, source: str) -> PrintedCell:
        """The cell for a text such as ``"**7.10 ± 0.23**"``; it is bold if any part of the text is."""
        return cls(source.replace("**", ""), "**" in source)

    @property
    def numbers(self) -> tuple[float, ...]:
        """Every number of the cell, in print order; grid sizes (``64²``) are left out."""
        return tuple(float(n) for n in _NUMBER.findall(self.text))

    @property
    def value(self) -> float | None:
        """The first number, if there is one: the mean of ``mean ± spread``."""
        numbers = self.numbers
        return numbers[0] if numbers else None

    @property
    def spread(self) -> float | None:
        """The number after ±."""
        match = _SPREAD.search(self.text)
        return float(match[2]) if match else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The two ends of ``[low, high]``."""
        match = _INTERVAL.search(self.text)
        return (float(match[1]), float(match[2])) if match else None

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit of :attr:`value`: the true mean lies within it."""
        match = _NUMBER.search(self.text)
        if match is None:
            raise ValueError(f"the cell {self.text!r} has no number, so nothing was rounded")
        return 0.5 * 10.0 ** -len(match[0].partition(".")[2])


@dataclass(frozen=True)
class PrintedPanel:
    """A block of rows with its column heads. ``resolutions``: of the columns after the first, if these hold errors."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[PrintedCell, ...], ...]
    resolutions: tuple[int, ...] = ()
    long: Mapping[str, Any] | None = None

    def column(self, head: str) -> tuple[PrintedCell, ...]:
        """The cells under a column head."""
        if head not in self.columns:
            raise ValueError(f"no column {head!r} in panel {self.title!r}; it has {', '.join(self.columns)}")
        return tuple(row[self.columns.index(head)] for row in self.rows)

    def errors(self) -> dict[tuple[str, int], PrintedCell]:
        """The printed error of each (method, resolution); empty if the panel prints something else."""
        if self.long:
            return self._long_errors(**self.long)
        return {(row[0].text, n): cell for row in self.rows for n, cell in zip(self.resolutions, row[1:], strict=False)}

    def _long_errors(
        self, native: int, native_column: str, resolution_column: str, error_column: str
    ) -> dict[tuple[str, int], PrintedCell]:
        """Errors of a panel with one row per (method, resolution), a column for the native error, and blanks."""
        at = self.columns.index
        cells: dict[tuple[str, int], PrintedCell] = {}
        method = ""
        for row in self.rows:
            method = row[0].text or method
            if row[at(native_column)].text:
                cells[method, native] = row[at(native_column)]
            cells[method, int(row[at(resolution_column)].text.rstrip("²"))] = row[at(error_column)]
        return cells


SPREADS = {"ci95": "95 % confidence interval", "std": "standard deviation"}


@dataclass(frozen=True)
class PrintedTable:
    """A table of the paper; the module says what the fields mean."""

    label: str
    caption: str
    unit: str
    panels: tuple[PrintedPanel, ...]
    train: tuple[int, ...] = ()
    seeds: int | None = None
    seeds_stated: bool = True
    spread: str | None = None
    spread_stated: bool = True
    bold: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PrintedTable:
        """The table from the parsed TOML of a file in ``paper_tables``."""
        panels = tuple(
            PrintedPanel(
                title=p.get("title", ""),
                columns=tuple(p["columns"]),
                rows=tuple(tuple(PrintedCell.parse(cell) for cell in row) for row in p["rows"]),
                resolutions=tuple(p.get("resolutions", ())),
                long=p.get("long"),
            )
            for p in data["panels"]
        )
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        plain["panels"] = panels
        return cls(**plain)

    def runs(self) -> str:
        """How many runs stand behind a cell and what its ± is, and which of the two the paper does not say itself.

        >>> PrintedTable("tab:x", "", "", (), seeds=5, spread="ci95", spread_stated=False).runs()
        '5 seeds, ± 95 % confidence interval (assumed)'
        """
        seeds = f"{self.seeds} seeds{'' if self.seeds_stated else ' (from elsewhere in the paper)'}"
        spread = f"± {SPREADS[self.spread]}{'' if self.spread_stated else ' (assumed)'}" if self.spread else ""
        return ", ".join(filter(None, (seeds if self.seeds else "", spread)))

    def panel(self, title: str) -> PrintedPanel:
        """The panel with this title."""
        for panel in self.panels:
            if panel.title == title:
                return panel
        raise ValueError(f"{self.label} has no panel {title!r}; it has {', '.join(repr(p.title) for p in self.panels)}")

    def errors(self, panel: str | None = None) -> dict[tuple[str, int], PrintedCell]:
        """Printed errors by (method, resolution), of one panel, or of all if no two panels have the same key."""
        if panel is not None:
            return self.panel(panel).errors()
        cells: dict[tuple[str, int], PrintedCell] = {}
        for part in self.panels:
            more = part.errors()
            if cells.keys() & more.keys():
                raise ValueError(
                    f"{self.label} prints the same methods in several panels; name one of "
                    + ", ".join(repr(p.title) for p in self.panels)
                )
            cells |= more
        return cells


# In the order of the paper.
_TABLES: list[str] = read_table("studies/paper_tables.toml")["tables"]

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
    return PrintedTable.from_dict(read_table(f"studies/paper_tables/{name}.toml"))


def paper_tables() -> tuple[PrintedTable, ...]:
    """Every table with values, in the order of the paper.

    >>> len(paper_tables())
    44
    """
    return tuple(paper_table(label) for label in paper_labels())
