"""Parts that several studies share: the paper's rows, operators and budgets."""

from dataclasses import replace
from typing import Any

from quadnorm.lab.studies.study import Budget, Desk, Method, Params, Variant, Way

NONE = Method("None", "none")
LAYER = Method("LayerNorm", "layer")
INSTANCE = Method("InstanceNorm", "instance")
GROUP = Method("GroupNorm", "group")
RMS = Method("RMSNorm", "rms")
# Instance mode: the printed native errors follow InstanceNorm's, and only this mode halves the slope.
QUAD = Method("QuadNorm", "quad:instance")
BLEND = Method("BlendQuadNorm", "blend:0.3")
BLEND_01 = Method("BlendQuadNorm, α = 0.1", "blend:0.1")
# The paper's listing always takes trapezoid weights; on periodic data an operator would put equal ones in their place.
TRAPEZOID_QUAD, TRAPEZOID_BLEND, TRAPEZOID_BLEND_01 = (
    replace(method, norm=f"{method.norm}:trapezoid") for method in (QUAD, BLEND, BLEND_01)
)

SEVEN = (NONE, LAYER, INSTANCE, GROUP, RMS, QUAD, BLEND)
FIVE = (NONE, LAYER, QUAD, BLEND, BLEND_01)
FOUR = (NONE, LAYER, QUAD, BLEND)
THREE = (LAYER, QUAD, BLEND)
TWO = (LAYER, QUAD)

# Test grids of models trained at 64².
FINE = (64, 128, 256)
NEAR = (64, 96, 128)

PICTURED = ("LayerNorm", "QuadNorm")  # the methods whose fields the figures show

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

MODE = (
    "QuadNorm runs in instance mode, which the printed native errors point to; the paper's listing defaults to layer."
)
GALERKIN_MODE = (
    "In a Galerkin Transformer QuadNorm runs in layer mode, the default of the paper's listing: its printed native "
    "errors lie below LayerNorm's, while in instance mode we measure 13 to 24 % above. Instance mode is a row of ours."
)
MATCHED = "The paper draws its test sets resolution by resolution; here every resolution sees the same instances."
STAND_IN = "The small presets replace the released files by darcy, which draws the same law."
SYNTHETIC = (
    "The data are called synthetic in tab:bootstrap-cis and the released files elsewhere; here they are darcy, "
    "drawn anew. "
    "The numbers of samples are not stated: 900, 100 and 200, the paper's split of the released files."
)
# The grid on which the paper's sine transform solves: it leaves both ends out.
INTERIOR = {"placement": "interior"}
INTERIOR_NOTE = (
    "Helmholtz data lie on the interior grid (j+1)/(n+1), which the paper's sine transform implies; QuadNorm takes "
    "that grid's own weights, which reach to the boundary, not the trapezoid's. On the endpoint-inclusive grid "
    "instead: problem.placement=endpoint."
)
SINE_BUDGET = "The paper states no numbers of samples for this problem: 1000, 100 and 200 are chosen, and 200 epochs."
TWO_LAYERNORMS = (
    "The paper's LayerNorm reduces over (C, H, W), while the stock Transolver's acts on each token; "
    "both are run, under names of their own."
)
RELEASED = (
    "Training and validation samples come from smooth1, test samples from smooth2, as the paper states for its "
    "500-epoch benchmark; its other studies of the files state no split, and get the same."
)
GELU = (
    "Every FNO block ends in a GELU, the last one too, as the paper's description reads; the operator's own default "
    "leaves it out of the last block."
)
BICUBIC_NOTE = (
    "The paper evaluates by bicubic interpolation here and by subsampling elsewhere. Data are subsampled (a binary "
    "coefficient stays binary); the errors on bicubically interpolated test data stand beside. To train on them too: "
    "problem.restriction=bicubic."
)
BICUBIC = Way("bicubic", "as trained, bicubic data", view=(("restriction", "bicubic"),))


def seeds(count: int) -> tuple[int, ...]:
    """0, 1, …: the same seeds for every method, so that runs can be paired."""
    return tuple(range(count))


