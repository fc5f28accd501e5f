"""Other equations than Darcy."""

from __future__ import annotations

from quadnorm.lab.analysis.claims import cases
from quadnorm.lab.analysis.claims.verdicts import Claim

_BLEND = "BlendQuadNorm"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "native gain on Poisson",
        "In a Galerkin Transformer on Poisson QuadNorm has 26 % less error at the training grid.",
        ("tab:galerkin-poisson-10seed",),
        (cases.better("galerkin-poisson-10seed", "main", 64, 26.2),),
        ("gain is native", "numbers differ"),
    ),
    Claim(
        "native gain on diffusion",
        "With a variable coefficient QuadNorm gains at the training grid: 18 % in Galerkin, 21 % in Transolver.",
        ("tab:galerkin-varcoeff", "tab:transolver-varcoeff"),
        (cases.better("galerkin-varcoeff", "main", 64, 17.9), cases.better("transolver-varcoeff", "main", 64, 21.1)),
        ("gain is native",),
    ),
    Claim(
        "cavity flow",
        "On cavity flow from 32² to 128², BlendQuadNorm nearly halves the error of a Galerkin Transformer.",
        ("tab:multiarch-nonperiodic",),
        (cases.better("multiarch-nonperiodic", "cavity", 128, 46.6, _BLEND),),
        ("gain is native",),
    ),
    Claim(
        "Helmholtz",
        "On Helmholtz BlendQuadNorm gains 16 % in a Galerkin Transformer and QuadNorm 5.5 % in Transolver, at 128².",
        ("tab:galerkin-helmholtz-10seed", "tab:transolver-helmholtz"),
        (
            cases.better("galerkin-helmholtz-10seed", "main", 128, 16.0, _BLEND),
            cases.better("transolver-helmholtz", "main", 128, 5.5),
        ),
        ("worse left out", "numbers differ"),
    ),
    Claim(
        "breadth at twice the grid",
        "From 64² to 128² QuadNorm gains 20 % on elasticity, 19 % on reaction–diffusion, 9–10 % on "
        "variable-coefficient diffusion.",
        ("tab:nonperiodic-breadth-summary", "tab:bootstrap-cis-breadth"),
        (
            cases.better("galerkin-elasticity", "main", 128, 19.7),
            cases.better("galerkin-rxndiff", "main", 128, 18.6),
            cases.better("galerkin-varcoeff", "main", 128, 10.4),
            cases.better("transolver-varcoeff", "main", 128, 8.8),
        ),
        ("test sets differ",),
    ),
    Claim(
        "breadth at four times the grid",
        "From 64² to 256² the better of the two gains 9 % (Galerkin, Helmholtz), 20 % (elasticity), 7 % "
        "(Transolver, Helmholtz).",
        ("tab:extreme-gap-summary",),
        (
            cases.better("galerkin-helmholtz-4x", "main", 256, 8.9, _BLEND),
            cases.better("galerkin-elasticity-4x", "main", 256, 19.8),
            cases.better("transolver-helmholtz-4x", "main", 256, 7.3),
        ),
        ("test sets differ",),
    ),
    Claim(
        "elasticity and Poisson from a coarse grid",
        "From 32² to 128² BlendQuadNorm is the best of four on elasticity and Poisson, 22 % below LayerNorm on both, "
        "and degrades least.",
        ("tab:multiarch-nonperiodic",),
        (
            cases.better("multiarch-nonperiodic", "elasticity", 128, 22.2, _BLEND),
            cases.better("multiarch-nonperiodic", "poisson", 128, 22.0, _BLEND),
            cases.best("multiarch-nonperiodic", "elasticity", (32, 64, 128), _BLEND),
            cases.best("multiarch-nonperiodic", "poisson", (64, 128), _BLEND),
            cases.degrades_least("multiarch-nonperiodic", "elasticity", 32, 128, _BLEND),
            cases.degrades_least("multiarch-nonperiodic", "poisson", 32, 128, _BLEND),
        ),
        ("gain is native",),
    ),
    Claim(
        "moderate gap in attention",
        "At twice the training grid QuadNorm gains 29 % on Poisson and 12 % on Darcy in a Galerkin Transformer.",
        ("tab:galerkin-2xgap",),
        (
            cases.better("galerkin-2xgap", "poisson", 128, 29.3),
            cases.better("galerkin-2xgap", "darcy", 128, 11.8),
        ),
        ("gain is native", "numbers differ"),
    ),
    Claim(
        "strong recipes",
        "With longer training BlendQuadNorm still gains at 128² in a Galerkin Transformer: 9.7 % on Helmholtz, 7.3 % "
        "on Poisson.",
        ("tab:helmholtz-galerkin-strong", "tab:poisson-dirichlet-galerkin-strong", "tab:bootstrap-cis"),
        (
            cases.better("helmholtz-galerkin-strong", "main", 128, 9.7, _BLEND),
            cases.better("poisson-dirichlet-galerkin-strong", "main", 128, 7.3, _BLEND),
        ),
    ),
)
