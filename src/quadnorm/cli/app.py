"""The ``quadnorm`` command, and the one place that turns every error into one line and an exit code."""

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from quadnorm._extras import advised, missing_module
from quadnorm._memory import no_memory, out_of_memory
from quadnorm._text import one_line, printable
from quadnorm.cli.commands import adapt, advise, bench, data, evaluate, report, study, theory, train
from quadnorm.cli.terminal import prepare_streams, set_level

app = typer.Typer(
    name="quadnorm",
    help="Neural operators that work on other grids than the one they were trained on.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.add_typer(study.app, name="study")
app.add_typer(data.app, name="data")
app.command(name="train")(train.train)
app.command(name="eval")(evaluate.evaluate)
app.command(name="audit")(adapt.audit)
app.command(name="adapt")(adapt.adapt)
app.command(name="anchor")(adapt.anchor)
app.command(name="report")(report.report)
app.command(name="theory")(theory.theory)
app.add_typer(bench.app, name="bench")
app.command(name="advise")(advise.advise)
app.command(name="doctor")(advise.doctor)

_EXPECTED = (ValueError, TypeError, IndexError, OSError, ImportError)  # their messages are written for users
_LONGEST = 1000


def _version(wanted: bool) -> None:
    if wanted:
        from quadnorm import __version__

        print(f"quadnorm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results only: no progress, no notes.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also print what is done on the way.")] = False,
) -> None:
    """Neural operators that work on other grids than the one they were trained on."""
    if quiet and verbose:
        raise ValueError("--quiet and --verbose were both given; choose one")
    set_level("quiet" if quiet else "verbose" if verbose else "normal")


def run(arguments: Sequence[str]) -> int:
    """Run one command. Exit code 0: it worked; 2: any error, with one line on stderr; 130: it was stopped.

    Set QUADNORM_TRACEBACK=1 to see where an error came from.
    """
    prepare_streams()
    with _stop_signals():
        try:
            return _invoke(arguments)
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else 0
        except KeyboardInterrupt as stop:
            return _fail(one_line(stop) if str(stop) else "interrupted", 130)
        except BrokenPipeError:  # the program that reads our output has ended, for example ``head``
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        except Exception as error:
            return _explain(error, arguments)


def _invoke(arguments: Sequence[str]) -> int:
    for argument in arguments:
        if not argument.strip() or (argument.startswith("--") and argument.endswith("=")):
            raise ValueError(f"an empty value was given ({argument!r}); leave the option out, or give it a value")
    command = typer.main.get_command(app)
    with command.make_context("quadnorm", list(arguments)) as context:
        command.invoke(context)
    sys.stdout.flush()  # a full disk shows here, not after the last line of the program
    return 0


def _explain(error: Exception, arguments: Sequence[str]) -> int:
    code = getattr(error, "exit_code", None)
    if code is not None and not hasattr(error, "format_message"):  # typer.Exit
        return int(code)
    if os.environ.get("QUADNORM_TRACEBACK"):
        traceback.print_exception(error)
    if hasattr(error, "format_message"):  # a command line that cannot be parsed
        if type(error).__name__ == "NoArgsIsHelpError":
            return 2  # the help has been printed
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        message = " ".join(error.format_message().split()).replace(": Value error, ", ": ").replace(": Input ", ": ")
        return _fail(printable(message + _got(error, arguments)) + hint)
    if out_of_memory(error):
        return _fail(no_memory(error))
    if isinstance(error, RecursionError):
        return _fail("the input is nested too deeply")
    if isinstance(error, ModuleNotFoundError) and (advice := missing_module(error)):
        return _fail(advice)
    name = "" if isinstance(error, _EXPECTED) else f"{type(error).__name__}: "
    return _fail(name + as_typed(advised(one_line(error)), arguments))


_PARAMETER = re.compile(
    r"(?<![\w.])(?<!-p )(placement|domain|axes|channels|mask|ignore_coordinates|allow_nan|skip_nan|"
    r"(?:input|output)(?:_time)?)=(?:'([^']*)'|(\w*))"
)


def as_typed(message: str, arguments: Sequence[str]) -> str:
    """A message of the readers of files, which speak Python, in the words of this command line.

    >>> as_typed("pass placement='endpoint' and ignore_coordinates=True", ["train"])
    'pass problem.params.placement=endpoint and problem.params.ignore_coordinates=true'
    >>> as_typed("pass placement='endpoint'", ["data", "show"])
    'pass -p placement=endpoint'
    >>> as_typed("say so with input=NAME and output=NAME", ["train"])
    'say so with problem.params.input=NAME and problem.params.output=NAME'
    """
    prefix = {"train": "problem.params.", "data": "-p "}.get(next((a for a in arguments if a[:1] != "-"), ""))
    if prefix is None:
        return message
    typed = {"True": "true", "False": "false"}
    return _PARAMETER.sub(lambda m: f"{prefix}{m[1]}={m[2] or typed.get(m[3] or '', m[3] or '')}", message)


def _got(error: Exception, arguments: Sequence[str]) -> str:
    """What was given for an option whose value is out of range, for messages that only say what was expected."""
    names = getattr(getattr(error, "param", None), "opts", [])
    if type(error).__name__ != "BadParameter" or "'" in str(error):  # the value is quoted already
        return ""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = argument.partition("=")
        if name in names:
            return f", got {(value if equals else following)[:80]!r}"
    return ""


def _fail(message: str, code: int = 2) -> int:
    short = message if len(message) <= _LONGEST else f"{message[:_LONGEST]} …"
    start = "\n" if code == 130 and sys.stderr.isatty() else ""  # below the ^C that the terminal echoes
    print(f"{start}quadnorm: {short}", file=sys.stderr)
    return code


@contextmanager
def _stop_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP act like Ctrl-C: a running command saves its state and can be resumed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {n: signal.signal(n, interrupt) for n in numbers if signal.getsignal(n) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
