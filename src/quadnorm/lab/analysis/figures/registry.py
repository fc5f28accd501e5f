"""Every figure by name: the paper's figures, redrawn from records, and ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadnorm._suggest import unknown
from quadnorm.lab.analysis.figures import degradation, fields, transfer, tutorial
from quadnorm.lab.analysis.figures.style import save
from quadnorm.lab.analysis.library import Library


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn. ``needs``: the studies whose records it uses; empty for figures of the theory.

    ``stored``: whether it shows fields or an audit, which runs store when they are evaluated.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Library], Any | None]
    needs: tuple[str, ...] = ()
    label: str = ""  # the paper's, if it is one of its figures
    stored: bool = False


def _of_theory(name: str) -> Callable[[Library], Any]:
    """A figure that depends on no records, imported when it is drawn: it loads torch, which pages do not need."""

    def draw_it(_: Library) -> Any:
        from quadnorm.lab.analysis.figures import theory

        return getattr(theory, name)()

    return draw_it


DRAWINGS: tuple[Drawing, ...] = (
    Drawing(
        "transfer",
        "As trained, and taken to the other grids afterwards",
        "Mean error by test grid. Solid: the model as trained; dashed: the same weights, transferred or with every "
        "spatial sum anchored at the training grid, as the legend says.",
        transfer.transfer,
        ("anchored-crossres", "transfer-baselines", "demo"),
    ),
    Drawing(
        "tutorial",
        "neuraloperator's tutorial, taken from 16² to 32²",
        "Its FNO on its small Darcy set: error at 32² by way, bars from the smallest to the largest seed; grey: with a "
        "wrong placement. Dashed: the error at the training grid.",
        tutorial.tutorial,
        ("neuralop-tutorial",),
    ),
    Drawing(
        "degradation",
        "Degradation factors of every model, problem and way",
        "Error over that of the same model at its training grid (geometric mean over norms, seeds and studies), by "
        "how many times finer or coarser the test grid is. Green: less error, red: four times as much. Rollouts: over "
        "the error of one step.",
        degradation.degradation,
        ("anchored-crossres", "transfer-baselines", "false-promise"),
    ),
    Drawing(
        "octaves",
        "Where the error lies: by octave of the wavenumber",
        "FNOs trained at 16 samples, at the finest grid: energy of the error in each octave over the whole energy of "
        "the truth, means over test samples and seeds. Right of the line: waves that 16 samples do not hold.",
        degradation.octaves,
        ("false-promise", "false-promise-whole"),
    ),
    Drawing(
        "slope",
        "One law for the degradation",
        "The degradation adds to the native error in quadrature and is proportional to the change of spacing; each "
        "method has one slope. Open marks: transferred or anchored.",
        transfer.slope,
        ("anchored-crossres", "demo", "extreme-crossres"),
    ),
    Drawing(
        "prediction",
        "What it looks like",
        "One test instance at the finest grid: input, truth, and the errors of the trained model in each use, on one "
        "colour scale.",
        fields.prediction,
        ("demo", "anchored-crossres"),
        stored=True,
    ),
    Drawing(
        "audit",
        "Which modules depend on the grid",
        "What each module of a trained model adds to the difference between its runs at two grids, and its order in h.",
        fields.audit_drift,
        ("demo", "anchored-crossres"),
        stored=True,
    ),
    Drawing(
        "schematic",
        "The weights that each norm gives to the samples",
        "Above, dot areas are weights on a mesh refined at its ends, lines its control volumes. Below, the part of "
        "each measure that sits on the boundary, from the measures' own weights.",
        _of_theory("schematic"),
        label="fig:schematic",
    ),
    Drawing(
        "scaling",
        "Scaling with gap and depth",
        "Left, degradation against the resolution ratio with fitted exponents; grey, the paper's values. Right, the "
        "ratio of LayerNorm's to QuadNorm's degradation; training grid and width change with the depth.",
        transfer.scaling,
        ("extreme-crossres", "deep-crossres"),
        "fig:scaling",
    ),
    Drawing(
        "error-decomposition",
        "Degradation against a network without norms",
        "Faint: error at the training grid; full colour: what the other grid adds, in points and relative to no norm.",
        transfer.error_decomposition,
        ("error-decomp",),
        "fig:error-decomposition",
    ),
    Drawing(
        "bias-convergence",
        "Bias of a mean on uneven and even grids",
        "The mean of sin πx · sin πy, in units of σ, with equal weights and with control volumes. Middle: the ratio of "
        "the two by type of mesh, about 4000 samples each (dotted: the paper's). Right: the ratio grows with n, so "
        "that it means nothing without the size of the mesh.",
        _of_theory("bias_convergence"),
        label="fig:bias-convergence",
    ),
    Drawing(
        "nonuniform-bias",
        "Bias by mesh",
        "One mesh of 2000 to 5000 samples from each family, fields with closed forms. Numbers: error with equal "
        "weights over error with volumes.",
        _of_theory("nonuniform_bias"),
        label="fig:nonuniform-bias",
    ),
    Drawing(
        "nonuniform-mechanism",
        "Why equal weights miss the mean",
        "A mesh of 64² nodes refined at its ends: most nodes lie in the boundary strip, where the field is small. "
        "Numbers in d to f: what strip and rest add to the mean.",
        _of_theory("nonuniform_mechanism"),
        label="fig:nonuniform-mechanism",
    ),
    Drawing(
        "varcoeff-qualitative",
        "Variable-coefficient diffusion at the training grid",
        "Coefficient, truth, predictions and absolute errors of LayerNorm and QuadNorm; Galerkin above, Transolver "
        "below.",
        fields.varcoeff,
        ("galerkin-varcoeff", "transolver-varcoeff"),
        "fig:varcoeff-qualitative",
        stored=True,
    ),
    Drawing(
        "elasticity-4x-qualitative",
        "Elasticity at four times the training grid",
        "Above, whole fields; the box is the boundary window with the largest error. Below, that window.",
        fields.elasticity,
        ("galerkin-elasticity-4x",),
        "fig:elasticity-4x-qualitative",
        stored=True,
    ),
)


def figure_names() -> tuple[str, ...]:
    """The names that :func:`draw` knows."""
    return tuple(d.name for d in DRAWINGS)


def drawing(name: str) -> Drawing:
    """A figure by name; the name may begin with ``fig:``."""
    for d in DRAWINGS:
        if d.name == name.removeprefix("fig:"):
            return d
    raise ValueError(unknown("figure", name, figure_names()))


def draw(name: str, library: Library) -> Any | None:
    """A matplotlib figure, or None if the records it needs are missing."""
    return drawing(name).draw(library)


def attempt(name: str, library: Library) -> tuple[Any | None, str]:
    """The figure and an empty text, or None and the reason: missing records, or files that cannot be read.

    For a given library each figure is drawn only once.
    """
    key = ("figure", name)
    if key not in library.memo:
        library.memo[key] = _attempt(drawing(name), library)
    outcome: tuple[Any | None, str] = library.memo[key]
    return outcome


def _attempt(d: Drawing, library: Library) -> tuple[Any | None, str]:
    try:
        figure = d.draw(library)
    except (ValueError, OSError, RuntimeError, LookupError, TypeError, ArithmeticError) as error:
        return None, f"{type(error).__name__}: {error}"
    if figure is not None:
        return figure, ""
    stored = ", with the fields that a run stores" if d.stored else ""
    what = f"needs records of {' or '.join(d.needs)} at the desk or paper preset{stored}"
    return None, f"{what}: quadnorm study run {d.needs[0]} --preset desk"


def save_figures(library: Library, folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Write every figure that can be drawn as SVG and PNG; returns the files, and the reasons for missing figures."""
    files: list[Path] = []
    missing: dict[str, str] = {}
    for d in DRAWINGS:
        figure, why = attempt(d.name, library)
        if figure is None:
            missing[d.name] = why
        else:
            files += save(figure, Path(folder) / d.name)
    return files, missing
