"""The norms' share of the difference between two grids: only the measure of the norms is swapped, nothing else."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from torch import Tensor

from quadnorm.lab.theory.networks.network import Maps, carried, norm_of, problem, trained
from quadnorm.lab.theory.statement import Check, Evidence, Series, Statement
from quadnorm.measures import Anchored, Grid, Measure
from quadnorm.operators import FNO

SIZES = (65, 97, 129, 193, 257, 385)
GAPS = (2, 3, 4, 6, 8, 12)
BASE = 65  # the coarse grid of the gaps


@cache
def published() -> FNO:
    """A network with the same weights and the published Fourier sums, whose period changes with n."""
    model = deepcopy(trained())
    block: Any
    for block in model.blocks:
        block.spectral.kernel = "fft"
    model.measure = "counting"
    return model


def output(norm: Measure, n: int, sums: Measure | None = None) -> Tensor:
    """The network's output for eight functions on n nodes; ``sums``: published Fourier sums, under that measure."""
    model = trained() if sums is None else published()
    if sums is not None:
        model.measure = sums
    return Maps(model, norm)(problem(n, 8, seed=11)[0])


def discrepancy(norm: Measure, n: int, fine: int, sums: Measure | None = None) -> float:
    """‖G_h(x_h) − P G_h'(x_h')‖, the average over the functions."""
    return float(norm_of(output(norm, fine, sums) - carried(output(norm, n, sums), fine)).mean())


def norm_term(n: int, fine: int) -> float:
    """‖G_h with counting norms − G_h with norms anchored at n'‖. At n' nodes the two are equal bit for bit.

    So both have the same P G_h', and their difference on the finer grid comes from the norms alone.
    """
    return float(norm_of(output(Grid("counting"), fine) - output(Anchored(n), fine)).mean())


def measure() -> Evidence:
    """Orders at a gap of two, then a fixed coarse grid with finer and finer ones."""
    counting, trapezoid = Grid("counting"), Grid("trapezoid")
    h = tuple(1 / (n - 1) for n in SIZES)
    pairs = tuple((n, 2 * n - 1) for n in SIZES)
    series = (
        Series("norms alone, counting", h, tuple(discrepancy(counting, *p) for p in pairs), (0.85, 1.15)),
        Series("norms alone, trapezoid", h, tuple(discrepancy(trapezoid, *p) for p in pairs), (1.85, 2.15)),
        Series("norms alone, anchored", h, tuple(discrepancy(Anchored(p[0]), *p) for p in pairs), (1.85, 2.15)),
        Series("norms alone, counting − anchored", h, tuple(norm_term(*p) for p in pairs), (0.85, 1.15)),
        Series("all sums, counting", h, tuple(discrepancy(counting, *p, counting) for p in pairs), (0.85, 1.15)),
        Series(
            "all sums, anchored", h, tuple(discrepancy(Anchored(p[0]), *p, Anchored(p[0])) for p in pairs), (1.85, 2.15)
        ),
    )
    native = output(counting, BASE) - output(Anchored(BASE), BASE)
    rows = []
    for gap in GAPS:
        fine = gap * (BASE - 1) + 1
        row: dict[str, Any] = {"gap": f"{BASE} → {fine}"}
        for name, norm in (("counting", counting), ("trapezoid", trapezoid), ("anchored", Anchored(BASE))):
            row[name] = discrepancy(norm, BASE, fine)
        rows.append(row | {"norms' term": norm_term(BASE, fine)})
    growth = {name: rows[-1][name] / rows[0][name] for name in ("counting", "trapezoid", "anchored")}
    first, second = (1 - 1 / GAPS[-1]) / (1 - 1 / GAPS[0]), (1 - GAPS[-1] ** -2) / (1 - GAPS[0] ** -2)
    numbers = (
        Check("counting − anchored at their common grid, largest", float(native.abs().max()), 0, 0),
        Check(f"growth from gap 2 to 12, counting / {first:.2f}", growth["counting"] / first, 0.9, 1.1),
        Check(f"growth from gap 2 to 12, trapezoid / {second:.2f}", growth["trapezoid"] / second, 0.9, 1.1),
        Check(f"growth from gap 2 to 12, anchored / {second:.2f}", growth["anchored"] / second, 0.9, 1.1),
        Check("counting / anchored at h = 1/384", series[0].y[-1] / series[2].y[-1], 20, float("inf")),
        Check("all sums: counting / anchored at h = 1/384", series[4].y[-1] / series[5].y[-1], 20, float("inf")),
    )
    return Evidence(series, numbers, tuple(rows))


STATEMENT = Statement(
    name="swap",
    text="With everything else unchanged, a trained network of 16 blocks changes with the grid at first order if its "
    "norms count, at second order with trapezoid or anchored norms: as |h' − h| and as |h'² − h²|.",
    formula="p = 1 for counting, p = 2 for trapezoid and anchored in L δ_p",
    label="thm:transfer-bound",
    measure=measure,
)
