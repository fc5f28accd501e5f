"""The FNO from its training grid to finer ones: the two tables that the paper leads with."""

from quadnorm.lab.studies.catalog.parts import (
    BICUBIC,
    BICUBIC_NOTE,
    FINE,
    GELU,
    MODE,
    PICTURED,
    SEVEN,
    SYNTHETIC,
    desk,
    seeds,
    variant,
)
from quadnorm.lab.studies.study import TRANSFER, Study

# Several studies of ours use the trained models of this one.
EXTREME = variant(
    "darcy",
    "fno",
    SEVEN,
    32,
    (32, 64, 128, 256),
    desk("fno", 32),
    name="fno",
    table="extreme-crossres",
    block=True,
)

_DEEP_ROWS = ("None", "LayerNorm", "InstanceNorm", "QuadNorm", "BlendQuadNorm")

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
        notes=(
            SYNTHETIC,
            MODE,
            GELU,
            BICUBIC_NOTE,
            "Layer-mode QuadNorm, and the block of the paper's transfer theorem, σ(N(v + Kv + Wv)), are rows of ours.",
        ),
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
                FINE,
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
)
