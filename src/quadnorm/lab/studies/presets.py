"""The small presets ``desk`` and ``smoke``: what they shrink compared with the paper."""

from dataclasses import replace
from typing import Any

from quadnorm.lab.studies.study import STAND_INS, Budget, Study, Variant

SMOKE_COARSEN = 4
SMOKE_WIDTH = 16  # with 8 channels GroupNorm would be InstanceNorm
SMOKE_LAYERS = 2
SMOKE_STAND_INS = {"darcy-neuralop": "darcy"}  # replaces data that would have to be downloaded first


def grids(sizes: tuple[int, ...], coarsen: int) -> tuple[int, ...]:
    """Every grid divided by ``coarsen``.

    >>> grids((64, 96, 421), 4)
    (16, 24, 105)
    """
    return tuple(max(8, round(n / coarsen)) for n in sizes)


def desk(variant: Variant) -> Variant:
    """The desk preset: fewer samples, epochs and channels, coarser grids at the same ratio, the main rows only."""
    d = variant.desk
    params = dict(variant.operator_params)
    params["width"] = max(8, 8 * round(params["width"] * d.width / 8))
    budget = replace(
        variant.budget,
        train=min(d.train, variant.budget.train),
        val=min(d.val, variant.budget.val),
        test=min(d.test, variant.budget.test),
        epochs=min(d.epochs, variant.budget.epochs),
        lr=d.lr or variant.budget.lr,
        batch=d.batch or variant.budget.batch,
        patience=None,  # every run gets the same number of steps
        warmup=None,
    )
    kept = {variant.method(label).label for label in d.methods or [m.label for m in variant.methods]}
    methods = (m for m in variant.methods if m.label in kept or m.reads in kept)
    variant = replace(variant, methods=tuple(m for m in methods if m.label not in d.left_out))
    return _shrunk(variant, d.coarsen, params, budget)


def smoke(variant: Variant) -> Variant:
    """The smoke preset: every method in seconds, to see that it runs; nothing is learned."""
    params = dict(variant.operator_params)
    params["width"] = SMOKE_WIDTH
    params["layers"] = min(SMOKE_LAYERS, params["layers"])
    budget = Budget(train=16, val=4, test=4, epochs=2, lr=variant.budget.lr, patience=None, batch=8)
    coarsen = min(SMOKE_COARSEN, max(1, min(variant.train + variant.test) // 8))
    problem = SMOKE_STAND_INS.get(variant.problem, variant.problem)
    return _shrunk(replace(variant, problem=problem), coarsen, params, budget)


def _shrunk(variant: Variant, coarsen: int, params: dict[str, Any], budget: Budget) -> Variant:
    train, test = grids(variant.train, coarsen), grids(variant.test, coarsen)
    if "modes" in params:  # a grid of n samples has n // 2 modes
        params["modes"] = min(params["modes"], min(train + test) // 2)
    return replace(
        variant,
        problem=STAND_INS.get(variant.problem, variant.problem),
        train=train,
        test=test,
        operator_params=params,
        budget=budget,
    )


def difference(paper: Study, small: Study) -> tuple[str, ...]:
    """What a preset changes compared with the paper, one line per kind of variant."""
    lines: dict[str, list[str]] = {}
    for there, here in zip(paper.variants, small.variants, strict=True):
        pairs = {
            "trained at": (_squares(here.train), _squares(there.train)),
            "tested up to": (f"{max(here.test)}²", f"{max(there.test)}²"),
            "samples": (here.budget.train, there.budget.train),
            "epochs": (here.budget.epochs, there.budget.epochs),
            "width": (here.operator_params["width"], there.operator_params["width"]),
            "layers": (here.operator_params["layers"], there.operator_params["layers"]),
            "batches of": (here.budget.batch, there.budget.batch),
            "learning rate": (f"{here.budget.lr:g}", f"{there.budget.lr:g}"),
            "by default, seeds": (len(small.seeds), len(paper.seeds)),
        }
        changes = [f"{what} {new} (paper: {old})" for what, (new, old) in pairs.items() if new != old]
        left_out = [m.label for m in there.methods if m not in here.methods]
        if left_out:
            changes.append(f"without {', '.join(left_out)}")
        lines.setdefault("; ".join(changes), []).append(here.name)
    alone = len(lines) == 1
    return tuple(
        f"The {small.preset} preset{'' if alone else ' for ' + ', '.join(names)}: {text}."
        for text, names in lines.items()
        if text
    )


def _squares(grids: tuple[int, ...]) -> str:
    return " and ".join(f"{n}²" for n in grids)
