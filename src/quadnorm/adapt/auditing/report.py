"""What an audit found: one number, a recommendation, a table in the terminal, a DataFrame."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from importlib import import_module
from math import log, log2
from pathlib import Path
from typing import Any

from quadnorm._files import write_atomic
from quadnorm._ways import ANCHORED, AS_TRAINED, TRANSFERRED, WAYS
from quadnorm.adapt.auditing import page
from quadnorm.adapt.auditing.data import Traits
from quadnorm.adapt.auditing.rows import HEAD, AuditRow
from quadnorm.adapt.report import Entry, table
from quadnorm.carry.gridcheck import GridCheck

LEGEND = (
    "introduced: what the module itself does to the change of grid; cumulative: with all that came before it",
    "alone: the model's output if everything but this module is anchored; fixed: if only this module is",
)
COLUMNS = ("name", "kind", "introduced", "cumulative", "order", "alone", "fixed", "container", "cause", "remedy")
FUNCTIONS = {way.title: way.function for way in WAYS.values() if way.function}
CLOSE = 1.02  # errors that differ by less do not decide between ways


@dataclass(frozen=True)
class GridNumber:
    r"""How much a model depends on its grid, as one number.

    ``drift`` is :math:`\lVert R\,G_n(x_n) - G_{n_0}(x_{n_0}) \rVert_2 / \lVert G_{n_0}(x_{n_0}) \rVert_2`, R the
    values at the nodes of the coarser grid, n the audited resolution whose spacing is nearest to half the training
    grid's (twice, where none is finer): 0 for a model that is a function of fields.
    :func:`quadnorm.testing.grid_drift` is the same number on a smooth probe. ``degradation``, with targets, is the
    factor :math:`(E_n / E_{n_0})^{1/|\log_2 (h_{n_0} / h_n)|}` by which the mean relative L² error grows when the
    resolution doubles (or halves): 1 for a model that is as good on every grid. ``grids``: the two resolutions.
    """

    drift: float
    degradation: float | None
    grids: tuple[str, str]

    def __str__(self) -> str:
        moves = f"the output moves by {self.drift:.2%} from {self.grids[0]} to {self.grids[1]}"
        if self.degradation is None:
            return moves
        return f"the error is multiplied by {self.degradation:.2f} per doubling of the resolution; {moves}"


@dataclass
class Audit:
    """The result of :func:`quadnorm.audit`.

    ``number``: a :class:`GridNumber`. ``rows``: every module that was seen; ``leaks``: those that matter, the worst
    first. ``totals``: the model's drift from its training grid at each resolution, by way. ``errors``: mean relative
    L² errors, if there were targets. ``left``: what could not be anchored. ``traits``: what lies between the coarser
    grid's samples. ``smoothed``: the anchored model's discrepancy for an input without fine scales. ``compared``: the
    index of the resolution whose run is compared with the training grid's: the finest, or the coarsest if none is
    finer.
    """

    resolutions: list[str]
    spacings: list[float]
    rows: list[AuditRow]
    totals: dict[str, list[float]]
    errors: dict[str, list[float]]
    left: list[Entry]
    floor: float
    traits: Traits
    grid: GridCheck | None = None
    smoothed: float | None = None
    placements: tuple[str, ...] = ()
    compared: int = -1

    @property
    def number(self) -> GridNumber:
        """How much the model depends on its grid."""
        h0 = self.spacings[0]
        finer = any(h < h0 for h in self.spacings)
        others = [k for k, h in enumerate(self.spacings) if k and (h < h0) == finer and h != h0]
        k = min(others or [self.compared], key=lambda k: abs(abs(log2(h0 / self.spacings[k])) - 1))
        errors = self.errors.get(AS_TRAINED, [])
        doublings = abs(log2(h0 / self.spacings[k])) or 1.0
        known = len(errors) == len(self.resolutions) and errors[0] > 0
        factor = (errors[k] / errors[0]) ** (1 / doublings) if known else None
        return GridNumber(self.totals[AS_TRAINED][k], factor, (self.resolutions[0], self.resolutions[k]))

    @property
    def leaks(self) -> list[AuditRow]:
        """Modules, not containers, that introduce more than rounding and a thousandth of the worst; the worst first."""
        own = [r for r in self.rows if r.introduced is not None and (not r.container or self._sums_itself(r))]
        worst = max((r.introduced or 0.0 for r in own), default=0.0)
        leaking = [r for r in own if (r.introduced or 0) > max(self.floor, 1e-3 * worst)]
        return sorted(leaking, key=lambda r: -(r.introduced or 0))

    def _sums_itself(self, row: AuditRow) -> bool:
        """Whether a container has a sum of its own: leaving only it as trained makes a difference."""
        return row.alone is not None and row.alone > 1.05 * self.totals[ANCHORED][self.compared] + self.floor

    @property
    def rest(self) -> str:
        """What anchoring does not remove, and why."""
        if ANCHORED not in self.totals or self.totals[ANCHORED][self.compared] <= self.floor:
            return ""
        total, p = self.totals[ANCHORED][self.compared], self.order[ANCHORED]
        remainder = f"anchored, {total:.3%} remain" + ("" if p is None else f", of order {p:.1f}")
        if self.smoothed is not None and self.smoothed < total / 2:
            return f"{remainder}, but {self.smoothed:.3%} for an input without fine scales: aliasing of the input"
        left = ", ".join(dict.fromkeys(e.name or "(model)" for e in self.left))
        if p is not None and (p > 1.7 if not left else 1.7 < p < 2.3):
            return f"{remainder}: what sums that are exact to O(h²) leave"
        if left:
            return f"{remainder}: the modules left ({left})"
        # Of one finer grid alone no order can be told, and a sum's O(h²) may be large on a coarse training grid.
        own = "what sums that are exact to O(h²) leave, or " if p is None else ""
        return f"{remainder}: {own}aliasing of the activations"

    @property
    def order(self) -> dict[str, float | None]:
        """Observed order of the model's output in h, as trained and anchored."""
        return {way: self._order(values) for way, values in self.totals.items()}

    def _order(self, values: list[float]) -> float | None:
        """The p for which |h0^p − h^p| fits best, by bisection on the ratio of the last discrepancy to the first."""
        h0 = self.spacings[0]
        pairs = [(h, v) for h, v in zip(self.spacings[1:], values[1:], strict=True) if v > self.floor and h != h0]
        if len({h for h, _ in pairs}) < 2:
            return None
        (ha, va), (hb, vb) = pairs[0], pairs[-1]
        wanted = log(vb / va)

        def ratio(p: float) -> float:
            return log(abs(h0**p - hb**p) / abs(h0**p - ha**p))

        low, high = 0.05, 8.0
        if not min(ratio(low), ratio(high)) <= wanted <= max(ratio(low), ratio(high)):
            return None
        for _ in range(60):
            middle = (low + high) / 2
            if (ratio(middle) > wanted) == (ratio(low) > wanted):
                low = middle
            else:
                high = middle
        return low

    @property
    def detail(self) -> float:
        """The share of the input on the finer of the two compared grids that the coarser cannot hold."""
        return self.traits.detail

    @property
    def recommendation(self) -> str:
        """``nothing``, or the function to use, with the evidence. There is none of accuracy without targets: how far an
        output is from the training grid's says nothing of its error."""
        raw = self.totals[AS_TRAINED]
        if max(raw) <= self.floor:
            return "nothing: the output does not depend on the resolution"
        if self.errors:
            return self._by_errors()
        return (
            f"transfer, with pairs at the training grid: the output moves with the grid by {max(raw):.2%}; without "
            "targets nothing can be said of the ways' errors"
        )

    def _by_errors(self) -> str:
        means = {way: sum(v[1:]) / len(v[1:]) for way, v in self.errors.items()}
        best = min(means, key=means.__getitem__)
        tie = ""
        if best != TRANSFERRED and means.get(TRANSFERRED, float("inf")) <= CLOSE * means[best]:
            best, tie = TRANSFERRED, f", which is within {CLOSE - 1:.0%} of the smallest"
        errors_by_way = ", ".join(f"{way} {v:.3%}" for way, v in sorted(means.items(), key=lambda kv: kv[1]))
        name = "nothing: the model is best as trained" if best == AS_TRAINED else FUNCTIONS[best]
        return f"{name}, by the mean error at the other resolutions{tie} ({errors_by_way})"

    def to_frame(self) -> Any:
        """All rows as a pandas DataFrame."""
        try:
            pd = import_module("pandas")
        except ImportError:
            raise ImportError("Audit.to_frame needs pandas: pip install 'quadnorm[bench]'") from None
        return pd.DataFrame([{c: getattr(r, c) for c in COLUMNS} for r in self.rows], columns=list(COLUMNS))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        rows = [{**{c: getattr(r, c) for c in COLUMNS}, "name": r.label} for r in self.rows]
        parts = ("resolutions", "totals", "errors", "remarks", "recommendation")
        return {"number": asdict(self.number), "modules": rows, **{part: getattr(self, part) for part in parts}}

    def __str__(self) -> str:
        body = [r.cells() for r in self.leaks]
        parts = [*self.advice, self._headline()]
        parts += [table(HEAD, body)] if body else []
        parts += [f"  {line}" for line in self.legend]
        if self.errors:
            parts.append("\nerror against the targets\n" + table(["", *self.resolutions], self.error_rows()))
        return "\n".join([*parts, *self.remarks])

    @property
    def advice(self) -> list[str]:
        """The recommendation, how it is typed, and the number."""
        choice = self.recommendation.replace(",", ":").split(":")[0]
        pairs = ", data=(x, y))  # x, y: pairs at the training grid" if choice == FUNCTIONS[TRANSFERRED] else ")"
        how = f"  in Python: quadnorm.{choice}(model, {self.sizes}{self._placed}{pairs}"
        return [f"recommended: {self.recommendation}", *([how] * (choice in FUNCTIONS.values())), f"{self.number}"]

    @property
    def remarks(self) -> list[str]:
        """What is left and why, and what the data hold, one sentence each."""
        other = self.resolutions[self.compared]
        lines = [self.rest] if self.rest else []
        lines += [f"left: {e.name or '(model)'} ({e.kind}): {e.why}" for e in self.left]
        lines += [] if self.grid is None else [f"data: {self.grid}"]
        lines.append(
            f"input: {self.detail:.2%} of the finest input lies between the training grid's samples"
            if self.traits.finer
            else f"input: {self.detail:.2%} of the training grid's input lies between the samples at {other}"
        )
        if self.traits.target_detail is not None:
            lines.append(f"target: {self.traits.target_detail:.2%} of the finest target does")
        return lines

    def _repr_html_(self) -> str:
        return page.tables(self)

    @property
    def legend(self) -> tuple[str, ...]:
        """What the columns of the rows mean."""
        compared = f"rows compare {self.resolutions[0]} with {self.resolutions[self.compared]}"
        return (compared, *LEGEND) if self.leaks else (self.nothing,)

    @property
    def nothing(self) -> str:
        """What stands in place of an empty table."""
        if max(self.totals[AS_TRAINED]) <= 10 * self.floor:
            return "no module introduces more than rounding"
        return (
            "the output depends on the grid, but no module or call could be compared alone with its run on the other "
            "grid; what is left below causes it"
        )

    @property
    def sizes(self) -> str:
        """The training grid as one would type it."""
        return self.resolutions[0] if "×" not in self.resolutions[0] else f"({self.resolutions[0].replace('×', ', ')})"

    @property
    def _placed(self) -> str:
        """The placement as one would type it."""
        names = dict.fromkeys(self.placements)
        return f", placement={(self.placements[0] if len(names) == 1 else self.placements)!r}"

    def error_rows(self) -> list[list[str]]:
        return [[way, *(f"{v:.3%}" for v in values)] for way, values in self.errors.items()]

    def _headline(self) -> str:
        lines = [f"output at {', '.join(self.resolutions)}, relative to {self.resolutions[0]}"]
        for way, values in self.totals.items():
            p = self.order[way]
            order = "" if p is None else f"   (order {p:.1f} in h)"
            lines.append(f"  {way:10s} " + "  ".join(f"{v:.3%}" for v in values) + order)
        return "\n".join(lines)

    def figure(self) -> Any:
        """A matplotlib figure: discrepancy by resolution, what each module introduces, errors if there are targets."""
        return page.figure(self)

    def html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One page with table and figure, nothing loaded from elsewhere; written to ``path`` if given."""
        return _written(page.page(self), path, "the audit")

    def badge(self, path: str | os.PathLike[str] | None = None) -> str:
        """The number as a small SVG picture for a README; written to ``path`` if given.

        Green up to 1 % of drift (a factor of 1.05 per doubling), amber up to 10 % (1.25), red beyond.
        """
        return _written(page.badge(self.number), path, "the badge")


def _written(text: str, path: str | os.PathLike[str] | None, what: str) -> str:
    if path is not None:
        write_atomic(Path(path), text, what)
    return text
