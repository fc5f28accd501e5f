"""Where the paper's tables disagree with each other or with its claims; the report prints these beside the claims."""

CONTRADICTIONS: dict[str, str] = {
    "not the norm alone": (
        "Without any norm an FNO degrades as much as with LayerNorm (3.49 → 12.76 % against 3.26 → 10.99 %): the "
        "FFT on endpoint-inclusive samples has a period that moves with n, and every spatial sum has a boundary "
        "mass of 1/n."
    ),
    "one law": (
        "√(eₙ² − e₀²) = s·|1/(n₀−1) − 1/(n−1)| fits the printed Darcy tables to 0.1–2 % with a slope s for each "
        "method. A power of the ratio is a description of the same numbers without the saturation that they show."
    ),
    "alpha zero": (
        "The row α = 0 of tab:alpha-matrix is not the limit of the blend but the instance-mode variant: errors "
        "are flat from α = 0.1 to 0.5 and jump at 0."
    ),
    "gain is native": (
        "On sine-basis problems QuadNorm degrades more than LayerNorm in transfer (Poisson +1.46 against +0.83 "
        "points, cavity +4.81 against +3.56): its gain there is at the native grid."
    ),
    "depth confounded": (
        "The depth claim compares 4 layers, width 32, 32² → 256² with 8 layers, width 48, 64² → 256²: three "
        "things change."
    ),
    "rules identical": (
        "The Simpson and Boole rows are identical in every digit; 64, 128 and 256 points meet neither rule's condition."
    ),
    "test sets differ": (
        "Errors that fall at twice the resolution (elasticity 8.59 → 6.49 %) mean that test sets differ by "
        "resolution. Ours are the same instances at every grid."
    ),
    "worse left out": (
        "In the 10-seed Helmholtz study that the summary quotes for BlendQuadNorm, QuadNorm is 28 % worse than "
        "LayerNorm; in another table of the same problem and grids it is 4 % better."
    ),
    "numbers differ": (
        "Tables that state the same operator, problem, norm and training grid print different errors: LayerNorm in a "
        "Galerkin Transformer on Poisson at 64² has 6.10, 11.04 and 24.26 %, in Transolver on Helmholtz at 128² 14.02, "
        "8.32 and 6.39 %. The paper does not explain the difference, which is larger than any gain claimed there."
    ),
    "periodic": (
        "On a periodic grid the right weights are equal, so BlendQuadNorm would be LayerNorm; the printed rows "
        "differ, so trapezoid weights were used on a grid that has no ends."
    ),
    "reversal ends with the gap": (
        "In the tables where the blend is better than QuadNorm in an FNO at 64² and 128², QuadNorm is better at 256² "
        "(4.59 against 5.14 %): the reversal holds near the training grid only."
    ),
    "effects without a table": (
        "The text gives d = 0.56 and 0.14 for BlendQuadNorm on standard Darcy transfer; no table has them, so they are "
        "not tested."
    ),
    "factors belong to a size": (
        "With equal weights the bias tends to a constant, with control volumes it falls as h²: their ratio grows as n² "
        "and depends on the field and on how strongly the mesh is refined. The paper does not give these; 1500 is "
        "reached at larger n than 64² on the meshes here."
    ),
    "undefined": (
        "ResConditioned, LearnableQuad, SpectralNorm, RI-BandNorm and QuadBandNorm are named but not defined; "
        "batch size, loss and several budgets are not stated. The docstrings and the studies' notes "
        "describe what was built."
    ),
}
