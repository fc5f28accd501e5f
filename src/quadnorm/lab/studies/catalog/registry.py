"""Every study by name, and the tables that are derived from them."""

from dataclasses import replace

from quadnorm._suggest import unknown
from quadnorm.lab.studies.catalog import benchmark as catalog_benchmark
from quadnorm.lab.studies.catalog import breadth as catalog_breadth
from quadnorm.lab.studies.catalog import field, mesh, others, ours
from quadnorm.lab.studies.catalog import fno as catalog_fno
from quadnorm.lab.studies.study import AS_TRAINED, TRANSFER, Derived, Study


def _transferred(s: Study) -> Study:
    """The study with all ways to use a model, if it is tested at other grids and lists no ways itself."""
    other = any(set(v.test) - set(v.train) for v in s.variants)
    return replace(s, evaluations=TRANSFER) if other and s.evaluations == (AS_TRAINED,) else s


_STUDIES: dict[str, Study] = {
    s.name: _transferred(s)
    for s in (
        *catalog_fno.STUDIES,
        *catalog_benchmark.STUDIES,
        *catalog_breadth.STUDIES,
        *ours.STUDIES,
        *others.STUDIES,
        *field.STUDIES,
        *mesh.STUDIES,
    )
}

_BREADTH = ("galerkin-elasticity", "galerkin-varcoeff", "galerkin-rxndiff", "transolver-varcoeff")

_DERIVED: dict[str, Derived] = {
    d.name: d
    for d in (
        Derived(
            "key-results-summary",
            "tab:key-results-summary",
            "Headline improvements over LayerNorm",
            (
                "multiarch-nonperiodic",
                "galerkin-poisson-10seed",
                "galerkin-varcoeff",
                "transolver-varcoeff",
                "galerkin-helmholtz-10seed",
                "transolver-multires",
                "real-darcy",
                "real-darcy-extreme",
                "extreme-crossres",
                "model-scaling",
            ),
        ),
        Derived(
            "real-benchmark-best-summary",
            "tab:real-benchmark-best-summary",
            "Larger improvement of QuadNorm and BlendQuadNorm over LayerNorm, long training",
            ("real-darcy",),
        ),
        Derived(
            "real-benchmark-summary",
            "tab:real-benchmark-summary",
            "Improvements over LayerNorm on the released Darcy files",
            ("real-darcy-crossres", "real-darcy-extreme"),
        ),
        Derived(
            "bootstrap-cis",
            "tab:bootstrap-cis",
            "Bootstrap intervals of the main improvements",
            (
                "extreme-crossres",
                "real-darcy-extreme",
                "real-darcy-crossres",
                "deep-crossres",
                "helmholtz-galerkin-strong",
                "multiarch-nonperiodic",
                "galerkin-poisson-10seed",
                "poisson-dirichlet-galerkin-strong",
                "cross-fidelity",
                "transolver-darcy",
                "transolver-helmholtz",
                "transolver-multires",
            ),
            notes=("Names the better of two norms; four of its rows name the other one. Here both are computed.",),
        ),
        Derived(
            "effect-sizes",
            "tab:effect-sizes",
            "Cohen's d against LayerNorm",
            ("extreme-crossres", "deep-crossres", "extended-baselines", "high-to-low", "multires-fno"),
        ),
        Derived(
            "nonperiodic-breadth-summary",
            "tab:nonperiodic-breadth-summary",
            "Best improvement at twice the resolution beyond Darcy",
            _BREADTH,
        ),
        Derived(
            "bootstrap-cis-breadth",
            "tab:bootstrap-cis-breadth",
            "Bootstrap intervals of the improvements beyond Darcy",
            _BREADTH,
            notes=("Four printed improvements are not 1 − mean/mean of the printed means.",),
        ),
        Derived(
            "extreme-gap-summary",
            "tab:extreme-gap-summary",
            "Best improvement at four times the resolution beyond Darcy",
            ("galerkin-helmholtz-4x", "galerkin-elasticity-4x", "transolver-helmholtz-4x"),
        ),
    )
}


def study_names() -> tuple[str, ...]:
    """The names that :func:`study` knows, the paper's studies first."""
    return tuple(_STUDIES)


def study(name: str) -> Study:
    """A study by name, at the paper's budget; the name may begin with ``tab:``.

    >>> s = study("deep-crossres")
    >>> s.variants[0].operator_params
    {'width': 48, 'modes': 12, 'layers': 8, 'last_activation': True}
    >>> s.variants[0].printed()["QuadNorm", 256].value
    4.17
    """
    key = name.removeprefix("tab:")
    if key in _STUDIES:
        return _STUDIES[key]
    if key in _DERIVED:
        raise ValueError(
            f"{key!r} is not a study but a table computed from studies: run {', '.join(_DERIVED[key].draws_on)}"
        )
    raise ValueError(unknown("study", name, _STUDIES))


def derived_names() -> tuple[str, ...]:
    """The names that :func:`derived` knows."""
    return tuple(_DERIVED)


def derived(name: str) -> Derived:
    """A derived table by name.

    >>> derived("effect-sizes").draws_on[0]
    'extreme-crossres'
    """
    key = name.removeprefix("tab:")
    if key not in _DERIVED:
        raise ValueError(unknown("derived table", name, _DERIVED))
    return _DERIVED[key]
