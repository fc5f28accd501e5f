"""The page of the command line, from the commands themselves."""

from collections.abc import Iterator
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal, get_args, get_origin, get_type_hints

from markup import code, escape, table


def command_page() -> str:
    """Every command with its arguments, options, defaults and help."""
    import typer

    from quadnorm.cli.app import app

    root = typer.main.get_command(app)
    parts = [
        "# Command line",
        "Generated from the commands. `quadnorm COMMAND --help` prints the same in a terminal, `quadnorm "
        "--install-completion` sets up completion in your shell. A mistake is one line on stderr and exit code 2; "
        "Ctrl-C is 130, and what was under way can be resumed.",
        "## Options of every command",
        _options(root),
    ]
    for path, command in _leaves(root, ("quadnorm",)):
        parts += [
            f"## {' '.join(path)}",
            escape(command.help or ""),
            f"```text\n{_usage(path, command)}\n```",
            _options(command),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", {})
    if not inner:
        yield path, command
    for name, child in inner.items():
        yield from _leaves(child, (*path, name))


def _is_option(parameter: Any) -> bool:
    return bool(parameter.opts[0].startswith("-"))


def _usage(path: tuple[str, ...], command: Any) -> str:
    arguments = []
    for p in command.params:
        if not _is_option(p):
            word = p.name.upper() + ("…" if p.nargs == -1 else "")
            arguments.append(word if p.required else f"[{word}]")
    return " ".join([*path, *arguments, "[OPTIONS]"])


def _options(command: Any) -> str:
    hints = get_type_hints(command.callback) if command.callback else {}
    rows = []
    for p in command.params:
        if p.name == "help" or getattr(p, "hidden", False):
            continue
        names = ", ".join(code(o) for o in (*p.opts, *p.secondary_opts)) if _is_option(p) else code(p.name.upper())
        text = (p.help or "").rstrip(".")
        choices = _choices(hints.get(p.name))
        rows.append((names, escape(text) + (f" ({', '.join(map(code, choices))})" if choices else ""), _default(p)))
    return table(("argument or option", "meaning", "default"), rows) if rows else ""


def _choices(hint: Any) -> list[str]:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [str(member.value) for member in hint]
    if get_origin(hint) is Literal:
        return [str(value) for value in get_args(hint)]
    return []


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value == [] or (getattr(parameter, "is_flag", False) and value is False) or callable(value):
        return ""
    return code(value.value if isinstance(value, Enum) else value.as_posix() if isinstance(value, PurePath) else value)
