"""What in the FNO makes the difference: rules, learned and spectral norms, kernels, no norm at all."""

from quadnorm.lab.studies.catalog.parts import (
    BLEND,
    LAYER,
    MODE,
    QUAD,
    SEVEN,
    SYNTHETIC,
    THREE,
    desk,
    seeds,
    variant,
)
from quadnorm.lab.studies.study import Method, Study

_FINE = (64, 128, 256)

STUDIES = (
    Study(
        name="error-decomp",
        title="Degradation relative to an FNO without norms, Darcy, 64² to 256²",
        theme="mechanism",
        variants=(
            variant(
                "darcy",
                "fno",
                (Method("None", "none", printed="No Norm"), LAYER, QUAD, BLEND),
                64,
                _FINE,
                desk("fno", 64),
                table="error-decomp",
            ),
        ),
        seeds=seeds(5),
        tables=("tab:error-decomp",),
        notes=(
            SYNTHETIC,
            MODE,
            "A network without norms degrades as much as one with LayerNorm: the norm is not the only sum that "
            "moves with the grid.",
        ),
    ),
    Study(
        name="quadrature-ablation",
        title="Trapezoid, Simpson and Boole weights in QuadNorm, Darcy, 64² to 256²",
        theme="ablation",
        variants=(
            variant(
                "darcy",
                "fno",
                (
                    QUAD,
                    Method("QuadNorm, Simpson", "quad:instance:simpson"),
                    Method("QuadNorm, Boole", "quad:instance:boole"),
                    BLEND,
                ),
                64,
                _FINE,
                desk("fno", 64),
                table="quadrature-ablation",
            ),
        ),
        seeds=seeds(5),
        tables=("tab:quadrature-ablation",),
        notes=(
            SYNTHETIC,
            "The printed Simpson and Boole rows are identical; these grids meet neither rule's composite "
            "condition. Our rules hold for "
            "every number of points, so the rows may differ here.",
        ),
    ),
    Study(
        name="learnable-baselines",
        title="Learned blends and learned weights, FNO on Darcy, 64² to 256²",
        theme="ablation",
        variants=(
            variant(
                "darcy",
                "fno",
                (
                    LAYER,
                    Method("BlendQuadNorm", "blend:0.3", printed="BlendQuadNorm, fixed α = 0.3"),
                    Method("BlendQuadNorm, learned α", "blend:learned"),
                    Method("ResConditioned", "resconditioned"),
                    Method("LearnableQuad", "learnablequad"),
                ),
                64,
                _FINE,
                desk("fno", 64),
                table="learnable-baselines",
            ),
        ),
        seeds=seeds(10),
        tables=("tab:learnable-baselines",),
        notes=(
            SYNTHETIC,
            "ResConditioned and LearnableQuad are named but not defined in the paper; their docstrings say what "
            "was built.",
            "The paper used 5 seeds for some rows and 10 for others; here every row has the same.",
        ),
    ),
    Study(
        name="extended-baselines",
        title="Spectral and band norms beside the usual ones, FNO on Darcy, 64² to 256²",
        theme="ablation",
        variants=(
            variant(
                "darcy",
                "fno",
                (
                    *SEVEN,
                    Method("SpectralNorm", "spectral", seeds=5),
                    Method("RI-BandNorm", "riband", seeds=5),
                    Method("QuadBandNorm", "quadband", seeds=5),
                ),
                64,
                _FINE,
                desk("fno", 64),
                table="extended-baselines",
            ),
        ),
        seeds=seeds(10),
        tables=("tab:extended-baselines",),
        notes=(
            SYNTHETIC,
            MODE,
            "SpectralNorm, RI-BandNorm and QuadBandNorm are named but not defined in the paper; their docstrings "
            "say what was built. They have five seeds, as in the paper, the other rows ten.",
        ),
    ),
    Study(
        name="consistent-combo",
        title="Norms with the usual and a consistent spectral kernel, FNO on Darcy, 64² to 256²",
        theme="mechanism",
        variants=(
            variant(
                "darcy",
                "fno",
                tuple(
                    Method(f"{mark} + {m.label}", m.norm, {"kernel": kernel})
                    for mark, kernel in (("FNO", "fft"), ("cFNO", "hermitian"))
                    for m in THREE
                ),
                64,
                _FINE,
                desk("fno", 64),
                table="consistent-combo",
            ),
        ),
        seeds=seeds(5),
        tables=("tab:consistent-combo",),
        notes=(
            SYNTHETIC,
            MODE,
            "The work cited for the consistent kernel defines none under this name; a symmetric, Hermitian-tied "
            "set of modes is the "
            "likeliest meaning. For a kernel that is consistent in h see quadrature-everywhere and anchored-crossres.",
        ),
    ),
)
