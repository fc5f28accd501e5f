"""What an audit found: a table in the terminal, a DataFrame, a figure, a page."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from importlib import import_module
from math import log
from pathlib import Path
from typing import Any

from quadnorm._files import write_atomic
from quadnorm._text import html_table
from quadnorm.adapt.auditing.rows import HEAD, AuditRow
from quadnorm.adapt.auditing.traits import Traits
from quadnorm.adapt.report import Entry, table
from quadnorm.carry.gridcheck import GridCheck

LEGEND = """\
  introduced: what the module itself does to the change of grid; cumulative: with all that came before it
  alone: the model's output if everything but this module is anchored; fixed: if only this module is"""
COLUMNS = ("name", "kind", "introduced", "cumulative", "order", "alone", "fixed", "container", "cause", "remedy")
HOW = {
    "transfer": "quadnorm.transfer(model, {given}, data=(x, y))  # x, y: pairs at the training grid",
    "anchor": "quadnorm.anchor(model, {given})",
    "at_native": "quadnorm.at_native(model, {given})",
    "extend": "quadnorm.extend(model, {given})",
}
FUNCTIONS = {  # the name of each way, and the function that makes it
    "transferred": "transfer",
    "anchored": "anchor",
    "run at the training grid": "at_native",
    "extended": "extend",
}
CLOSE = 1.02  # errors that differ by less do not decide between ways


@dataclass
class Audit:
    """The result of :func:`quadnorm.audit`.

    ``rows``: every module that was seen; ``leaks``: those that matter, the worst first. ``totals``: the model's
    discrepancy from its training grid at each resolution, as trained and anchored. ``errors``: mean relative L²
    errors, if there were targets. ``left``: what could not be anchored. ``traits``: what lies between the coarser
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
    def leaks(self) -> list[AuditRow]:
        """Modules, not containers, that introduce more than rounding and a thousandth of the worst; the worst first."""
        own = [r for r in self.rows if r.introduced is not None and (not r.container or self._sums_itself(r))]
        worst = max((r.introduced or 0.0 for r in own), default=0.0)
        leaking = [r for r in own if (r.introduced or 0) > max(self.floor, 1e-3 * worst)]
        return sorted(leaking, key=lambda r: -(r.introduced or 0))

    def _sums_itself(self, row: AuditRow) -> bool:
        """Whether a container has a sum of its own: leaving only it as trained makes a difference."""
        return row.alone is not None and row.alone > 1.05 * self.totals["anchored"][self.compared] + self.floor

    @property
    def rest(self) -> str:
        """What anchoring does not remove, and why."""
        if "anchored" not in self.totals or self.totals["anchored"][self.compared] <= self.floor:
            return ""
        total, p = self.totals["anchored"][self.compared], self.order["anchored"]
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
        raw = self.totals["as trained"]
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
        if means.get("transferred", float("inf")) <= CLOSE * means[best]:
            best = "transferred"
        errors_by_way = ", ".join(f"{way} {v:.3%}" for way, v in sorted(means.items(), key=lambda kv: kv[1]))
        name = "nothing: the model is best as trained" if best == "as trained" else FUNCTIONS[best]
        return f"{name}, by the mean error at the other resolutions ({errors_by_way})"

    def to_frame(self) -> Any:
        """All rows as a pandas DataFrame."""
        try:
            pd = import_module("pandas")
        except ImportError:
            raise ImportError("Audit.to_frame needs pandas: pip install 'quadnorm[bench]'") from None
        return pd.DataFrame([{c: getattr(r, c) for c in COLUMNS} for r in self.rows], columns=list(COLUMNS))

    def __str__(self) -> str:
        body = [r.cells() for r in self.leaks]
        parts = [*self._advice(), self._headline()]
        parts.append(table(HEAD, body) if body else self._nothing)
        parts += (
            [f"  rows compare {self.resolutions[0]} with {self.resolutions[self.compared]}", LEGEND] if body else []
        )
        if self.errors:
            parts.append("\nerror against the targets\n" + table(["", *self.resolutions], self._error_rows()))
        return "\n".join([*parts, *self.remarks])

    def _advice(self) -> list[str]:
        """The recommendation, and how it is typed."""
        lines = [f"recommended: {self.recommendation}"]
        choice = self.recommendation.replace(",", ":").split(":")[0]
        if choice in HOW:
            lines.append(f"  in Python: {HOW[choice].format(given=self.sizes + self._placed)}")
        return lines

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
        """The recommendation, then tables."""
        advice = "".join(f"<p>{html.escape(line.strip())}</p>" for line in self._advice())
        head = ["output relative to the training grid's", *self.resolutions, "order in h"]
        orders = self.order
        moves = [
            [way, *(f"{v:.3%}" for v in values), "" if orders[way] is None else f"{orders[way]:.1f}"]
            for way, values in self.totals.items()
        ]
        errors = html_table(["error against the targets", *self.resolutions], self._error_rows()) if self.errors else ""
        modules = html_table(HEAD, [r.cells() for r in self.leaks]) if self.leaks else f"<p>{self._nothing}</p>"
        legend = "".join(f"<p>{html.escape(line.strip())}</p>" for line in LEGEND.splitlines()) if self.leaks else ""
        remarks = "".join(f"<li>{html.escape(line)}</li>" for line in self.remarks)
        return f"{advice}{html_table(head, moves)}{errors}{modules}{legend}<ul>{remarks}</ul>"

    @property
    def _nothing(self) -> str:
        """What stands in place of an empty table."""
        if max(self.totals["as trained"]) <= 10 * self.floor:
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

    def _error_rows(self) -> list[list[str]]:
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
        from quadnorm.adapt.auditing.page import figure

        return figure(self)

    def html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One page with table and figure, nothing loaded from elsewhere; written to ``path`` if given."""
        from quadnorm.adapt.auditing.page import page

        text = page(self)
        if path is not None:
            write_atomic(Path(path), text, "the audit")
        return text
