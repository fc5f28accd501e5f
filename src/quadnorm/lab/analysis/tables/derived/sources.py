"""The comparisons behind each row of the paper's derived tables, in the printed order."""

from quadnorm.lab.analysis.comparisons import Contrast

_Q, _B = "QuadNorm", "BlendQuadNorm"

BOOTSTRAP: tuple[tuple[Contrast, ...], ...] = (
    (
        Contrast("extreme-crossres", "fno", 256),
        Contrast("extreme-crossres", "fno", 128),
        Contrast("real-darcy-extreme", "fno", 421),
        Contrast("real-darcy-extreme", "fno", 256),
        Contrast("real-darcy-crossres", "fno", 256),
        Contrast("real-darcy-crossres", "fno", 128, _B),
        Contrast("deep-crossres", "main", 256),
    ),
    (
        Contrast("helmholtz-galerkin-strong", "main", 128, _B),
        Contrast("helmholtz-galerkin-strong", "main", 96, _B),
        Contrast("helmholtz-galerkin-strong", "main", 128),
        Contrast("multiarch-nonperiodic", "cavity", 128, _B),
        Contrast("real-darcy-crossres", "galerkin", 128, _B),
        Contrast("real-darcy-crossres", "galerkin", 256, _B),
        Contrast("real-darcy-extreme", "galerkin", 256),
        Contrast("galerkin-poisson-10seed", "main", 64),
        Contrast("poisson-dirichlet-galerkin-strong", "main", 128),
        Contrast("poisson-dirichlet-galerkin-strong", "main", 128, _B),
        Contrast("poisson-dirichlet-galerkin-strong", "main", 64),
        Contrast("poisson-dirichlet-galerkin-strong", "main", 64, _B),
    ),
    (
        Contrast("cross-fidelity", "main", 256),
        Contrast("transolver-darcy", "main", 128, _B),
        Contrast("transolver-darcy", "main", 256),
        Contrast("transolver-helmholtz", "main", 128),
        Contrast("transolver-helmholtz", "main", 128, _B),
        Contrast("transolver-multires", "main", 256),
    ),
)

BOOTSTRAP_BREADTH: tuple[Contrast, ...] = tuple(
    Contrast(name, "main", grid, method)
    for name in ("galerkin-elasticity", "galerkin-rxndiff", "galerkin-varcoeff", "transolver-varcoeff")
    for grid in (128, 64)
    for method in (_Q, _B)
)

EFFECT_SIZES: tuple[tuple[str, str, int], ...] = (
    ("extreme-crossres", "fno", 256),
    ("deep-crossres", "main", 256),
    ("extended-baselines", "main", 256),
    ("high-to-low", "128", 32),
    ("high-to-low", "256", 64),
    ("multires-fno", "main", 256),
)

# Several contrasts: the paper gives a range over them.
KEY_RESULTS: tuple[tuple[tuple[Contrast, ...], ...], ...] = (
    (
        (Contrast("multiarch-nonperiodic", "cavity", 128, _B),),
        (Contrast("galerkin-poisson-10seed", "main", 64),),
        (Contrast("galerkin-varcoeff", "main", 64),),
        (Contrast("transolver-varcoeff", "main", 64),),
        (Contrast("galerkin-helmholtz-10seed", "main", 128, _B),),
        tuple(Contrast("transolver-multires", "main", n) for n in (32, 64, 128, 256)),
    ),
    ((Contrast("real-darcy", "transolver", 256),), (Contrast("real-darcy", "fno", 256),)),
    ((Contrast("real-darcy-extreme", "fno", 421),), (Contrast("extreme-crossres", "fno", 256),)),
    (tuple(Contrast("model-scaling", f"darcy-{size}", 256) for size in ("standard", "large", "xl")),),
)

BENCHMARK_SUMMARY: tuple[tuple[str, str, int], ...] = (
    ("real-darcy-crossres", "fno", 128),
    ("real-darcy-crossres", "fno", 256),
    ("real-darcy-crossres", "fno", 421),
    ("real-darcy-crossres", "galerkin", 128),
    ("real-darcy-crossres", "galerkin", 256),
    ("real-darcy-extreme", "fno", 128),
    ("real-darcy-extreme", "fno", 256),
    ("real-darcy-extreme", "fno", 421),
    ("real-darcy-extreme", "galerkin", 128),
    ("real-darcy-extreme", "galerkin", 256),
)

BREADTH: tuple[str, ...] = ("galerkin-elasticity", "galerkin-varcoeff", "galerkin-rxndiff", "transolver-varcoeff")
EXTREME_GAP: tuple[str, ...] = ("galerkin-helmholtz-4x", "galerkin-elasticity-4x", "transolver-helmholtz-4x")
SIZES: tuple[str, ...] = ("darcy-standard", "darcy-large", "darcy-xl")
