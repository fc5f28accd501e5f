"""The FNO under other conditions: coarser grids, several grids, more samples, periodic data, other depths."""

from dataclasses import replace

from quadnorm.lab.studies.catalog.parts import (
    BLEND,
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

_FINE = (64, 128, 256)
_FOUR = (NONE, LAYER, QUAD, BLEND)

_QUAD_ROWS = ("LayerNorm", "InstanceNorm", "QuadNorm", "BlendQuadNorm")


def _deep(layers: int) -> Variant:
    """The models of extreme-crossres with another number of layers; with 4 its runs are shared."""
    budget = desk("fno", 32, ("None", "LayerNorm", "QuadNorm"))
    return variant("darcy", "fno", _FOUR, 32, (32, 64, 128, 256), budget, name=f"{layers} layers", layers=layers)


STUDIES = (
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
