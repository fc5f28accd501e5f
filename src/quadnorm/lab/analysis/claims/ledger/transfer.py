"""An FNO on Darcy taken to other grids: gap, depth, and the price at the training grid."""

from __future__ import annotations

from quadnorm.lab.analysis.claims import cases
from quadnorm.lab.analysis.claims.verdicts import Claim
from quadnorm.lab.analysis.comparisons import Contrast

_BLEND = "BlendQuadNorm"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "extreme gap",
        "From 32² to 256² on Darcy, an FNO with QuadNorm has about a third less error than with LayerNorm.",
        ("tab:extreme-crossres", "tab:bootstrap-cis"),
        (cases.better("extreme-crossres", "fno", 256, 35.4),),
        ("not the norm alone",),
    ),
    Claim(
        "thirteen-fold gap",
        "On the released Darcy files, from 32² to 421², the gain reaches 42 %.",
        ("tab:real-darcy-extreme", "tab:bootstrap-cis"),
        (cases.better("real-darcy-extreme", "fno", 421, 42.4),),
        ("not the norm alone",),
    ),
    Claim(
        "best at every target",
        "QuadNorm is the best of all norms at every grid finer than the training grid.",
        ("tab:extreme-crossres",),
        (cases.best("extreme-crossres", "fno", (64, 128, 256)),),
    ),
    Claim(
        "gain grows with the gap",
        "The further the test grid from the training grid, the larger QuadNorm's gain.",
        ("tab:extreme-crossres", "fig:scaling"),
        (cases.grows([Contrast("extreme-crossres", "fno", n) for n in (64, 128, 256)], "18 → 31 → 35 %"),),
    ),
    Claim(
        "constant ratio",
        "LayerNorm degrades about 2.8 times as much as QuadNorm at every gap.",
        ("tab:extreme-crossres", "fig:scaling"),
        tuple(cases.degrades_less("extreme-crossres", "fno", 32, n, 2.8) for n in (64, 128, 256)),
    ),
    Claim(
        "power of the ratio",
        "Degradation grows as about the 0.6th power of the resolution ratio, for all methods.",
        ("fig:scaling",),
        tuple(
            cases.power_law("extreme-crossres", "fno", 32, (64, 128, 256), m, 0.45, 0.75)
            for m in ("LayerNorm", "QuadNorm")
        ),
        ("one law",),
    ),
    Claim(
        "depth",
        "With 8 layers LayerNorm degrades 4.7 times as much as QuadNorm; with 4 layers 2.9 times.",
        ("tab:deep-crossres", "fig:scaling"),
        (
            cases.degrades_less("deep-crossres", "main", 64, 256, 4.7),
            cases.ratio_larger(
                ("deep-crossres", "main", 64, 256), ("extreme-crossres", "fno", 32, 256), "4.7 times against 2.9"
            ),
        ),
        ("depth confounded",),
    ),
    Claim(
        "native price",
        "In an FNO QuadNorm costs accuracy at the training grid (4.35 against 3.26 %).",
        ("tab:extreme-crossres",),
        (cases.better("extreme-crossres", "fno", 32, 25.1, "LayerNorm", "QuadNorm"),),
    ),
    Claim(
        "blend keeps native accuracy",
        "BlendQuadNorm equals LayerNorm at the training grid, within half a point.",
        ("tab:tost",),
        (cases.equivalent("tost", "main", 64, _BLEND, "LayerNorm"),),
    ),
    Claim(
        "blend transfers a little better",
        "BlendQuadNorm is a few per cent better than LayerNorm at 256².",
        ("tab:extreme-crossres", "tab:effect-sizes"),
        (
            cases.better("extreme-crossres", "fno", 256, 4.1, _BLEND),
            cases.better("extended-baselines", "main", 256, 3.7, _BLEND),
        ),
    ),
    Claim(
        "fine to coarse",
        "QuadNorm also helps from fine to coarse: 42 % at 128² → 32², 16 % at 256² → 64².",
        ("tab:high-to-low",),
        (cases.better("high-to-low", "128", 32, 41.8), cases.better("high-to-low", "256", 64, 16.2)),
    ),
    Claim(
        "extreme gap, attention",
        "From 32² to 256² on the released Darcy files, a Galerkin Transformer gains 30 % from QuadNorm.",
        ("tab:real-darcy-extreme", "tab:bootstrap-cis"),
        (cases.better("real-darcy-extreme", "galerkin", 256, 29.6),),
    ),
    Claim(
        "released files, moderate gap",
        "On the released Darcy files, from 64², QuadNorm gains 28 % at 421² in an FNO and 15 % at 256² in a Galerkin "
        "Transformer.",
        ("tab:real-darcy-crossres", "tab:real-benchmark-summary"),
        (
            cases.better("real-darcy-crossres", "fno", 421, 28.0),
            cases.better("real-darcy-crossres", "galerkin", 256, 15.2),
        ),
    ),
    Claim(
        "released files, gain grows with the gap",
        "On the released Darcy files the gain grows with every step away from the training grid, in both operators.",
        ("tab:real-darcy-crossres",),
        (
            cases.grows(
                [Contrast("real-darcy-crossres", "fno", n) for n in (64, 128, 256, 421)], "−48 → 6 → 23 → 28 % (FNO)"
            ),
            cases.grows(
                [Contrast("real-darcy-crossres", "galerkin", n) for n in (64, 128, 256)], "9 → 12 → 15 % (Galerkin)"
            ),
        ),
    ),
    Claim(
        "blend keeps parity fine to coarse",
        "From fine to coarse grids BlendQuadNorm equals LayerNorm, within half a point.",
        ("tab:high-to-low",),
        (
            cases.equivalent("high-to-low", "128", 32, _BLEND, "LayerNorm"),
            cases.equivalent("high-to-low", "256", 64, _BLEND, "LayerNorm"),
        ),
    ),
    Claim(
        "effect sizes",
        "Against LayerNorm the effect of QuadNorm at far grids is large (Cohen's d of 4.6 to 9.6), that of "
        "BlendQuadNorm large at the 8-fold gap and small with 8 layers.",
        ("tab:effect-sizes",),
        (
            cases.effect_size("extreme-crossres", "fno", 256, 9.62),
            cases.effect_size("deep-crossres", "main", 256, 8.40),
            cases.effect_size("extended-baselines", "main", 256, 4.62),
            cases.effect_size("extreme-crossres", "fno", 256, 1.02, _BLEND),
            cases.effect_size("deep-crossres", "main", 256, 0.30, _BLEND),
        ),
        ("effects without a table",),
    ),
    Claim(
        "blend is the safer choice in an FNO",
        "In an FNO BlendQuadNorm is better than QuadNorm: the reverse of what attention operators show.",
        ("tab:extended-baselines", "tab:alpha-matrix"),
        (
            cases.better("extended-baselines", "main", 64, 31.3, _BLEND, "QuadNorm"),
            cases.better("extended-baselines", "main", 128, 5.2, _BLEND, "QuadNorm"),
        ),
        ("reversal ends with the gap",),
    ),
)
