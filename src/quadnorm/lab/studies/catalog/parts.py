"""What the studies have in common: operators, budgets, and the other readings of the paper's rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from quadnorm.lab import read_table
from quadnorm.lab.studies.study import (
    ANCHORED,
    AS_TRAINED,
    EXTENDED,
    NATIVE,
    TRANSFERRED,
    Budget,
    Desk,
    Method,
    Params,
    Variant,
    Way,
)

SHARED = read_table("studies/catalog/shared.toml")
_CORE = {way.name: way for way in (AS_TRAINED, ANCHORED, EXTENDED, NATIVE, TRANSFERRED)}


def way_of(row: Mapping[str, Any]) -> Way:
    """The way of a row of a file."""
    return Way(**{**row, "view": tuple(row.get("view", {}).items())})


def shared_way(name: str) -> Way:
    """The way of this name in ``study.py`` or ``shared.toml``."""
    return _CORE[name] if name in _CORE else way_of({"name": name, **SHARED["ways"][name]})


def seeds(count: int) -> tuple[int, ...]:
    """0, 1, …: the same seeds for every method, so that runs can be paired."""
    return tuple(range(count))


LR = {"fno": 5e-4, "galerkin": 3e-4, "transolver": 3e-4, "resnet": 1e-3}
OPERATORS: dict[str, dict[str, Any]] = {
    "fno": {"width": 32, "modes": 12, "layers": 4, "last_activation": True},
    "galerkin": {"width": 64, "heads": 4, "layers": 4},
    "transolver": {"width": 64, "heads": 4, "layers": 6, "slices": 8},
}

# The other form of an operator's block: a label for its rows, and the argument that makes it.
BLOCKS: dict[str, tuple[str, Params]] = {
    "fno": (", norm over the sum", {"residual": "inside"}),
    "galerkin": (", one norm per block", {"norms_per_block": 1}),
}

# The grid on which the paper's sine transform solves: it leaves both ends out.
INTERIOR = {"placement": "interior"}

# What the desk preset gives a run. It is the same in every study of an operator, so that studies share their runs: an
# FNO is trained at 32² whatever grid the paper trains it at, the attention models at 16², the test grids in proportion.
_DESK = {
    "fno": (32, Desk(epochs=30, train=400, width=0.5, lr=2e-3)),
    "galerkin": (16, Desk(epochs=50, width=0.5, lr=1e-3, batch=10)),
    # With 200 samples (1,000 steps) some seeds are still on the plateau that every Transolver begins with.
    "transolver": (16, Desk(epochs=50, train=400, width=0.5, lr=1e-3, batch=10)),
}


# A Transolver on Helmholtz has the paper's width and samples, and more steps than elsewhere: every such model begins on
# a plateau of 30 %, where it ignores the wavenumber. With the paper's width and samples it leaves it after 1,100 to
# 3,000 steps; with 500 samples after 5,500, and with half the width not within 5,000.
_HELMHOLTZ = {
    "epochs": 100,
    "train": 1000,
    "width": 1.0,
    "left_out": (
        "QuadNorm, trapezoid weights",
        "QuadNorm, layer mode, trapezoid weights",
        "BlendQuadNorm, trapezoid weights",
    ),
}


def desk_budget(operator: str, trained_at: int, like: str = "", **changes: Any) -> Desk:
    """The desk budget of an operator that the paper trains at ``trained_at``² (the finest grid, if several).

    ``like``: the budget that is changed, if not the operator's: ``helmholtz``, or ``plain``, which has no defaults but
    those of :class:`Desk`.

    >>> desk_budget("galerkin", 64).coarsen, desk_budget("galerkin", 64, epochs=20).epochs
    (4, 20)
    """
    changes = {key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()}
    if like == "plain":
        return Desk(**changes)
    grid, usual = _DESK[operator]
    base: dict[str, Any] = {"coarsen": max(1, trained_at // grid), **(_HELMHOLTZ if like == "helmholtz" else {})}
    return replace(usual, **{**base, **changes})


def with_readings(methods: tuple[Method, ...], operator: str, problem: str, block: bool = False) -> tuple[Method, ...]:
    """The rows, and behind each of the paper's the other readings of it, as rows of ours with labels that say so.

    ==================  ==================================================================================
    LayerNorm           in attention models also over the channels of each token: ``, token-wise``
    QuadNorm            also in the other mode: ``, layer mode`` or ``, instance mode``
    on Helmholtz        QuadNorm and BlendQuadNorm also with the listing's ``, trapezoid weights``
    with ``block``      LayerNorm, QuadNorm and BlendQuadNorm also in the other form of the operator's block
    ==================  ==================================================================================

    >>> two = (Method("LayerNorm", "layer"), Method("QuadNorm", "quad:instance"))
    >>> [(row.label, row.norm) for row in with_readings(two, "transolver", "darcy")]  # doctest: +NORMALIZE_WHITESPACE
    [('LayerNorm', 'layer'), ('LayerNorm, token-wise', 'token'),
     ('QuadNorm', 'quad:instance'), ('QuadNorm, layer mode', 'quad')]
    """
    rows: list[Method] = []
    for method in methods:
        group = [method]
        kind, *options = method.norm.split(":")

        def read(of: Method, suffix: str, norm: str, operator: Params | None = None, row: Method = method) -> Method:
            changed = {**of.operator, **(operator or {})}
            return Method(of.label + suffix, norm, changed, printed=None, seeds=of.seeds, reads=row.label)

        if method.row is not None:
            if kind == "layer" and operator != "fno":
                group.append(read(method, ", token-wise", "token"))
            if kind == "quad" and options[:1] == ["instance"]:
                group.append(read(method, ", layer mode", ":".join([kind, *options[1:]])))
            elif kind == "quad":
                group.append(read(method, ", instance mode", ":".join([kind, "instance", *options])))
            if problem == "helmholtz" and method.label in ("QuadNorm", "BlendQuadNorm"):
                group += [read(row, ", trapezoid weights", f"{row.norm}:trapezoid") for row in group]
            if block and method.label in ("LayerNorm", "QuadNorm", "BlendQuadNorm"):
                suffix, change = BLOCKS[operator]
                group += [read(row, suffix, row.norm, change) for row in group]
        rows += group
    return tuple(rows)


def variant(
    problem: str,
    operator: str,
    methods: tuple[Method, ...],
    train: tuple[int, ...],
    test: tuple[int, ...],
    *,
    name: str = "main",
    samples: Sequence[int] = (),
    epochs: int = 200,
    patience: int = 30,
    warmup: float | None = None,
    lr: float | None = None,
    batch: int = 20,
    desk: Params | None = None,
    table: str = "",
    panel: str | None = None,
    statistic: str | None = None,
    problem_params: Params | None = None,
    operator_params: Params | None = None,
    readings: bool = True,
    block: bool = False,
    loss: str = "plain",
) -> Variant:
    """A variant with the paper's defaults for arguments that are not given, and the other readings of its rows."""
    if operator == "galerkin":  # in layer mode, see the note galerkin-mode
        methods = tuple(
            replace(m, norm=m.norm.replace("quad:instance", "quad")) if m.label == "QuadNorm" else m for m in methods
        )
    train_samples, val, testing = samples or ((900, 100, 200) if problem.startswith("darcy") else (1000, 100, 200))
    return Variant(
        name=name,
        problem=problem,
        operator=operator,
        methods=with_readings(methods, operator, problem, block) if readings else methods,
        train=train,
        test=test,
        budget=Budget(train_samples, val, testing, epochs, lr or LR[operator], patience or None, warmup, batch),
        desk=desk_budget(operator, max(train), **(desk or {})),
        problem_params={**(INTERIOR if problem == "helmholtz" else {}), **(problem_params or {})},
        operator_params={**OPERATORS.get(operator, {}), **(operator_params or {})},
        label=f"tab:{table}" if table else None,
        panel=panel,
        statistic=statistic,
        loss=loss,
    )
