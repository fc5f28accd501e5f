"""The paper's five recommendations, and ours for models that are trained already, as a function of the setting."""

from __future__ import annotations

from dataclasses import dataclass

from quadnorm._suggest import unknown
from quadnorm.lab import read_table

OPERATORS = ("fno", "galerkin", "transolver", "other")
BOUNDARIES = ("dirichlet", "neumann", "periodic")
NODES = ("endpoint", "cell", "periodic", "left", "interior", "points")


@dataclass(frozen=True)
class Advice:
    """A recommendation: what to use, the reason, the table or page it rests on, and the line of code."""

    use: str
    why: str
    source: str
    code: str


def advice(operator: str, boundary: str, placement: str, existing: bool) -> tuple[Advice, ...]:
    """Recommendations for a setting, the most important first; their words are in ``advice.toml``.

    >>> [item.use for item in advice("fno", "dirichlet", "endpoint", existing=False)][0]
    'BlendQuadNorm with α = 0.3'
    >>> advice("fno", "periodic", "periodic", existing=False)[0].code
    "norm='layer'"
    """
    for what, value, known in (
        ("operator", operator, OPERATORS),
        ("boundary condition", boundary, BOUNDARIES),
        ("placement", placement, NODES),
    ):
        if value not in known:
            raise ValueError(unknown(what, value, known))
    words = read_table("studies/advice.toml")
    names = _for_trained(placement) if existing else _for_new(operator, boundary, placement)
    return tuple(
        Advice(**{key: text.replace("{placement}", placement) for key, text in words[name].items()}) for name in names
    )


def _for_trained(placement: str) -> tuple[str, ...]:
    """Anchoring needs a grid: on meshes the sums of a trained model cannot be tied to one."""
    return ("trained-points",) if placement == "points" else ("transfer", "audit")


def _for_new(operator: str, boundary: str, placement: str) -> tuple[str, ...]:
    if boundary == "periodic" or placement == "periodic":
        return ("periodic", "seam") if placement == "endpoint" else ("periodic",)
    if placement == "cell":  # quadrature is counting there: a blend of the two is LayerNorm
        return ("cell",)
    norm = {"galerkin": "galerkin", "transolver": "quad"}.get(operator, "blend")
    measure = {"endpoint": "rule", "points": "points"}.get(placement, "other-placement")
    return (norm, measure, "tune")
