"""The page of the configuration keys, from the models that validate them."""

import inspect
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from markup import code, escape, table

HEADS = ("key", "type", "default", "meaning")


def config_page() -> str:
    """Every key of a training config: type, default, meaning."""
    from quadnorm.training.config import CIRCUMSTANCES, TrainConfig

    rows = [r for name, field in TrainConfig.model_fields.items() if not _section(field) for r in [_row(name, field)]]
    parts = [
        "# Configuration keys",
        "Generated from the models. A run's configuration is YAML (`quadnorm train -c config.yaml`), and every key can "
        "be given on the command line as well: `quadnorm train optimiser.lr=1e-3 epochs=50`. What was used, defaults "
        "included, stands in the run's `config.yaml`. A key that does not exist or a value out of range is an error.",
        "## Top level",
        table(HEADS, rows),
    ]
    for name, field in TrainConfig.model_fields.items():
        if model := _section(field):
            keys = [_row(f"{name}.{key}", inner) for key, inner in model.model_fields.items()]
            parts += [
                f"## {name}",
                escape(inspect.cleandoc(model.__doc__ or "")),
                table(HEADS, keys),
            ]
    kept = ", ".join(code(c) for c in CIRCUMSTANCES)
    parts.append(f"A run that is resumed may change {kept}; everything else decides the result and must stay.")
    return "\n\n".join(parts) + "\n"


def _section(field: Any) -> Any:
    from pydantic import BaseModel

    return field.annotation if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel) else None


def _row(key: str, field: Any) -> tuple[str, str, str, str]:
    default = "`null`" if field.default is None else code(_plain(field.default))
    limits = ", ".join(_limit(m) for m in field.metadata if _limit(m))
    kind = type_name(field.annotation) + (f" {limits}" if limits else "")
    return code(key), escape(kind), default, escape(field.description or "")


def _plain(value: Any) -> Any:
    """As YAML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return list(value) if isinstance(value, tuple) else value


def _limit(constraint: Any) -> str:
    for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
        if (bound := getattr(constraint, name, None)) is not None:
            return f"{sign} {bound:g}" if abs(bound) < 10**9 else ""  # a guard, not a limit one meets
    return "".join(t for m in getattr(constraint, "metadata", ()) if (t := _limit(m)))


def type_name(annotation: Any) -> str:
    """An annotation in a reader's words.

    >>> type_name(int | None), type_name(tuple[int, ...]), type_name(Literal["a", "b"])
    ('int or null', 'list of int', 'a or b')
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is Annotated:
        return type_name(inner[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(type_name, inner)))
    if origin is Literal:
        return " or ".join(map(str, inner))
    if origin is tuple:
        item = type_name(inner[0])
        return f"list of {f'({item})' if ' ' in item else item}" if Ellipsis in inner else f"{len(inner)} of {item}"
    if origin is dict:
        return "mapping"
    return str(getattr(annotation, "__name__", annotation))
