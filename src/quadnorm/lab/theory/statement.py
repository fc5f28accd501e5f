"""A statement, the evidence that was measured for it, and the table of all statements (``statements.toml``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from importlib import import_module
from typing import Any

import numpy as np

from quadnorm._json import without_nan
from quadnorm._suggest import unknown
from quadnorm._text import html_table
from quadnorm.lab import read_table

Range = tuple[float, float]


FEWEST = 5  # resolutions that an order is fitted over: two points fit any law, and three hide a bend


@dataclass(frozen=True)
class PowerFit:
    """y = coefficient·x^exponent. ``misfit``: root mean square of the residuals of log y, so 0.01 is 1 %."""

    exponent: float
    coefficient: float
    misfit: float


def fit_power(x: Sequence[float], y: Sequence[float]) -> PowerFit:
    """Least squares of log y on log x.

    >>> fit = fit_power([1, 2, 4], [3, 12, 48])
    >>> round(fit.exponent, 12), round(fit.coefficient, 12)
    (2.0, 3.0)
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or len(set(a.tolist())) < 2:
        raise ValueError(
            f"a power law needs two or more different x with one y each, got {a.size} and {b.size} numbers"
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all() and (a > 0).all() and (b > 0).all()):
        raise ValueError(f"a power law needs positive finite numbers, got x = {a.tolist()}, y = {b.tolist()}")
    s, t = np.log(a), np.log(b)
    slope, intercept = (float(c) for c in np.polyfit(s, t, 1))
    residual = t - (slope * s + intercept)
    return PowerFit(slope, float(np.exp(intercept)), float(np.sqrt(residual @ residual / a.size)))


def fit_order(h: Sequence[float], error: Sequence[float]) -> PowerFit:
    """The order p and constant C of error ≈ C·h^p, over five resolutions or more.

    >>> h = [1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128]
    >>> round(fit_order(h, [3 * t**2 for t in h]).exponent, 12)
    2.0
    """
    if len(set(h)) < FEWEST:
        raise ValueError(f"an order is fitted over {FEWEST} resolutions or more, got {len(set(h))}")
    return fit_power(h, error)


@dataclass(frozen=True)
class Check:
    """One measured number and the range [low, high] that the statement predicts for it; NaN is in no range.

    >>> Check("order", 1.98, 1.9, 2.1).holds
    True
    """

    what: str
    value: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the number lies in its range."""
        return self.low <= self.value <= self.high


@dataclass(frozen=True)
class Series:
    """A quantity y > 0 measured at five or more x, usually spacings h, and the law y ≈ C·x^p fitted to it.

    Args:
        name: what y is; unique within its evidence.
        x, y: the measurements.
        order: the range that the statement predicts for p; None if the series is only shown, without a verdict.
        misfit: the largest accepted residual of the fit (root mean square of log y); above it p means nothing.
        x_name: what x is.

    >>> h = (1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128)
    >>> series = Series("trapezoid", h, tuple(t**2 / 12 for t in h), order=(1.9, 2.1))
    >>> [check.what for check in series.checks()], all(check.holds for check in series.checks())
    (['order of trapezoid', 'residual of trapezoid'], True)
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    order: Range | None = None
    misfit: float = 0.1
    x_name: str = "h"

    @cached_property
    def fit(self) -> PowerFit:
        """Exponent, constant and residual; NaN if no power law can be fitted (for example if an error is zero)."""
        if not all(math.isfinite(v) and v > 0 for v in self.y):
            return PowerFit(math.nan, math.nan, math.nan)
        return fit_order(self.x, self.y)

    def checks(self) -> tuple[Check, ...]:
        """Two checks: the order lies in its range, and the power law fits. Empty if ``order`` is None."""
        if self.order is None:
            return ()
        return (
            Check(f"order of {self.name}", self.fit.exponent, *self.order),
            Check(f"residual of {self.name}", self.fit.misfit, 0.0, self.misfit),
        )


@dataclass(frozen=True)
class Evidence:
    """What was measured: series with their orders, single numbers with their ranges, further rows, and remarks.

    ``rows`` is a free table (one mapping per row) for everything else: constants per block, factors per mesh.
    """

    series: tuple[Series, ...] = ()
    numbers: tuple[Check, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def checks(self) -> tuple[Check, ...]:
        """Everything that is judged."""
        return (*(check for series in self.series for check in series.checks()), *self.numbers)

    @property
    def holds(self) -> bool:
        """The verdict: there are checks, and all of them hold."""
        return bool(self.checks) and all(check.holds for check in self.checks)

    def _repr_html_(self) -> str:
        rows = [
            (c.what, f"{c.value:.4g}", f"{c.low:.4g} … {c.high:.4g}", "yes" if c.holds else "NO") for c in self.checks
        ]
        verdict = "holds" if self.holds else "does not hold"
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p>{verdict}</p>{html_table(['what', 'measured', 'expected', 'holds'], rows)}{notes}"

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries; None where a number is not finite."""
        content: dict[str, Any] = {
            "holds": self.holds,
            "checks": [{**asdict(check), "holds": check.holds} for check in self.checks],
            "series": [{**asdict(series), "fit": asdict(series.fit)} for series in self.series],
            "rows": [dict(row) for row in self.rows],
            "notes": list(self.notes),
        }
        plain: dict[str, Any] = without_nan(content)
        return plain


@dataclass(frozen=True)
class Statement:
    """A statement in words and as a formula, its label in the paper, and the experiment that measures it.

    Args:
        name: what the command line calls it.
        text: the statement in one or two sentences.
        formula: the statement as a formula, in Unicode.
        label: LaTeX label in the paper; empty if the statement is not in the paper.
        measure: runs the experiment, in seconds and on one thread; deterministic.
    """

    name: str
    text: str
    formula: str
    label: str
    measure: Callable[[], Evidence]

    def to_json(self, evidence: Evidence) -> dict[str, Any]:
        """The statement and its evidence."""
        head = {"name": self.name, "text": self.text, "formula": self.formula, "label": self.label}
        return {**head, **evidence.to_json()}


def _experiment(place: str) -> Callable[[], Evidence]:
    """The function "module:name" of this folder; the module is imported only when the experiment is run."""
    module, _, name = place.partition(":")

    def measure() -> Evidence:
        evidence: Evidence = getattr(import_module(f"quadnorm.lab.theory.{module}"), name)()
        return evidence

    return measure


_TABLE = read_table("theory/statements.toml")

STATEMENTS: dict[str, Statement] = {
    name: Statement(name, row["text"], row["formula"], row["label"], _experiment(row["experiment"]))
    for name, row in _TABLE.items()
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
    return STATEMENTS[name]


def statements(names: Iterable[str] = ()) -> list[Statement]:
    """The statements with these names; all statements if no name is given."""
    return [statement(name) for name in (list(names) or statement_names())]
