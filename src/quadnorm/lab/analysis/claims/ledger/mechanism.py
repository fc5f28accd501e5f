"""Why it works: degradation without norms, rules, kernels, learned blends, weights on meshes."""

from __future__ import annotations

from quadnorm.lab.analysis.claims import cases
from quadnorm.lab.analysis.claims.verdicts import Claim

_BLEND = "BlendQuadNorm"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "LayerNorm degrades like no norm",
        "LayerNorm's degradation is about that of a network without norms.",
        ("tab:error-decomp",),
        (cases.ratio_to_none("error-decomp", "main", 64, 256, "LayerNorm", 0.8, 1.25, 0.96),),
        ("not the norm alone",),
    ),
    Claim(
        "overcompensation",
        "QuadNorm's degradation is less than a quarter of that of a network without norms: 0.22 times at 128², 0.23 "
        "times at 256².",
        ("tab:error-decomp", "fig:error-decomposition"),
        (
            cases.ratio_to_none("error-decomp", "main", 64, 128, "QuadNorm", 0.0, 0.44, 0.22),
            cases.ratio_to_none("error-decomp", "main", 64, 256, "QuadNorm", 0.0, 0.46, 0.23),
        ),
        ("not the norm alone",),
    ),
    Claim(
        "fixed beats learned",
        "A fixed blend of 0.3 transfers better than a learned one.",
        ("tab:learnable-baselines",),
        (cases.better("learnable-baselines", "main", 256, 3.7, _BLEND, "BlendQuadNorm, learned α"),),
        ("undefined",),
    ),
    Claim(
        "rule does not matter",
        "Simpson's and Boole's weights do as well as the trapezoid's.",
        ("tab:quadrature-ablation",),
        tuple(
            cases.equivalent("quadrature-ablation", "main", 256, f"QuadNorm, {rule}", "QuadNorm")
            for rule in ("Simpson", "Boole")
        ),
        ("rules identical",),
    ),
    Claim(
        "spectral norms fail",
        "Norms in the spectral domain fail in transfer: above 97 % error at 256².",
        ("tab:extended-baselines",),
        tuple(
            cases.fails("extended-baselines", "main", 256, m, e)
            for m, e in (("SpectralNorm", 98.2), ("RI-BandNorm", 97.4), ("QuadBandNorm", 98.5))
        ),
        ("undefined",),
    ),
    Claim(
        "consistent kernel adds to it",
        "A discretization-consistent spectral kernel improves QuadNorm further, by 7 % at 256².",
        ("tab:consistent-combo",),
        (cases.better("consistent-combo", "main", 256, 6.6, "cFNO + QuadNorm", "FNO + QuadNorm"),),
        ("undefined",),
    ),
    Claim(
        "blend degrades almost like no norm",
        "BlendQuadNorm's degradation is 0.91 to 0.93 times that of a network without norms.",
        ("tab:error-decomp", "fig:error-decomposition"),
        (
            cases.ratio_to_none("error-decomp", "main", 64, 128, _BLEND, 0.75, 1.0, 0.93),
            cases.ratio_to_none("error-decomp", "main", 64, 256, _BLEND, 0.75, 1.0, 0.91),
        ),
        ("not the norm alone",),
    ),
    Claim(
        "learned blend",
        "A learned blend weight arrives at 0.3 to 0.4.",
        ("tab:learnable-baselines",),
        (cases.learned_alpha("learnable-baselines", "main", "BlendQuadNorm, learned α", 0.3, 0.4),),
    ),
    Claim(
        "consistent kernel adds to every norm",
        "The consistent kernel also helps with LayerNorm (1.4 %) and BlendQuadNorm (4.4 %) at 256².",
        ("tab:consistent-combo",),
        (
            cases.better("consistent-combo", "main", 256, 1.4, "cFNO + LayerNorm", "FNO + LayerNorm"),
            cases.better("consistent-combo", "main", 256, 4.4, "cFNO + BlendQuadNorm", "FNO + BlendQuadNorm"),
        ),
        ("undefined",),
    ),
    Claim(
        "bias on uneven meshes",
        "Control volumes divide the bias of a mean by more than 1500 on boundary-refined meshes, and by more than 200 "
        "on Chebyshev meshes.",
        ("fig:nonuniform-bias", "fig:bias-convergence"),
        (cases.bias_factor("boundary-refined", 1500), cases.bias_factor("chebyshev", 200)),
        ("factors belong to a size",),
    ),
)
