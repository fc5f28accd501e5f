"""``quadnorm anchor`` and ``quadnorm audit``: existing models at other resolutions."""

import importlib.util
from pathlib import Path
from typing import Annotated, Any

import typer

from quadnorm.cli.options import grid, parameters

Grids = Annotated[
    list[str] | None,
    typer.Option("--resolution", "-r", help="Samples per axis, the training grid first; may be repeated."),
]


def anchor(
    checkpoint: Annotated[Path, typer.Argument(help="A run's folder or a .safetensors file of `quadnorm train`.")],
    resolution: Annotated[str, typer.Option("--resolution", "-r", help="Samples per axis of the training grid.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The checkpoint to write (.safetensors).")],
    placement: Annotated[
        str | None, typer.Option(help="endpoint, cell, periodic or left; default: the problem's.")
    ] = None,
    which: Annotated[str, typer.Option(help="best or last weights.")] = "best",
) -> None:
    """Anchor a trained model to its training grid and write it as a checkpoint, which `quadnorm eval` reads."""
    from quadnorm.training import save_anchored

    made = save_anchored(checkpoint, out, grid(resolution), placement, which)
    print(made.anchor_report)
    print(f"written to {out}; its errors at other grids: quadnorm eval {out} --resolution 65 129")


def audit(
    model: Annotated[str, typer.Argument(help="A function that makes the model, FILE.py:NAME, or a run's folder.")],
    resolution: Grids = None,
    data: Annotated[str, typer.Option(help="A problem whose samples are the input.")] = "darcy",
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="Of the problem, name=value.")] = None,
    samples: Annotated[int, typer.Option(help="How many.", min=1)] = 4,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write the audit as HTML.")] = None,
) -> None:
    """Tell which modules of a model depend on the resolution, by how much, why, and what helps."""
    from quadnorm import audit as look
    from quadnorm.problems import problem
    from quadnorm.training import load_model
    from quadnorm.training.data import problem_of
    from quadnorm.training.losses import POINTS

    if ":" in model and ".py" in model:
        made, p = _made(model), problem(data, **parameters(param or []))
        grids = [grid(r) for r in resolution or []]
    else:
        made, config = load_model(model)
        p = problem_of(config)
        grids = [grid(r) for r in resolution or []] or [config.resolutions.train[0]]
    if p.placement == POINTS:
        raise ValueError(
            f"{p.name} has its samples on meshes, and an audit compares grids; for a model's errors on other meshes: "
            f"quadnorm eval RUN -p mesh=boundary"
        )
    if len(grids) < 2:
        raise ValueError(
            "an audit compares grids: give the training resolution and at least one more, -r 33 -r 65 -r 129"
        )
    found = look(made, lambda n: p.sample(range(samples), n), grids, placement=p.placement)
    print(found)
    if out is not None:
        out.write_text(found.html(), encoding="utf-8")
        print(f"written to {out}")
    if ":" not in model and found.recommendation.startswith("anchor"):
        print(f"  as a command: quadnorm anchor {model} --resolution {(resolution or [''])[0]} -o OUT")


def _made(text: str) -> Any:
    file, _, name = text.rpartition(":")
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(f"no file {path}; expected FILE.py:NAME, a function that makes the model")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    make = getattr(module, name, None)
    if not callable(make):
        names = [n for n in vars(module) if callable(getattr(module, n)) and not n.startswith("_")]
        raise ValueError(f"{path} has no function {name!r}; it has: {', '.join(names) or 'none'}")
    return make()
