"""The kinds of evidence for claims. Each function returns a case: a function that turns records into one finding."""

from quadnorm.lab.analysis.claims.cases.degradations import (
    degrades_least,
    degrades_less,
    factor_below,
    power_law,
    ratio_larger,
    ratio_to_none,
    rises_by,
)
from quadnorm.lab.analysis.claims.cases.improvements import best, better, effect_size, fails, grows
from quadnorm.lab.analysis.claims.cases.parity import equivalent, used, used_alike
from quadnorm.lab.analysis.claims.cases.seeds import learned_alpha, steadier, wins_most_seeds
from quadnorm.lab.analysis.claims.cases.weights import bias_factor

__all__ = [
    "best",
    "better",
    "bias_factor",
    "degrades_least",
    "degrades_less",
    "effect_size",
    "equivalent",
    "factor_below",
    "fails",
    "grows",
    "learned_alpha",
    "power_law",
    "ratio_larger",
    "ratio_to_none",
    "rises_by",
    "steadier",
    "used",
    "used_alike",
    "wins_most_seeds",
]
