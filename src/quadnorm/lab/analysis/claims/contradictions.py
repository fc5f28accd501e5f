"""Where the paper's tables say something against each other or against its claims; the report prints them beside."""

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
        "8.32 and 6.39 %. Whatever differs between them is not said, and is larger than any gain claimed there."
    ),
    "periodic": (
        "On a periodic grid the right weights are equal, so BlendQuadNorm would be LayerNorm; the printed rows "
        "differ, so trapezoid weights were used on a grid that has no ends."
    ),
    "undefined": (
        "ResConditioned, LearnableQuad, SpectralNorm, RI-BandNorm and QuadBandNorm are named but not defined; "
        "batch size, loss and several budgets are not stated. What was built is said in the docstrings and in the "
        "studies' notes."
    ),
}
