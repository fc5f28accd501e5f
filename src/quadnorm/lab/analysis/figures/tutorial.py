"""neuraloperator's tutorial at twice its training grid, by way."""

from __future__ import annotations

from typing import Any

from quadnorm.lab.analysis.figures.palette import styles
from quadnorm.lab.analysis.figures.style import FAINT, sheet, style
from quadnorm.lab.analysis.library import Library


def tutorial(library: Library) -> Any | None:
    """One panel per norm; a mark per way with the range of its seeds, the error at the training grid as a line."""
    results = library.comparable("neuralop-tutorial")
    if results is None:
        return None
    study = results.study
    v = study.variants[0]
    native, far = v.test[0], v.test[-1]
    methods = [m for m in v.methods if results.of(v.name, m.label, far)]
    if not methods:
        return None
    looks = styles([m.label for m in methods])
    with style():
        figure, axes = sheet(2.6, 1, len(methods), width=max(3.6, 2.3 * len(methods)))
        for k, (axis, m) in enumerate(zip(axes[0], methods, strict=True)):
            colour, marker = looks[m.label]
            for row, way in enumerate(study.evaluations):
                seeds = list(results.of(v.name, m.label, far, way.name).values())
                if seeds:
                    ink = FAINT if way.view else colour
                    axis.plot([min(seeds), max(seeds)], [row, row], color=ink, lw=2)
                    axis.plot([sum(seeds) / len(seeds)], [row], marker=marker, color=ink, ls="none")
            at_home = list(results.of(v.name, m.label, native).values())
            axis.axvline(sum(at_home) / len(at_home), color=FAINT, ls="--", lw=0.9, zorder=0)
            labels = [way.label for way in study.evaluations] if k == 0 else [""] * len(study.evaluations)
            axis.set_yticks(range(len(study.evaluations)), labels)
            axis.invert_yaxis()
            axis.set_title(m.label)
            axis.set_xlabel(f"error at {far}², %")
        return figure
