"""Read configs from files and overrides; each error is one line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from quadnorm._files import read_bytes
from quadnorm._suggest import unknown
from quadnorm._yaml import MOST_CHARACTERS, dump, parse
from quadnorm.training.config import TrainConfig
from quadnorm.training.config.operator_params import RANGES

Source = TrainConfig | Mapping[str, Any] | str | os.PathLike[str] | None


def read_config(source: Source = None, overrides: Sequence[str] = ()) -> TrainConfig:
    """A config from a YAML file, a mapping or the defaults, changed by ``a.b=c`` overrides (values are YAML).

    >>> config = read_config({"epochs": 5}, ["operator.params.norm=quad:instance", "optimiser.lr=1e-3"])
    >>> config.epochs, config.operator.params, config.lr
    (5, {'norm': 'quad:instance'}, 0.001)
    """
    if isinstance(source, TrainConfig) and not overrides:
        return source  # validated where it was made
    if isinstance(source, TrainConfig):
        where, data = "config", source.model_dump(exclude_unset=True)  # settings that were not given stay unset
    elif isinstance(source, Mapping):
        where, data = "config", deepcopy(dict(source))
    elif source is None:
        where, data = "config", {}
    else:
        where, data = str(source), _file(Path(source))
    _require_sections(data, where)
    for text in overrides:
        _override(data, text)
    return checked(data, where)


def _require_sections(data: Any, where: str) -> None:
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: expected sections such as 'problem:' and 'operator:', got {type(data).__name__}")


def checked(data: Any, where: str = "config") -> TrainConfig:
    """The config that ``data`` describes, or a ValueError with one line for each thing that is wrong."""
    _require_sections(data, where)
    try:
        return TrainConfig.model_validate(data)
    except ValidationError as wrong:
        # A field that allows several types gives one error per type: the first is enough.
        lines: dict[str, str] = {}
        for error in wrong.errors(include_url=False, include_context=False):
            place = _place(error["loc"])
            lines.setdefault(".".join(place), _line(place, error["type"], error["msg"], error["input"]))
        raise ValueError("\n".join(f"{where}: {line}" for line in lines.values())) from None


def write_config(config: TrainConfig) -> str:
    """The config as YAML, complete with defaults, such that :func:`read_config` gives it back."""
    return dump(config.model_dump(mode="json"))


def _file(path: Path) -> Any:
    try:
        text = read_bytes(path, 4 * MOST_CHARACTERS, pipes=True).decode("utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(f"no config file {path}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot read the config {path}: {error}") from None
    data = parse(text, str(path))
    return {} if data is None else data


def _override(data: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise ValueError(f"override {text!r}: expected section.key=value, such as optimiser.lr=1e-3")
    for depth, part in enumerate(path[:-1]):
        inner = data.setdefault(part, {})
        if not isinstance(inner, Mapping):
            raise ValueError(f"override {text!r}: {'.'.join(path[: depth + 1])} is {inner!r}, which has no keys")
        data[part] = data = dict(inner)  # a copy: the caller's mapping stays as it was
    data[path[-1]] = parse(value, f"override {text!r}")


def _place(loc: tuple[int | str, ...]) -> list[str]:
    """The keys from the root to the error, without the names of types that pydantic adds for unions."""
    place: list[str] = []
    section: type[BaseModel] | None = TrainConfig
    for part in loc:
        if section is not None:
            place.append(str(part))
            section = _section(section, str(part))
        elif isinstance(part, int):
            place.append(str(part))
    return place


def _section(parent: type[BaseModel], key: str) -> type[BaseModel] | None:
    field = parent.model_fields.get(key)
    if field is None:
        return None
    kinds = [field.annotation, *get_args(field.annotation)]
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), None)


# What a value should be, by the kind of pydantic's error, whose own words speak of Python's types.
_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a word",
    "tuple_type": "a list, such as [33,65]",
    "dict_type": "keys with values, such as {norm: layer}",
    "model_type": "keys with values",
}


def _line(place: list[str], kind: str, message: str, got: Any) -> str:
    if kind == "extra_forbidden":
        parent: type[BaseModel] = TrainConfig
        for part in place[:-1]:
            parent = _section(parent, part) or parent
        inside = f" in {'.'.join(place[:-1])!r}" if len(place) > 1 else ""
        elsewhere = _elsewhere(place[-1])
        if elsewhere:
            return f"unknown key {place[-1]!r}{inside}; write {elsewhere}={got}"
        hint = "; its own parameters go under 'params'" if "params" in parent.model_fields else ""
        return (
            f"unknown key {place[-1]!r}{inside}; "
            + unknown("key", place[-1], parent.model_fields).partition("; ")[2]
            + hint
        )
    text = message.removeprefix("Value error, ")
    if kind == "value_error":  # raised by our own sections: the message says already what was got
        return f"{'.'.join(place)}: {text}" if place else text
    text = f"expected {_EXPECTED[kind]}" if kind in _EXPECTED else f"{text[:1].lower()}{text[1:]}"
    section = _section(TrainConfig, place[0]) if len(place) == 1 else None
    named = section is not None and "name" in section.model_fields and isinstance(got, str)
    return f"{'.'.join(place)}: {text}, got {got!r}" + (f"; write {place[0]}.name={got}" if named else "")


def _elsewhere(key: str) -> str | None:
    """The full name of a setting that was given without its section, such as optimiser.lr for lr; None if unknown."""
    for name in TrainConfig.model_fields:
        section = _section(TrainConfig, name)
        if section is not None and key in section.model_fields and key not in ("name", "params", "seed"):
            return f"{name}.{key}"
    if key in (*RANGES, "norm", "measure", "kernel"):
        return f"operator.params.{key}"
    return f"problem.params.{key}" if key in ("placement", "paths") else None
