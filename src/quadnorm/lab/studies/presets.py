"""The small presets: what is shrunk, in the open."""

from dataclasses import replace
from typing import Any

from quadnorm.lab.studies.study import STAND_INS, Budget, Variant

SMOKE_COARSEN = 4
SMOKE_WIDTH = 16  # with 8 channels GroupNorm would be InstanceNorm
SMOKE_LAYERS = 2


def grids(sizes: tuple[int, ...], coarsen: int) -> tuple[int, ...]:
    """Every grid divided by ``coarsen``.

    >>> grids((64, 96, 421), 4)
    (16, 24, 105)
    """
    return tuple(max(8, round(n / coarsen)) for n in sizes)


def desk(variant: Variant) -> Variant:
    """Fewer samples, epochs and channels, coarser grids at the same ratio, and the rows that matter."""
    d = variant.desk
    params = dict(variant.operator_params)
    params["width"] = max(8, 8 * round(params["width"] * d.width / 8))
    budget = replace(
        variant.budget,
        train=min(d.train, variant.budget.train),
        val=min(d.val, variant.budget.val),
        test=min(d.test, variant.budget.test),
        epochs=min(d.epochs, variant.budget.epochs),
        patience=None,  # every run gets the same number of steps
        warmup=None,
    )
    methods = tuple(variant.method(label) for label in d.methods) or variant.methods
    return _shrunk(replace(variant, methods=methods), d.coarsen, params, budget)


def smoke(variant: Variant) -> Variant:
    """Every method and every step of the way, with nothing learned: seconds, to see that it runs."""
    params = dict(variant.operator_params)
    params["width"] = SMOKE_WIDTH
    params["layers"] = min(SMOKE_LAYERS, params["layers"])
    budget = Budget(train=16, val=4, test=4, epochs=2, lr=variant.budget.lr, patience=None, batch=8)
    return _shrunk(variant, SMOKE_COARSEN, params, budget)


def _shrunk(variant: Variant, coarsen: int, params: dict[str, Any], budget: Budget) -> Variant:
    train, test = grids(variant.train, coarsen), grids(variant.test, coarsen)
    if "modes" in params:  # a grid of n samples has n // 2 of them
        params["modes"] = min(params["modes"], min(train + test) // 2)
    return replace(
        variant,
        problem=STAND_INS.get(variant.problem, variant.problem),
        train=train,
        test=test,
        operator_params=params,
        budget=budget,
    )
