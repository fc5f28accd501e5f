"""One way to say that a name is not known: what was given, what there is, and what was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """The message for a name that is in no table.

    >>> unknown("rule", "trapezoidal", ["simpson", "trapezoid"])
    "unknown rule 'trapezoidal'; did you mean 'trapezoid'? Known: simpson, trapezoid"
    """
    names = sorted(set(known))
    close = get_close_matches(str(name).lower(), names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown {kind} {name!r}; {hint}Known: {', '.join(names)}"
