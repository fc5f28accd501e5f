"""The ``quadnorm`` command and what becomes of its errors."""

import sys
from collections.abc import Sequence

import typer

from quadnorm.cli import adapt, bench, data, doctor, report, study, theory, train

app = typer.Typer(
    name="quadnorm",
    help="Neural operators whose spatial sums know their measure.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(study.app, name="study")
app.add_typer(data.app, name="data")
app.command(name="train")(train.train)
app.command(name="eval")(train.evaluate)
app.command(name="audit")(adapt.audit)
app.command(name="anchor")(adapt.anchor)
app.command(name="report")(report.report)
app.command(name="theory")(theory.theory)
app.add_typer(bench.app, name="bench")
app.command(name="doctor")(doctor.doctor)


@app.callback()
def _root() -> None:
    """Neural operators whose spatial sums know their measure."""


def run(arguments: Sequence[str]) -> int:
    """Run one command. What a user can put right is one line on stderr and exit code 2, never a traceback."""
    try:
        app(args=list(arguments), prog_name="quadnorm")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except (ValueError, TypeError, OSError, ImportError) as problem:
        print(f"quadnorm: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"quadnorm: {str(stop) or 'interrupted'}", file=sys.stderr)
        return 130
    return 0
