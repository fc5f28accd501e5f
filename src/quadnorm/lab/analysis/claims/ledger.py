"""The paper's claims in our words, and what would support each. ``remarks`` are keys of ``CONTRADICTIONS``."""

from __future__ import annotations

from quadnorm.lab.analysis.claims.cases import (
    best,
    better,
    degrades_less,
    equivalent,
    factor_below,
    fails,
    grows,
    power_law,
    ratio_larger,
    ratio_to_none,
    used,
    used_alike,
)
from quadnorm.lab.analysis.claims.verdicts import Claim
from quadnorm.lab.analysis.comparisons import Place

_B = "BlendQuadNorm"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "extreme gap",
        "From 32² to 256² on Darcy, an FNO with QuadNorm has about a third less error than with LayerNorm.",
        ("tab:extreme-crossres", "tab:bootstrap-cis"),
        (better("extreme-crossres", "fno", 256, 35.4),),
        ("not the norm alone",),
    ),
    Claim(
        "thirteen-fold gap",
        "On the released Darcy files, from 32² to 421², the gain reaches 42 %.",
        ("tab:real-darcy-extreme", "tab:bootstrap-cis"),
        (better("real-darcy-extreme", "fno", 421, 42.4),),
        ("not the norm alone",),
    ),
    Claim(
        "best at every target",
        "QuadNorm is the best of all norms at every grid finer than the training grid.",
        ("tab:extreme-crossres",),
        (best("extreme-crossres", "fno", (64, 128, 256)),),
    ),
    Claim(
        "gain grows with the gap",
        "The further the test grid from the training grid, the larger QuadNorm's gain.",
        ("tab:extreme-crossres", "fig:scaling"),
        (grows([Place("extreme-crossres", "fno", n) for n in (64, 128, 256)], "18 → 31 → 35 %"),),
    ),
    Claim(
        "constant ratio",
        "LayerNorm degrades about 2.8 times as much as QuadNorm at every gap.",
        ("tab:extreme-crossres", "fig:scaling"),
        tuple(degrades_less("extreme-crossres", "fno", 32, n, 2.8) for n in (64, 128, 256)),
    ),
    Claim(
        "power of the ratio",
        "Degradation grows as about the 0.6th power of the resolution ratio, for all methods.",
        ("fig:scaling",),
        tuple(
            power_law("extreme-crossres", "fno", 32, (64, 128, 256), m, 0.45, 0.75) for m in ("LayerNorm", "QuadNorm")
        ),
        ("one law",),
    ),
    Claim(
        "depth",
        "With 8 layers LayerNorm degrades 4.7 times as much as QuadNorm; with 4 layers 2.9 times.",
        ("tab:deep-crossres", "fig:scaling"),
        (
            degrades_less("deep-crossres", "main", 64, 256, 4.7),
            ratio_larger(
                ("deep-crossres", "main", 64, 256), ("extreme-crossres", "fno", 32, 256), "4.7 times against 2.9"
            ),
        ),
        ("depth confounded",),
    ),
    Claim(
        "native price",
        "In an FNO QuadNorm costs accuracy at the training grid (4.35 against 3.26 %).",
        ("tab:extreme-crossres",),
        (better("extreme-crossres", "fno", 32, 25.1, "LayerNorm", "QuadNorm"),),
    ),
    Claim(
        "blend keeps native accuracy",
        "BlendQuadNorm equals LayerNorm at the training grid, within half a point.",
        ("tab:tost",),
        (equivalent("tost", "main", 64, _B, "LayerNorm"),),
    ),
    Claim(
        "blend transfers a little better",
        "BlendQuadNorm is a few per cent better than LayerNorm at 256².",
        ("tab:extreme-crossres", "tab:effect-sizes"),
        (better("extreme-crossres", "fno", 256, 4.1, _B), better("extended-baselines", "main", 256, 3.7, _B)),
    ),
    Claim(
        "LayerNorm degrades like no norm",
        "LayerNorm's degradation is about that of a network without norms.",
        ("tab:error-decomp",),
        (ratio_to_none("error-decomp", "main", 64, 256, "LayerNorm", 0.8, 1.25, 0.96),),
        ("not the norm alone",),
    ),
    Claim(
        "overcompensation",
        "QuadNorm's degradation is less than a quarter of that of a network without norms.",
        ("tab:error-decomp", "fig:error-decomposition"),
        (ratio_to_none("error-decomp", "main", 64, 256, "QuadNorm", 0.0, 0.46, 0.23),),
        ("not the norm alone",),
    ),
    Claim(
        "long training",
        "With long training on the released Darcy files QuadNorm still gains at 256²: FNO 32 %, Galerkin 14 %, "
        "Transolver 30 %.",
        ("tab:real-darcy", "tab:real-benchmark-best-summary"),
        (
            better("real-darcy", "fno", 256, 31.7),
            better("real-darcy", "galerkin", 256, 13.9),
            better("real-darcy", "transolver", 256, 30.1),
        ),
    ),
    Claim(
        "nearly invariant Transolver",
        "Transolver with QuadNorm is nearly as good at 256² as at 64².",
        ("tab:real-darcy",),
        (factor_below("real-darcy", "transolver", 64, 256, "QuadNorm", 1.1, 1.05),),
    ),
    Claim(
        "native gain on Poisson",
        "In a Galerkin Transformer on Poisson QuadNorm has 26 % less error at the training grid.",
        ("tab:galerkin-poisson-10seed",),
        (better("galerkin-poisson-10seed", "main", 64, 26.2),),
        ("gain is native", "numbers differ"),
    ),
    Claim(
        "native gain on diffusion",
        "With a variable coefficient QuadNorm gains at the training grid: 18 % in Galerkin, 21 % in Transolver.",
        ("tab:galerkin-varcoeff", "tab:transolver-varcoeff"),
        (better("galerkin-varcoeff", "main", 64, 17.9), better("transolver-varcoeff", "main", 64, 21.1)),
        ("gain is native",),
    ),
    Claim(
        "cavity flow",
        "On cavity flow from 32² to 128², BlendQuadNorm nearly halves the error of a Galerkin Transformer.",
        ("tab:multiarch-nonperiodic",),
        (better("multiarch-nonperiodic", "cavity", 128, 46.6, _B),),
        ("gain is native",),
    ),
    Claim(
        "Helmholtz",
        "On Helmholtz BlendQuadNorm gains 16 % in a Galerkin Transformer and QuadNorm 5.5 % in Transolver, at 128².",
        ("tab:galerkin-helmholtz-10seed", "tab:transolver-helmholtz"),
        (
            better("galerkin-helmholtz-10seed", "main", 128, 16.0, _B),
            better("transolver-helmholtz", "main", 128, 5.5),
        ),
        ("worse left out", "numbers differ"),
    ),
    Claim(
        "breadth at twice the grid",
        "From 64² to 128² QuadNorm gains 20 % on elasticity, 19 % on reaction–diffusion, 9–10 % on "
        "variable-coefficient diffusion.",
        ("tab:nonperiodic-breadth-summary", "tab:bootstrap-cis-breadth"),
        (
            better("galerkin-elasticity", "main", 128, 19.7),
            better("galerkin-rxndiff", "main", 128, 18.6),
            better("galerkin-varcoeff", "main", 128, 10.4),
            better("transolver-varcoeff", "main", 128, 8.8),
        ),
        ("test sets differ",),
    ),
    Claim(
        "breadth at four times the grid",
        "From 64² to 256² the better of the two gains 9 % (Galerkin, Helmholtz), 20 % (elasticity), 7 % "
        "(Transolver, Helmholtz).",
        ("tab:extreme-gap-summary",),
        (
            better("galerkin-helmholtz-4x", "main", 256, 8.9, _B),
            better("galerkin-elasticity-4x", "main", 256, 19.8),
            better("transolver-helmholtz-4x", "main", 256, 7.3),
        ),
        ("test sets differ",),
    ),
    Claim(
        "gain grows with model size",
        "QuadNorm's gain in Transolver at 256² grows with the model: 18, 27 and 38 % from 0.3 to 9.6 million "
        "parameters.",
        ("tab:model-scaling",),
        (grows([Place("model-scaling", f"darcy-{s}", 256) for s in ("standard", "large", "xl")], "18 → 27 → 38 %"),),
    ),
    Claim(
        "multi-resolution training",
        "Transolver trained on two grids still gains 24 to 28 % from QuadNorm at every grid.",
        ("tab:transolver-multires",),
        tuple(
            better("transolver-multires", "main", n, g) for n, g in ((32, 27.1), (64, 28.3), (128, 26.8), (256, 24.5))
        ),
    ),
    Claim(
        "fine to coarse",
        "QuadNorm also helps from fine to coarse: 42 % at 128² → 32², 16 % at 256² → 64².",
        ("tab:high-to-low",),
        (better("high-to-low", "128", 32, 41.8), better("high-to-low", "256", 64, 16.2)),
    ),
    Claim(
        "pure quadrature in attention",
        "In Galerkin and Transolver, pure quadrature beats the blend at twice the grid; in an FNO the blend is the "
        "safer choice.",
        ("tab:alpha-matrix",),
        (
            better("alpha-matrix", "galerkin-poisson", 128, 12.4, "α = 0", "α = 0.3"),
            better("alpha-matrix", "transolver-helmholtz", 128, 15.9, "α = 0", "α = 0.3"),
        ),
        ("alpha zero", "numbers differ"),
    ),
    Claim(
        "fixed beats learned",
        "A fixed blend of 0.3 transfers better than a learned one.",
        ("tab:learnable-baselines",),
        (better("learnable-baselines", "main", 256, 3.7, _B, "BlendQuadNorm, learned α"),),
        ("undefined",),
    ),
    Claim(
        "rule does not matter",
        "Simpson's and Boole's weights do as well as the trapezoid's.",
        ("tab:quadrature-ablation",),
        tuple(
            equivalent("quadrature-ablation", "main", 256, f"QuadNorm, {rule}", "QuadNorm")
            for rule in ("Simpson", "Boole")
        ),
        ("rules identical",),
    ),
    Claim(
        "spectral norms fail",
        "Norms in the spectral domain fail in transfer: above 97 % error at 256².",
        ("tab:extended-baselines",),
        tuple(
            fails("extended-baselines", "main", 256, m, e)
            for m, e in (("SpectralNorm", 98.2), ("RI-BandNorm", 97.4), ("QuadBandNorm", 98.5))
        ),
        ("undefined",),
    ),
    Claim(
        "consistent kernel adds to it",
        "A discretization-consistent spectral kernel improves QuadNorm further, by 7 % at 256².",
        ("tab:consistent-combo",),
        (better("consistent-combo", "main", 256, 6.6, "cFNO + QuadNorm", "FNO + QuadNorm"),),
        ("undefined",),
    ),
    Claim(
        "periodic problems",
        "On periodic Navier–Stokes QuadNorm fails in an FNO, while in a Galerkin Transformer the blend gains 8 %.",
        ("tab:real-ns-galerkin",),
        (
            better("fno-periodic-ns", "main", 128, 50, "LayerNorm", "QuadNorm"),
            better("real-ns-galerkin", "main", 128, 8.5, _B),
        ),
        ("periodic",),
    ),
    Claim(
        "anchoring cures a trained model",
        "Anchoring every spatial sum of a trained LayerNorm model takes away most of its degradation, without "
        "retraining.",
        (),
        tuple(
            used(
                "anchored-crossres",
                v,
                256,
                "LayerNorm",
                "anchor-all",
                "as-trained",
                c,
                f"{v}: as trained → anchored at 256²",
            )
            for v, c in (("fno", 58), ("galerkin", 16), ("transolver", 21))
        ),
        ours=True,
    ),
    Claim(
        "kernels matter more than norms",
        "In an FNO, anchoring the spectral convolutions alone helps more than anchoring the norms alone.",
        (),
        (
            used(
                "anchored-crossres",
                "fno",
                256,
                "LayerNorm",
                "anchor-kernels",
                "anchor-norms",
                40,
                "norms anchored → other sums anchored at 256²",
            ),
        ),
        ("not the norm alone",),
        ours=True,
    ),
    Claim(
        "the honest rival",
        "Running at the training grid and interpolating the output is as good as anchoring on smooth outputs over "
        "nested grids.",
        (),
        (
            used(
                "transfer-baselines",
                "fno",
                256,
                "LayerNorm",
                "native",
                "as-trained",
                58,
                "as trained → run at 32², spline, at 256²",
            ),
            used_alike(
                "transfer-baselines",
                "fno",
                256,
                "LayerNorm",
                "native",
                "anchor-all",
                "run at 32² and interpolated, anchored: within ±0.5 points at 256²",
            ),
        ),
        ours=True,
    ),
)
