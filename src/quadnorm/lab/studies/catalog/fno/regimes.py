"""The FNO under other conditions: coarser grids, several grids, more samples, periodic data, other depths."""

from quadnorm.lab.studies.catalog.parts import (
    BLEND,
    FINE,
    FOUR,
    GELU,
    INSTANCE,
    LAYER,
    MODE,
    NONE,
    QUAD,
    SEVEN,
    SYNTHETIC,
    TRAPEZOID_BLEND,
    TRAPEZOID_QUAD,
    desk,
    seeds,
    variant,
)
from quadnorm.lab.studies.study import Study, Variant


def _down(grid: int, **changes: int) -> Variant:
    """From ``grid``² to half and a quarter of it; ``changes`` of the desk budget, which divides every grid by 4."""
    rows = ("LayerNorm", "InstanceNorm", "QuadNorm", "BlendQuadNorm")
    return variant(
        "darcy",
        "fno",
        SEVEN,
        grid,
        (grid, grid // 2, grid // 4),
        desk("fno", 128, rows, **changes),
        name=f"{grid}",
        table="high-to-low",
        panel=f"Train {grid}²",
    )


def _deep(layers: int) -> Variant:
    """The models of extreme-crossres with another number of layers; with 4 its runs are shared."""
    budget = desk("fno", 32, ("None", "LayerNorm", "QuadNorm"))
    grids = (32, 64, 128, 256)
    return variant("darcy", "fno", FOUR, 32, grids, budget, name=f"{layers} layers", readings=False, layers=layers)


STUDIES = (
    Study(
        name="high-to-low",
        title="FNO on Darcy from fine to coarse, 128² to 32² and 256² to 64²",
        theme="gap and depth",
        variants=(_down(128), _down(256, epochs=20, train=240)),
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
                FOUR,
                64,
                FINE,
                desk("fno", 64, epochs=12, train=1200),
                samples=(5000, 500, 500),
                readings=False,
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
