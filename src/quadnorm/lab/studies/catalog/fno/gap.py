"""How far the FNO is from its training grid, and how deep it is."""

from dataclasses import replace

from quadnorm.lab.studies.catalog.parts import (
    BICUBIC,
    BICUBIC_NOTE,
    BLEND,
    GELU,
    LAYER,
    MODE,
    NONE,
    PICTURED,
    QUAD,
    QUAD_LAYER,
    SEVEN,
    SYNTHETIC,
    desk,
    seeds,
    variant,
)
from quadnorm.lab.studies.study import TRANSFER, Study, Variant

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
