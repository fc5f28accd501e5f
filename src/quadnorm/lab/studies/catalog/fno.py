"""Studies of the FNO: gap, depth, direction, quadrature rules, learned and spectral norms, kernels."""

from dataclasses import replace

from quadnorm.lab.studies.catalog.parts import (
    BICUBIC,
    BICUBIC_NOTE,
    BLEND,
    GELU,
    INSTANCE,
    LAYER,
    MODE,
    NONE,
    PICTURED,
    QUAD,
    QUAD_LAYER,
    SEVEN,
    SYNTHETIC,
    THREE,
    TRAPEZOID_BLEND,
    TRAPEZOID_QUAD,
    desk,
    seeds,
    variant,
)
from quadnorm.lab.studies.study import TRANSFER, Method, Study, Variant

_FINE = (64, 128, 256)

# The trained models of this one serve several studies of ours.
EXTREME = variant(
    "darcy",
    "fno",
    (*SEVEN, QUAD_LAYER),
    32,
    (32, 64, 128, 256),
    desk("fno", 32),
    name="fno",
    table="extreme-crossres",
)

_FOUR = (NONE, LAYER, QUAD, BLEND)


def _deep(layers: int) -> Variant:
    """EXTREME with another number of layers; with 4 its runs are shared."""
    budget = desk("fno", 32, ("None", "LayerNorm", "QuadNorm"))
    return variant("darcy", "fno", _FOUR, 32, (32, 64, 128, 256), budget, name=f"{layers} layers", layers=layers)


_QUAD_ROWS = ("LayerNorm", "InstanceNorm", "QuadNorm", "BlendQuadNorm")
_DEEP_ROWS = ("None", *_QUAD_ROWS)

STUDIES = (
    Study(
        name="extreme-crossres",
        title="FNO on Darcy, 32² to 256²",
        theme="gap and depth",
        variants=(EXTREME,),
        seeds=seeds(10),
        tables=("tab:extreme-crossres",),
        evaluations=(*TRANSFER, BICUBIC),
        pictured=PICTURED,
        notes=(SYNTHETIC, MODE, GELU, BICUBIC_NOTE, "Layer-mode QuadNorm is run as a row of ours."),
    ),
    Study(
        name="deep-crossres",
        title="FNO with 8 layers on Darcy, 64² to 256²",
        theme="gap and depth",
        variants=(
            variant(
                "darcy",
                "fno",
                SEVEN,
                64,
                _FINE,
                desk("fno", 64, _DEEP_ROWS, epochs=20),
                table="deep-crossres",
                width=48,
                layers=8,
            ),
        ),
        seeds=seeds(10),
        tables=("tab:deep-crossres",),
        evaluations=(*TRANSFER, BICUBIC),
        notes=(
            SYNTHETIC,
            MODE,
            GELU,
            BICUBIC_NOTE,
            "The paper reads a depth effect from this table and tab:extreme-crossres, but training grid (64² against "
            "32²) and width (48 against 32) change with the depth. The study depth changes nothing else.",
        ),
    ),
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
    Study(
        name="high-to-low",
        title="FNO on Darcy from fine to coarse, 128² to 32² and 256² to 64²",
        theme="gap and depth",
        variants=(
            variant(
                "darcy",
                "fno",
                SEVEN,
                128,
                (128, 64, 32),
                desk("fno", 128, _QUAD_ROWS),
                name="128",
                table="high-to-low",
                panel="Train 128²",
            ),
            variant(
                "darcy",
                "fno",
                SEVEN,
                256,
                (256, 128, 64),
                replace(desk("fno", 128, _QUAD_ROWS), epochs=20, train=240),
                name="256",
                table="high-to-low",
                panel="Train 256²",
            ),
        ),
        seeds=seeds(5),
        tables=("tab:high-to-low",),
        notes=(SYNTHETIC, MODE),
    ),
    Study(
        name="multires-fno",
        title="FNO on Darcy trained on several grids, tested at 256²",
        theme="training regime",
        variants=(
            variant(
                "darcy",
                "fno",
                (NONE, LAYER, INSTANCE, QUAD, BLEND),
                (32, 64),
                (32, 64, 128, 256),
                desk("fno", 64),
            ),
        ),
        seeds=seeds(10),
        notes=(
            SYNTHETIC,
            MODE,
            "The paper prints only two effect sizes at 256² and no table; the training grids are those of "
            "tab:transolver-multires, "
            "although the row reads 64² → 256². The number of seeds is a choice.",
        ),
    ),
    Study(
        name="tost",
        title="Equivalence of BlendQuadNorm and LayerNorm at the training grid, FNO on Darcy, 64²",
        theme="statistics",
        variants=(variant("darcy", "fno", (LAYER, BLEND), 64, (64,), desk("fno", 64)),),
        seeds=seeds(10),
        tables=("tab:tost",),
        notes=(
            SYNTHETIC,
            "Paired two one-sided tests, margin ±0.5 points, 90 % interval of the difference. Five seeds in the "
            "desk preset: an "
            "equivalence test on three says little.",
        ),
        desk_seeds=5,
    ),
    Study(
        name="fno-periodic-ns",
        title="FNO on periodic Navier–Stokes, 64² to 128²",
        theme="breadth",
        variants=(
            variant(
                "navier-stokes",
                "fno",
                (NONE, LAYER, INSTANCE, TRAPEZOID_QUAD, TRAPEZOID_BLEND),
                64,
                (64, 128),
                desk("fno", 64),
                samples=(8000, 500, 2000),
            ),
        ),
        seeds=seeds(5),
        notes=(
            "Cited as a catastrophic failure of QuadNorm, and not tabulated: grids, samples and norms follow "
            "real-ns-galerkin.",
            "QuadNorm and BlendQuadNorm keep the trapezoid weights of the paper's listing, which count the two ends "
            "half for no reason. With the right weights, equal ones, QuadNorm is InstanceNorm and BlendQuadNorm is "
            "LayerNorm, network for network: these rows are the comparison.",
        ),
    ),
    Study(
        name="darcy-large",
        title="FNO on Darcy with 5000 training samples, 64² to 256²",
        theme="training regime",
        variants=(
            variant(
                "darcy",
                "fno",
                _FOUR,
                64,
                _FINE,
                desk("fno", 64, epochs=12, train=1200),
                samples=(5000, 500, 500),
            ),
        ),
        seeds=seeds(5),
        notes=(
            SYNTHETIC.partition(" The numbers of samples")[0],
            GELU,
            "The paper states the sizes of this setting (5000 training and 500 test samples at 64²) and prints no "
            "table of it: operator, methods, test grids and seeds are those of its other FNO studies. 500 validation "
            "samples are a choice.",
        ),
    ),
    Study(
        name="depth",
        title="FNO of 2, 4 and 8 layers on Darcy, width and grids fixed, 32² to 256²",
        theme="gap and depth",
        variants=tuple(map(_deep, (2, 4, 8))),
        seeds=seeds(5),
        notes=(
            SYNTHETIC,
            GELU,
            "Nothing but the number of layers changes, unlike between the paper's two tables, from which it reads "
            "that the gain of QuadNorm grows with depth.",
        ),
    ),
)
