"""The tables of docs/understand/limits.md, from records: ``python examples/limits.py RESULTS…``, folders or packs.

Without arguments the packs in results/ are read. ``quadnorm study run NAME --preset desk`` makes records of
false-promise, false-promise-whole, false-promise-multires, false-promise-multires-low, neuralop-tutorial and
physicsnemo-darcy.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from quadnorm._files import write_atomic
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.studies.pack import unpack

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "understand" / "limits.md"
WAYS = {"as trained": "as-trained", "run at 16": "native", "fixed band": "crop-pad", "transferred": "transferred"}
SEVERAL = {"trained at 16, 32, 64": "samples", "the same, equal cost": "cost"}
# Table → (study of one training grid, ending of its ways, study of several training grids).
TABLES = {
    "same": ("false-promise", "", "false-promise-multires-low"),
    "whole": ("false-promise-whole", "", "false-promise-multires"),
    "unseen": ("false-promise", "-new", "false-promise-multires"),
}
# Study of a model of others by its own recipe → what it is, and the grids beyond the training grid.
PUBLIC = {
    "neuralop-tutorial": ("neuraloperator's tutorial", (32,)),
    "physicsnemo-darcy": ("PhysicsNeMo's example", (32, 64)),
}
USES = {
    "as trained": "as-trained",
    "anchored": "anchor-all",
    "extended": "extended",
    "run at the training grid": "native",
}


def mean(library: Library, study: str, variant: str, way: str, grid: int) -> float | None:
    """Mean error of the seeds in per cent; None if nothing was run."""
    runs = library.at(study, "desk").of(variant, "None", grid, way)
    return sum(runs.values()) / len(runs) if runs else None


def table(library: Library, name: str, grid: int = 64) -> str:
    """Errors at 16 and by every way at ``grid``; bold: the smallest of a row."""
    single, ending, several = TABLES[name]
    lines = ["| model, problem | at 16 | " + " | ".join((*WAYS, *SEVERAL)) + " |", "|---" + "|--:" * 7 + "|"]
    for v in library.at(single, "desk").study.variants:
        native = mean(library, single, v.name, f"as-trained{ending}", 16)
        errors = [mean(library, single, v.name, way + ending, grid) for way in WAYS.values()]
        errors += [mean(library, several, f"{v.name}, equal {kind}", "as-trained", grid) for kind in SEVERAL.values()]
        best = min((round(e, 2) for e in errors if e is not None), default=0.0)
        cells = ["—" if e is None else f"**{e:.2f}**" if round(e, 2) == best else f"{e:.2f}" for e in errors]
        lines.append(f"| {v.operator}, {v.problem} | {native or float('nan'):.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def public(library: Library) -> str:
    """Errors of models of others, by the seeds that were run in all ways; bold: the smallest of a row."""
    uses = {**USES, "transferred": "transferred"}
    lines = ["| model | grid | seeds | at the training grid | " + " | ".join(uses) + " |", "|---|" + "--:|" * 8]
    for name, (title, grids) in PUBLIC.items():
        results = library.at(name, "desk")
        (v,) = results.study.variants
        for m in v.methods:
            for n in grids:
                runs = [
                    results.of(v.name, m.label, v.train[0]),
                    *(results.of(v.name, m.label, n, w) for w in uses.values()),
                ]
                seeds = set.intersection(*(set(r) for r in runs))
                native, *errors = (sum(r[s] for s in seeds) / max(1, len(seeds)) for r in runs)
                cells = [f"**{e:.2f}**" if round(e, 2) == round(min(errors), 2) else f"{e:.2f}" for e in errors]
                model = f"{title}, {'no norm' if m.norm == 'none' else m.label}"
                lines.append(f"| {model} | {v.train[0]} → {n} | {len(seeds)} | {native:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def written(page: str, library: Library) -> str:
    """The page with its tables made anew."""
    for name in (*TABLES, "public"):
        begin, end = f"<!-- {name}: written by examples/limits.py -->", f"<!-- end of {name} -->"
        text = f"{begin}\n{public(library) if name == 'public' else table(library, name)}\n{end}"
        page = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _, text=text: text, page, flags=re.DOTALL)
    return page


if __name__ == "__main__":
    given = [Path(p) for p in sys.argv[1:]] or sorted((ROOT / "results").glob("*.tar.xz"))
    with tempfile.TemporaryDirectory() as place:
        roots = [unpack(p, Path(place) / p.name) if p.is_file() else p for p in given]
        write_atomic(PAGE, written(PAGE.read_text(encoding="utf-8"), Library(roots)).encode(), "the page")