# What the desk preset gives a run. It is the same in every study of an operator, so that studies share their runs: an
# FNO is trained at 32² whatever grid the paper trains it at, the attention models at 16², the test grids in proportion.
_DESK = {
    "fno": (32, Desk(epochs=30, train=400, width=0.5, lr=2e-3)),
    "galerkin": (16, Desk(epochs=50, width=0.5, lr=1e-3, batch=10)),
    # With 200 samples (1,000 steps) some seeds are still on the plateau that every Transolver begins with.
    "transolver": (16, Desk(epochs=50, train=400, width=0.5, lr=1e-3, batch=10)),
}


def desk(operator: str, trained_at: int, methods: tuple[str, ...] = (), **changes: Any) -> Desk:
    """The desk budget of an operator that the paper trains at ``trained_at``² (the finest grid, if several).

    >>> desk("galerkin", 64).coarsen, desk("galerkin", 64, epochs=20).epochs
    (4, 20)
    """
    grid, usual = _DESK[operator]
    return replace(usual, methods=methods, coarsen=max(1, trained_at // grid), **changes)


def helmholtz_desk(*methods: str) -> Desk:
    """The desk budget of a Transolver on Helmholtz: the paper's width and samples, and more steps than elsewhere.

    Every such model begins on a plateau of 30 %, where it ignores the wavenumber. With the paper's width and samples it
    leaves it after 1,100 to 3,000 steps; with 500 samples after 5,500, and with half the width not within 5,000.
    """
    trapezoid = ("QuadNorm, trapezoid weights", "QuadNorm, layer mode, trapezoid weights")
    left_out = (*trapezoid, "BlendQuadNorm, trapezoid weights")
    return replace(desk("transolver", 64, methods, epochs=100), train=1000, width=1.0, left_out=left_out)


def with_readings(methods: tuple[Method, ...], operator: str, problem: str, block: bool = False) -> tuple[Method, ...]:
    """The rows, and behind each of the paper's the other readings of it, as rows of ours with labels that say so.

    ==================  ==================================================================================
    LayerNorm           in attention models also over the channels of each token: ``, token-wise``
    QuadNorm            also in the other mode: ``, layer mode`` or ``, instance mode``
    on Helmholtz        QuadNorm and BlendQuadNorm also with the listing's ``, trapezoid weights``
    with ``block``      LayerNorm, QuadNorm and BlendQuadNorm also in the other form of the operator's block
    ==================  ==================================================================================

    >>> [(row.label, row.norm) for row in with_readings(TWO, "transolver", "darcy")]  # doctest: +NORMALIZE_WHITESPACE
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
            if problem == "helmholtz" and method.label in (QUAD.label, BLEND.label):
                group += [read(row, ", trapezoid weights", f"{row.norm}:trapezoid") for row in group]
            if block and method.label in (LAYER.label, QUAD.label, BLEND.label):
                suffix, change = BLOCKS[operator]
                group += [read(row, suffix, row.norm, change) for row in group]
        rows += group
    return tuple(rows)


def variant(
    problem: str,
    operator: str,
    methods: tuple[Method, ...],
    train: int | tuple[int, ...],
    test: tuple[int, ...],
    desk: Desk,
    *,
    name: str = "main",
    samples: tuple[int, int, int] | None = None,
    epochs: int = 200,
    patience: int | None = 30,
    warmup: float | None = None,
    table: str | None = None,
    panel: str | None = None,
    statistic: str | None = None,
    problem_params: Params | None = None,
    readings: bool = True,
    block: bool = False,
    **operator_params: Any,
) -> Variant:
    """A variant with the paper's defaults for arguments that are not given, and the other readings of its rows."""
    if operator == "galerkin":  # in layer mode, see GALERKIN_MODE
        quad = (replace(m, norm=m.norm.replace("quad:instance", "quad")) for m in methods)
        methods = tuple(n if m.label == QUAD.label else m for m, n in zip(methods, quad, strict=True))
    if samples is None:
        samples = (900, 100, 200) if problem.startswith("darcy") else (1000, 100, 200)
    return Variant(
        name=name,
        problem=problem,
        operator=operator,
        methods=with_readings(methods, operator, problem, block) if readings else methods,
        train=(train,) if isinstance(train, int) else train,
        test=test,
        budget=Budget(*samples, epochs=epochs, lr=LR[operator], patience=patience, warmup=warmup),
        desk=desk,
        problem_params={**(INTERIOR if problem == "helmholtz" else {}), **(problem_params or {})},
        operator_params={**OPERATORS[operator], **operator_params},
        label=table and f"tab:{table}",
        panel=panel,
        statistic=statistic,
    )
