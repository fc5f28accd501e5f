"""Rows of an audit: one for each module, and for each function that mixes samples outside of modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from quadnorm.adapt.auditing.gaps import Gaps, call_gaps
from quadnorm.adapt.extended import Extended
from quadnorm.adapt.operations import TABLE
from quadnorm.adapt.report import AnchorReport, Entry

HEAD = ("module", "kind", "introduced", "cumulative", "order", "alone", "fixed", "cause", "remedy")


@dataclass
class AuditRow:
    """One module; see :func:`quadnorm.audit` for the columns. ``container``: its parts have rows of their own."""

    name: str
    kind: str
    introduced: float | None = None
    cumulative: float | None = None
    order: float | None = None
    alone: float | None = None
    fixed: float | None = None
    container: bool = False
    action: str = ""
    why: str = ""
    floor: float = 0.0  # what is introduced below it is rounding

    @property
    def moves(self) -> bool:
        """Whether the module introduces more than rounding."""
        return (self.introduced or 0.0) > self.floor

    @property
    def label(self) -> str:
        """The module's name."""
        return self.name or "(model)"

    @property
    def cause(self) -> str:
        """What makes the module depend on the resolution, as far as its type tells."""
        if self.action == "left" or self.kind.startswith("call "):
            return self.why.partition(";")[0]
        if self.action == "unchanged":
            return f"{self.why.partition(';')[0]}: what is left is its own error" if self.moves else ""
        if self.action != "anchored":
            if self.container:
                return "that of its parts" if self.moves else ""
            return "unknown: a sum in a functional call or in a module without a rule" if self.moves else ""
        kind = self.kind.lower()
        if "spectral" in kind:
            return "the FFT's period and the boundary mass move with n"
        if "embedding" in kind:
            return "coordinates j/n move with n"
        if "attention" in kind or "transformer" in kind or "transolver" in kind:
            return "counting measure in attention: the boundary mass 1/n moves with n"
        return "counting measure: the boundary mass 1/n moves with n"

    @property
    def remedy(self) -> str:
        """What would fix it."""
        if self.action == "anchored":
            return "anchor" + (", or train with QuadNorm" if "norm" in self.kind.lower() else "")
        if self.container and self.action != "left":
            return ""
        if self.action == "unchanged":
            return "extend" if self.moves else ""
        return "at_native" if self.action == "left" or self.moves else ""

    def cells(self) -> list[str]:
        """The row as text, under ``HEAD``."""
        order = "" if self.order is None else f"{self.order:.1f}"
        introduced, cumulative, alone, fixed = map(_percent, (self.introduced, self.cumulative, self.alone, self.fixed))
        return [self.label, self.kind, introduced, cumulative, order, alone, fixed, self.cause, self.remedy]


def module_rows(model: nn.Module, gaps: Gaps, orders: dict[str, float], report: AnchorReport) -> list[AuditRow]:
    """A row for each module that was measured or that the report names."""
    entries = {e.name: e for e in report if _is_about_module(e)}
    rows = []
    for name, module in model.named_modules():
        if name not in gaps.introduced and name not in entries:
            continue
        entry = entries.get(name)
        inside = any(other != name and other.startswith(f"{name}." if name else "") for other in gaps.introduced)
        rows.append(
            AuditRow(
                name=name,
                kind=type(module).__name__,
                introduced=gaps.introduced.get(name),
                cumulative=gaps.cumulative.get(name),
                order=orders.get(name),
                container=inside and (entry is None or entry.action != "left"),
                action="" if entry is None else entry.action,
                why="" if entry is None else entry.why,
            )
        )
    return rows


def _is_about_module(entry: Entry) -> bool:
    """Whether a line is about a module as such: not about a value, a field or a call of a module's own code."""
    return entry.kind not in ("value", "field", "constant", "calls") and not entry.kind.startswith("call ")


def add_call_rows(rows: list[AuditRow], extended: Extended, report: AnchorReport, native: Tensor, x: Tensor) -> None:
    """A row for each function that mixes samples outside of modules that have a row as such, and for padding."""
    known = frozenset(e.name for e in report if _is_about_module(e))
    calls = {(e.name, e.call): e for e in report if e.call}
    for (module, name), gap in call_gaps(extended.model, extended.plan((x,), {}), native, x).items():
        if module in known:
            _measured_by_call(rows, module, gap)
            continue
        entry = calls.get((module, name))
        reason = TABLE[name].reason.text() if name in TABLE else entry.why if entry else ""
        action = entry.action if entry else "left"
        rows.append(AuditRow(name=module, kind=f"call {name}", introduced=gap, action=action, why=reason))
        for row in rows:
            if row.name == module and not row.kind.startswith("call ") and not row.action:
                row.container = True


def _measured_by_call(rows: list[AuditRow], name: str, gap: float) -> None:
    """Fill in what a module introduces that could not be compared as such: one that leads to a grid of its own."""
    for row in rows:
        if row.name == name and row.introduced is None and not row.kind.startswith("call "):
            row.introduced = gap
        elif not row.action and name.startswith(f"{row.name}." if row.name else "") and row.name != name:
            row.container = True


def extending_evaluates(rows: Sequence[AuditRow]) -> bool:
    """Whether extending evaluates anything between the training nodes; kernels and pools are only interpolated."""
    calls = [r.kind.removeprefix("call ") for r in rows if r.kind.startswith("call ")]
    return any(r.action == "anchored" for r in rows) or any(name in TABLE and not TABLE[name].carried for name in calls)


def _percent(v: float | None) -> str:
    return "" if v is None else f"{v:.3%}"


def under_own_names(rows: list[AuditRow], report: AnchorReport) -> tuple[list[AuditRow], AnchorReport]:
    """Rows and report of a model inside a :class:`ChannelsFirst`, under its own names."""
    prefix = "model"

    def renamed(entry: Any) -> Any:
        return replace(entry, name=entry.name.removeprefix(prefix).removeprefix("."))

    own = [renamed(row) for row in rows if row.name.startswith(prefix)]
    return own, replace(report, entries=[renamed(e) for e in report if e.name.startswith(prefix)])
