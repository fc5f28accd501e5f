"""Attention operators, the released Darcy files, model size and training on several grids."""

from __future__ import annotations

from quadnorm.lab.analysis.claims import cases
from quadnorm.lab.analysis.claims.verdicts import Claim
from quadnorm.lab.analysis.comparisons import Contrast

_BLEND = "BlendQuadNorm"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "long training",
        "With long training on the released Darcy files QuadNorm still gains at 256²: FNO 32 %, Galerkin 14 %, "
        "Transolver 30 %.",
        ("tab:real-darcy", "tab:real-benchmark-best-summary"),
        (
            cases.better("real-darcy", "fno", 256, 31.7),
            cases.better("real-darcy", "galerkin", 256, 13.9),
            cases.better("real-darcy", "transolver", 256, 30.1),
        ),
    ),
    Claim(
        "nearly invariant Transolver",
        "Transolver with QuadNorm is nearly as good at 256² as at 64² (5 % worse); with LayerNorm it is 38 % worse.",
        ("tab:real-darcy",),
        (
            cases.factor_below("real-darcy", "transolver", 64, 256, "QuadNorm", 1.1, 1.05),
            cases.rises_by("real-darcy", "transolver", 64, 256, "LayerNorm", 38),
        ),
    ),
    Claim(
        "gain grows with model size",
        "QuadNorm's gain in Transolver at 256² grows with the model: 18, 27 and 38 % from 0.3 to 9.6 million "
        "parameters.",
        ("tab:model-scaling",),
        (
            cases.grows(
                [Contrast("model-scaling", f"darcy-{s}", 256) for s in ("standard", "large", "xl")], "18 → 27 → 38 %"
            ),
        ),
    ),
    Claim(
        "multi-resolution training",
        "Transolver trained on two grids still gains 24 to 28 % from QuadNorm at every grid.",
        ("tab:transolver-multires",),
        tuple(
            cases.better("transolver-multires", "main", n, g)
            for n, g in ((32, 27.1), (64, 28.3), (128, 26.8), (256, 24.5))
        ),
    ),
    Claim(
        "pure quadrature in attention",
        "In Galerkin and Transolver, pure quadrature beats the blend at twice the grid; in an FNO the blend is the "
        "safer choice.",
        ("tab:alpha-matrix",),
        (
            cases.better("alpha-matrix", "galerkin-poisson", 128, 12.4, "α = 0", "α = 0.3"),
            cases.better("alpha-matrix", "transolver-helmholtz", 128, 15.9, "α = 0", "α = 0.3"),
        ),
        ("alpha zero", "numbers differ"),
    ),
    Claim(
        "periodic problems",
        "On periodic Navier–Stokes QuadNorm fails in an FNO, while in a Galerkin Transformer the blend gains 8 %.",
        ("tab:real-ns-galerkin",),
        (
            cases.better("fno-periodic-ns", "main", 128, 50, "LayerNorm", "QuadNorm"),
            cases.better("real-ns-galerkin", "main", 128, 8.5, _BLEND),
        ),
        ("periodic",),
    ),
    Claim(
        "native parity on the released files",
        "At the training grid BlendQuadNorm stays within half a point of LayerNorm in FNO and Galerkin, and in "
        "Transolver QuadNorm gains 8 %.",
        ("tab:real-darcy", "tab:real-benchmark-best-summary"),
        (
            cases.equivalent("real-darcy", "fno", 64, _BLEND, "LayerNorm"),
            cases.equivalent("real-darcy", "galerkin", 64, _BLEND, "LayerNorm"),
            cases.better("real-darcy", "transolver", 64, 8.2),
        ),
    ),
    Claim(
        "Transolver on the released files",
        "Transolver gains 18 % [17, 19] from QuadNorm at four times the training grid.",
        ("tab:transolver-darcy", "tab:bootstrap-cis"),
        (cases.better("transolver-darcy", "main", 256, 18.0),),
    ),
    Claim(
        "largest model on Helmholtz",
        "In a Transolver of 9.6 million parameters QuadNorm halves the error on Helmholtz at the training grid.",
        ("tab:transolver-helmholtz-xl",),
        (cases.better("model-scaling", "helmholtz-xl", 64, 51.2),),
        ("numbers differ",),
    ),
    Claim(
        "training across fidelities",
        "Transolver trained on three grids gains 13 % from QuadNorm at 256².",
        ("tab:bootstrap-cis",),
        (cases.better("cross-fidelity", "main", 256, 13.3),),
    ),
    Claim(
        "seed variance",
        "On Helmholtz QuadNorm halves Transolver's spread over seeds at the training grid (σ 0.60 against 1.21), and 7 "
        "of 10 seeds favour it at 128².",
        ("tab:transolver-helmholtz",),
        (
            cases.steadier("transolver-helmholtz", "main", 64, (0.60, 1.21)),
            cases.wins_most_seeds("transolver-helmholtz", "main", 128, (7, 10)),
        ),
    ),
    Claim(
        "architecture transfer",
        "A Galerkin Transformer on Darcy gains 5 % from BlendQuadNorm at twice the training grid.",
        ("tab:arch-transfer",),
        (cases.better("arch-transfer", "main", 128, 5.1, _BLEND),),
    ),
)
