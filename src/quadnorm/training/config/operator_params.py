"""Check an operator's arguments from a config or a file: declared type, and a range that makes sense."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

# Smallest and largest value of every numeric argument. The upper limits are far above what anyone trains: a typing
# error or a hostile file is refused before it costs memory.
RANGES: dict[str, tuple[float, float]] = {
    "width": (1, 2**14),
    "modes": (1, 2**14),
    "layers": (1, 2**10),
    "heads": (1, 2**10),
    "slices": (1, 2**14),
    "projection": (1, 2**16),
    "padding": (0.0, 8.0),
    "period": (1e-6, 1e6),
}
_KIND_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "text"}


def check_params(make: Callable[..., Any], params: Mapping[str, Any]) -> None:
    """Raise a ValueError if a value does not fit the annotation of the operator's argument or :data:`RANGES`.

    >>> from quadnorm.operators import FNO
    >>> check_params(FNO, {"modes": 2.5})
    Traceback (most recent call last):
    ValueError: modes must be an integer between 1 and 16384, got 2.5
    """
    try:
        hints = get_type_hints(make.__init__ if isinstance(make, type) else make)
    except NameError:  # annotations of a user's class that only type checkers can read
        return
    for name, value in params.items():
        hint = hints.get(name, Any)
        kinds = get_args(hint) or (hint,)
        scalars = [kind for kind in _KIND_NAMES if kind in kinds]
        if Any in kinds or not scalars:
            continue
        several = any(get_origin(kind) is not None and issubclass(get_origin(kind), Sequence) for kind in kinds)
        if value is None and type(None) in kinds:
            continue
        values = list(value) if several and isinstance(value, (list, tuple)) and value else [value]
        if not all(any(_fits(v, kind, name) for kind in scalars) for v in values):
            low, high = RANGES.get(name, (-math.inf, math.inf))
            limits = f" between {low:g} and {high:g}" if name in RANGES else ""
            raise ValueError(f"{name} must be {' or '.join(_KIND_NAMES[k] for k in scalars)}{limits}, got {value!r}")


def _fits(value: Any, kind: type, name: str) -> bool:
    if kind in (bool, str):
        return isinstance(value, kind)
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
        return False
    low, high = RANGES.get(name, (-math.inf, math.inf))
    return math.isfinite(value) and low <= value <= high
