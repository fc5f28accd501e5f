"""The paper's five recommendations, and ours for models that are trained already, as a function of the setting."""

from __future__ import annotations

from dataclasses import dataclass, replace

from quadnorm._suggest import unknown

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


_BLEND = Advice(
    "BlendQuadNorm with α = 0.3",
    "as accurate as LayerNorm at the training grid, and moves less with the grid; the safe default for an FNO or when "
    "unsure",
    "tab:tost (equivalence at 64²), tab:extreme-crossres",
    "norm='blend:0.3'",
)
_QUAD = Advice(
    "QuadNorm, the blend's end α = 0",
    "operators without a Fourier kernel on domains with a boundary favour pure quadrature, at the training grid too",
    "tab:alpha-matrix, tab:transolver-darcy, tab:galerkin-poisson-10seed",
    "norm='quad:instance'   # 'quad' for the LayerNorm-style reduction",
)
_GALERKIN = replace(
    _QUAD,
    why="on domains with a boundary attention favours pure quadrature; over all channels: taken channel by channel, it "
    "was worse than LayerNorm in every setting that we ran",
    code="norm='quad'",
)
_SEAM = Advice(
    "samples without the repeated end",
    "placement endpoint says that both ends of a period are stored, so that the seam would count twice; if they are, "
    "drop the last sample of each axis, and if they are not, the placement is periodic",
    "docs/understand/measures.md",
    "x[..., :-1, :-1]",
)
_PERIODIC = Advice(
    "the norm you have: BlendQuadNorm is LayerNorm here",
    "on periodic samples the right weights are equal, so every blend is LayerNorm; do not use trapezoid weights there",
    "tab:real-ns-galerkin; statement periodic of `quadnorm theory`",
    "norm='layer'",
)
_RULE = Advice(
    "the trapezoid rule",
    "Simpson's and Boole's rules change nothing that could be measured",
    "tab:quadrature-ablation",
    "measure='trapezoid'",
)
_TUNE = Advice(
    "tune α between 0 and 0.5 if you can afford it",
    "the best share of counting depends on operator and equation",
    "tab:alpha-matrix",
    "quadnorm study run alpha-matrix",
)


def advice(operator: str, boundary: str, placement: str, existing: bool) -> tuple[Advice, ...]:
    """Recommendations for a setting, the most important first.

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
    if existing:
        return _for_trained(placement)
    if boundary == "periodic" or placement == "periodic":
        return (_PERIODIC, _SEAM) if placement == "endpoint" else (_PERIODIC,)
    if placement == "cell":  # quadrature is counting there: a blend of the two is LayerNorm
        return (_measure(placement),)
    norms = {"galerkin": _GALERKIN, "transolver": _QUAD}
    return (norms.get(operator, _BLEND), _measure(placement), _TUNE)


def _measure(placement: str) -> Advice:
    if placement == "endpoint":
        return _RULE
    if placement == "points":
        return Advice(
            "control volumes as weights",
            "counting vertices follows the mesh's density, not the domain",
            "study mesh-transfer",
            "layer(x, weights=qn.voronoi_weights(points))",
        )
    if placement == "cell":
        return Advice(
            "the midpoint rule, which is counting",
            "at cell centres equal weights are the right ones; trapezoid weights are wrong there",
            "docs/understand/measures.md",
            "norm='layer'   # or measure='midpoint'",
        )
    return Advice(
        f"the weights of {placement} samples",
        "trapezoid weights belong to samples that include both ends",
        "docs/understand/measures.md",
        f"FNO(..., norm='blend:0.3', placement='{placement}')",
    )


def _for_trained(placement: str) -> tuple[Advice, ...]:
    if placement == "points":
        return (
            Advice(
                "run it on a mesh like those of training, interpolate the output",
                "anchoring needs a grid; on meshes the sums of a trained model cannot be tied to one",
                "docs/howto/existing-models.md",
                "qn.at_native(model, points)",
            ),
        )
    where = f"n0, placement='{placement}'"
    return (
        Advice(
            "transfer it: one module for every other grid",
            "the run at the training grid, with as much of the network's own detail and of what the new input's detail "
            "does as pairs at the training grid say is right",
            "docs/understand/where-each-wins.md",
            f"qn.transfer(model, {where}, data=(x, y))",
        ),
        Advice(
            "audit it, to see which operation moves with the grid and by how much",
            "a norm is rarely the only sum that does: kernels and attention sum over space too",
            "tab:error-decomp (no norm at all degrades as much), docs/howto/existing-models.md",
            f"qn.audit(model, make_input, [n0, 2*n0, 4*n0], placement='{placement}')",
        ),
    )
