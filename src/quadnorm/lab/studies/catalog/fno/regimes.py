"""The FNO under other conditions: several grids, more samples, periodic data, equivalence at the training grid."""

from quadnorm.lab.studies.catalog.parts import (
    BLEND,
    GELU,
    INSTANCE,
    LAYER,
    MODE,
    NONE,
    QUAD,
    SYNTHETIC,
    TRAPEZOID_BLEND,
    TRAPEZOID_QUAD,
    desk,
    seeds,
    variant,
)
from quadnorm.lab.studies.study import Study

_FINE = (64, 128, 256)
_FOUR = (NONE, LAYER, QUAD, BLEND)

STUDIES = (
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
)
