"""The transfer bound and the observed difference between two grids, over depth; the constants of each block."""

from __future__ import annotations

from typing import Any

from quadnorm.lab.analysis.figures.style import FAINT, sheet, style
from quadnorm.lab.theory import Evidence

COUNTING, QUADRATURE = "#D55E00", "#009E73"


def transfer(evidence: Evidence) -> Any:
    """Left: e_L and its bound for both norms. Right: the terms of each block; only the norm's own term differs."""
    from quadnorm.lab.theory.network import NATIVE  # imported here because it loads torch; the page does not

    depth = [int(row["L"]) for row in evidence.rows]
    with style():
        figure, axes = sheet(2.7, 1, 2)
        left, right = axes[0]
        for label, colour, suffix in (("counting", COUNTING, "₁"), ("trapezoid", QUADRATURE, "")):
            left.semilogy(depth, [row[f"bound{suffix}"] for row in evidence.rows], color=colour, ls="--")
            left.semilogy(depth, [row[f"e_L{suffix}"] for row in evidence.rows], color=colour, marker="o", label=label)
        left.plot([], [], color=FAINT, ls="--", label="bound")
        left.set(xlabel="blocks L", xticks=[1, 4, 8, 12, 16])
        left.set_title(f"discrepancy between {NATIVE} and {2 * NATIVE - 1} nodes")
        left.legend()
        h = 1 / (NATIVE - 1)
        series = (
            ("norm, counting", COUNTING, "o", [row["C_N₁"] * h for row in evidence.rows]),
            ("norm, trapezoid", QUADRATURE, "s", [row["C_N"] * h**2 for row in evidence.rows]),
            ("linear part T", "#0072B2", "^", [row["C_T"] * h**2 for row in evidence.rows]),
            ("activation σ", "#CC79A7", "D", [row["C_σ"] * h**2 for row in evidence.rows]),
        )
        for label, colour, marker, values in series:
            right.semilogy(depth, values, color=colour, marker=marker, lw=0.8, label=label)
        right.set(xlabel="block", xticks=[1, 4, 8, 12, 16])
        right.set_title("what does not commute with P, C·δ")
        right.legend(ncols=2, loc="lower right")
        return figure
