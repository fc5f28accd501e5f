"""``quadnorm adapt`` (``anchor``) and ``quadnorm audit``: existing models at other resolutions."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from quadnorm._load import from_file, names_file
from quadnorm._text import one_line, printable
from quadnorm.cli.terminal import Csv, Json, Param, dumps, grid, parameters, rows_as, say

Grids = Annotated[
    list[str] | None,
    typer.Option("--resolution", "-r", help="Samples per axis, the training grid first; several may follow."),
]

CSV = ("name", "kind", "introduced", "cumulative", "order", "alone", "fixed", "cause", "remedy")

How = Literal["transferred", "anchored", "extended", "native"]
Checkpoint = Annotated[Path, typer.Argument(help="A run's folder or a .safetensors file of `quadnorm train`.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The checkpoint to write (.safetensors).")]
Trained = Annotated[
    str | None,
    typer.Option("--resolution", "-r", help="Samples per axis of the training grid; default: the run's own."),
]
Placed = Annotated[str | None, typer.Option(help="endpoint, cell, periodic, left or interior; default: the problem's.")]
Which = Annotated[str, typer.Option(help="Which weights of the run: best or last.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Allow a grid that the model was not trained on, and for anchored a drift that grows."
    ),
]


def adapt(
    checkpoint: Checkpoint,
    out: Out,
    how: Annotated[
        How,
        typer.Option(
            help="transferred: as well as it can be had, from the run's validation pairs; or one of the ways that it "
            "is made of: anchored, extended, native."
        ),
    ] = "transferred",
    resolution: Trained = None,
    placement: Placed = None,
    which: Which = "best",
    force: Force = False,
) -> None:
    """Adapt a trained model to other grids and write a checkpoint that `quadnorm eval` can read."""
    from quadnorm.training import save_adapted

    adapted = save_adapted(checkpoint, out, how, grid(resolution) if resolution else None, placement, which, force)
    names = ("report", "extend_report", "anchor_report")
    say(
        next(
            (getattr(adapted, name) for name in names if getattr(adapted, name, None) is not None), adapted.extra_repr()
        )
    )
    say(f"written to {out}; its errors at other grids: quadnorm eval {out} --resolution 65 129")


def anchor(
    checkpoint: Checkpoint,
    out: Out,
    resolution: Trained = None,
    placement: Placed = None,
    which: Which = "best",
    force: Force = False,
) -> None:
    """The same as `quadnorm adapt --how anchored`: every sum under the measure of the training grid."""
    adapt(checkpoint, out, "anchored", resolution, placement, which, force)


def audit(
    model: Annotated[
        str, typer.Argument(help="A run's folder, or FILE.py:NAME, which makes the model (the file is run).")
    ],
    resolution: Grids = None,
    more: Annotated[list[str] | None, typer.Argument(help="Further resolutions.")] = None,
    data: Annotated[str, typer.Option(help="The problem whose samples are the model's input.")] = "darcy",
    param: Param = None,
    samples: Annotated[int, typer.Option(help="How many samples.", min=1, max=10**6)] = 4,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the audit as HTML, or its number as badge.svg.")
    ] = None,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Show which modules of a model depend on the resolution, by how much, why, and what helps."""
    from quadnorm import audit as look

    grids = [grid(r) for r in [*(resolution or []), *(more or [])]]
    subject, inputs, grids = _subject(model, grids, data, param, samples)
    _check_output(model, subject, inputs, grids[0])
    with _naming(model, inputs):
        result = look(subject, inputs, grids, placement=inputs.problem.placement)
    plain = result.to_dict()
    if as_json and not as_csv:
        print(dumps(plain))
    elif not rows_as([{c: row[c] for c in CSV} for row in plain["modules"]], as_json, as_csv):
        say(result)
    if out is not None:
        (result.badge if out.suffix == ".svg" else result.html)(out)
        print(printable(f"written to {out}"), file=sys.stderr)
    if not (as_json or as_csv or names_file(model)) and result.recommendation.startswith("transfer"):
        others = " ".join("x".join(map(str, inputs.problem.shape(n))) for n in grids[1:])
        say(f"  as a command: quadnorm eval {model} --resolution {others}")


def _subject(
    model: str, grids: list[Any], data: str, param: list[str] | None, samples: int
) -> "tuple[Any, _Inputs, list[Any]]":
    """The model to audit, its inputs and the grids, of which a run knows its training grid."""
    from quadnorm.problems import problem
    from quadnorm.problems.points import POINTS
    from quadnorm.training import load_model
    from quadnorm.training.data import problem_of, settled

    if names_file(model):
        p, subject = problem(data, **parameters(param)), _from_file(model)
        indices = range(samples)
    elif model.endswith(".py"):
        raise ValueError(f"{model}: expected FILE.py:NAME with a function that makes the model, as in {model}:make")
    else:
        subject, config = load_model(model)
        p = problem_of(config)
        indices = settled(config, p).samples.indices("test")[:samples]
        grids = grids or [config.resolutions.train[0]]
    if p.placement == POINTS:
        raise ValueError(
            f"{p.name} has its samples on meshes, and an audit compares grids; for a model's errors on other meshes: "
            f"quadnorm eval RUN -p mesh=boundary"
        )
    if len(set(grids)) < 2:
        raise ValueError("an audit compares grids: give the training resolution and at least one more, -r 33 65 129")
    return subject, _Inputs(p, indices), grids


class _Inputs:
    """Samples of a problem at the grids that an audit asks for; ``last`` is the last grid, for error messages."""

    def __init__(self, p: Any, indices: range) -> None:
        self.problem, self.indices, self.count, self.last = p, indices, len(indices), "no grid yet"

    def __call__(self, resolution: Any) -> Any:
        self.last = "×".join(str(n) for n in self.problem.shape(resolution))
        return self.problem.sample(self.indices, resolution)


@contextmanager
def _naming(model: str, inputs: _Inputs) -> Iterator[None]:
    """Add to an error of the model itself on which samples and which grid it was run."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{model} raised {type(error).__name__} when it was run on {inputs.count} samples of "
            f"{inputs.problem.name} at {inputs.last}: {one_line(error)}"
        ) from error


def _check_output(model: str, subject: Any, inputs: _Inputs, grid: Any) -> None:
    """Refuse a model whose output at its training grid has NaN or infinity: nothing can be compared with it."""
    import torch

    x, _ = inputs(grid)
    with _naming(model, inputs), torch.no_grad():
        y = subject(x)
    if isinstance(y, torch.Tensor) and not bool(torch.isfinite(y).all()):
        bad = int((~torch.isfinite(y)).sum())
        raise ValueError(
            f"{model} gives NaN or infinity at {inputs.last} ({bad} of {y.numel()} values): there is nothing to audit"
        )


def _from_file(text: str) -> Any:
    """The model that a function makes, given as FILE.py:NAME."""
    make = from_file(text, "a function that makes the model")
    try:
        return make()
    except Exception as error:
        file, _, name = text.rpartition(":")
        raise ValueError(f"{name}() in {file} raised {type(error).__name__}: {one_line(error)}") from error
