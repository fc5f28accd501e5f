"""A study of three methods at two grids, errors for it, and how to read its table."""

from dataclasses import replace
from math import sqrt

import numpy as np
from scipy import stats

from quadnorm.lab.analysis.tables import Table
from quadnorm.lab.studies import Method, Study
from quadnorm.lab.studies.study import AS_TRAINED
from tests.lab.studies.tiny_study import tiny_study


def small_study(**changes) -> Study:
    s = tiny_study("small", evaluations=(AS_TRAINED,), seeds=(0, 1, 2))
    (variant,) = s.variants
    variant = replace(variant, name="v", methods=(*variant.methods, Method("None", "none")))
    return replace(s, **{"title": "A small study", "variants": (variant,), **changes})


# Errors by method, seed and grid, in per cent; chosen so that QuadNorm is clearly best at 17² and None worst.
ERRORS = {
    ("LayerNorm", 9): (3.0, 3.1, 3.2), ("LayerNorm", 17): (6.0, 6.3, 6.1),
    ("QuadNorm", 9): (3.9, 4.2, 4.0), ("QuadNorm", 17): (4.4, 4.9, 4.5),
    ("None", 9): (3.5, 3.0, 3.9), ("None", 17): (7.0, 7.7, 7.2),
}  # fmt: skip


def known(run, evaluation, grid):
    return ERRORS[run.method.label, grid][run.seed]


def cells(table: Table, method: str):
    """The row of a method, by column."""
    (row,) = [r for r in table.panels[0].rows if r[0].text == method]
    return dict(zip(table.panels[0].columns, row, strict=True))


def cells_text(values):
    """Mean ± Student interval of three seeds, as a cell prints it."""
    x = np.array(values)
    return f"{x.mean():.2f} ± {stats.t.ppf(0.975, 2) * x.std(ddof=1) / sqrt(3):.2f}"
