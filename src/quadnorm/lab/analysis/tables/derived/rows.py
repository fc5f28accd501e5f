"""Which number of which study stands behind each row of the paper's derived tables, in the order of the print."""

from quadnorm.lab.analysis.comparisons import Place

_Q, _B = "QuadNorm", "BlendQuadNorm"

BOOTSTRAP: tuple[tuple[Place, ...], ...] = (
    (
        Place("extreme-crossres", "fno", 256),
        Place("extreme-crossres", "fno", 128),
        Place("real-darcy-extreme", "fno", 421),
        Place("real-darcy-extreme", "fno", 256),
        Place("real-darcy-crossres", "fno", 256),
        Place("real-darcy-crossres", "fno", 128, _B),
        Place("deep-crossres", "main", 256),
    ),
    (
        Place("helmholtz-galerkin-strong", "main", 128, _B),
        Place("helmholtz-galerkin-strong", "main", 96, _B),
        Place("helmholtz-galerkin-strong", "main", 128),
        Place("multiarch-nonperiodic", "cavity", 128, _B),
        Place("real-darcy-crossres", "galerkin", 128, _B),
        Place("real-darcy-crossres", "galerkin", 256, _B),
        Place("real-darcy-extreme", "galerkin", 256),
        Place("galerkin-poisson-10seed", "main", 64),
        Place("poisson-dirichlet-galerkin-strong", "main", 128),
        Place("poisson-dirichlet-galerkin-strong", "main", 128, _B),
        Place("poisson-dirichlet-galerkin-strong", "main", 64),
        Place("poisson-dirichlet-galerkin-strong", "main", 64, _B),
    ),
    (
        Place("cross-fidelity", "main", 256),
        Place("transolver-darcy", "main", 128, _B),
        Place("transolver-darcy", "main", 256),
        Place("transolver-helmholtz", "main", 128),
        Place("transolver-helmholtz", "main", 128, _B),
        Place("transolver-multires", "main", 256),
    ),
)

BOOTSTRAP_BREADTH: tuple[Place, ...] = tuple(
    Place(name, "main", grid, method)
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

# Several places: the paper gives a range over them.
KEY_RESULTS: tuple[tuple[tuple[Place, ...], ...], ...] = (
    (
        (Place("multiarch-nonperiodic", "cavity", 128, _B),),
        (Place("galerkin-poisson-10seed", "main", 64),),
        (Place("galerkin-varcoeff", "main", 64),),
        (Place("transolver-varcoeff", "main", 64),),
        (Place("galerkin-helmholtz-10seed", "main", 128, _B),),
        tuple(Place("transolver-multires", "main", n) for n in (32, 64, 128, 256)),
    ),
    ((Place("real-darcy", "transolver", 256),), (Place("real-darcy", "fno", 256),)),
    ((Place("real-darcy-extreme", "fno", 421),), (Place("extreme-crossres", "fno", 256),)),
    (tuple(Place("model-scaling", f"darcy-{size}", 256) for size in ("standard", "large", "xl")),),
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
