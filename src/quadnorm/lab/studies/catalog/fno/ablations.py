"""Ablations of the FNO: quadrature rules, learned and spectral norms, kernels, no norm at all."""

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


def _at_64(name: str, title: str, theme: str, count: int, methods: tuple[Method, ...], notes: tuple[str, ...]) -> Study:
    """An FNO on Darcy from 64² to 256² with these methods and this many seeds."""
    return Study(
        name=name,
        title=title,
        theme=theme,
        variants=(variant("darcy", "fno", methods, 64, (64, 128, 256), desk("fno", 64), table=name),),
        seeds=seeds(count),
        tables=(f"tab:{name}",),
        notes=notes,
    )


STUDIES = (
    _at_64(
        "error-decomp",
        "Degradation relative to an FNO without norms, Darcy, 64² to 256²",
        "mechanism",
        5,
        (Method("None", "none", printed="No Norm"), LAYER, QUAD, BLEND),
        (
            SYNTHETIC,
            MODE,
            "A network without norms degrades as much as one with LayerNorm: the norm is not the only sum that "
            "moves with the grid.",
        ),
    ),
    _at_64(
        "quadrature-ablation",
        "Trapezoid, Simpson and Boole weights in QuadNorm, Darcy, 64² to 256²",
        "ablation",
        5,
        (
            QUAD,
            Method("QuadNorm, Simpson", "quad:instance:simpson"),
            Method("QuadNorm, Boole", "quad:instance:boole"),
            BLEND,
        ),
        (
            SYNTHETIC,
            "The printed Simpson and Boole rows are identical; these grids meet neither rule's composite "
            "condition. Our rules hold for "
            "every number of points, so the rows may differ here.",
        ),
    ),
    _at_64(
        "learnable-baselines",
        "Learned blends and learned weights, FNO on Darcy, 64² to 256²",
        "ablation",
        10,
        (
            LAYER,
            Method("BlendQuadNorm", "blend:0.3", printed="BlendQuadNorm, fixed α = 0.3"),
            # Not from 0.3: the paper finds values between 0.3 and 0.4, and short training moves α little.
            Method("BlendQuadNorm, learned α", "blend:0.5:learned"),
            Method("BlendQuadNorm, learned α, begun at 0.3", "blend:learned", printed=None),
            Method("ResConditioned", "resconditioned"),
            Method("LearnableQuad", "learnablequad"),
        ),
        (
            SYNTHETIC,
            "ResConditioned and LearnableQuad are named but not defined in the paper; their docstrings say what "
            "was built.",
            "The paper used 5 seeds for some rows and 10 for others; here every row has the same.",
        ),
    ),
    _at_64(
        "extended-baselines",
        "Spectral and band norms beside the usual ones, FNO on Darcy, 64² to 256²",
        "ablation",
        10,
        (
            *SEVEN,
            Method("SpectralNorm", "spectral", seeds=5),
            Method("RI-BandNorm", "riband", seeds=5),
            Method("QuadBandNorm", "quadband", seeds=5),
        ),
        (
            SYNTHETIC,
            MODE,
            "SpectralNorm, RI-BandNorm and QuadBandNorm are named but not defined in the paper; their docstrings "
            "say what was built. They have five seeds, as in the paper, the other rows ten.",
        ),
    ),
    _at_64(
        "consistent-combo",
        "Norms with the usual and a consistent spectral kernel, FNO on Darcy, 64² to 256²",
        "mechanism",
        5,
        tuple(
            Method(f"{mark} + {m.label}", m.norm, changed)
            for mark, changed in (("FNO", {}), ("cFNO", {"kernel": "hermitian"}))  # the first three are shared runs
            for m in THREE
        ),
        (
            SYNTHETIC,
            MODE,
            "The work cited for the consistent kernel defines none under this name; a symmetric, Hermitian-tied "
            "set of modes is the "
            "likeliest meaning. For a kernel that is consistent in h see quadrature-everywhere and anchored-crossres.",
        ),
    ),
)
