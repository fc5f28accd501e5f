"""A study of three methods at two grids, errors for it, and how to read its table."""

from math import sqrt

import numpy as np
from scipy import stats

from quadnorm.lab.analysis.tables import Table
from quadnorm.lab.studies import Budget, Desk, Method, Study, Variant, Way

ANCHORED = Way("anchor-all", "all anchored", "anchored", "all")


def small_study(**changes) -> Study:
    variant = Variant(
        name="v",
        problem="poisson",
        operator="fno",
        methods=(Method("LayerNorm", "layer"), Method("QuadNorm", "quad:instance"), Method("None", "none")),
        train=(9,),
        test=(9, 17),
        budget=Budget(train=8, val=2, test=4, epochs=3, lr=1e-3),
        desk=Desk(epochs=2),
        operator_params={"width": 4, "modes": 2, "layers": 1},
    )
    return Study(
        **{
            "name": "small",
            "title": "A small study",
            "theme": "test",
            "variants": (variant,),
            "seeds": (0, 1, 2),
            **changes,
        }
    )


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
