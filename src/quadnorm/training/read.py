"""Configs from files and overrides, with errors that fit on a line each."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from quadnorm._suggest import unknown
from quadnorm.training.config import TrainConfig

Source = TrainConfig | Mapping[str, Any] | str | os.PathLike[str] | None


class _Loader(yaml.SafeLoader):
    """YAML that reads 1e-3 as a number and refuses a key given twice, where plain YAML 1.1 is silent."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Quotes the text "1e-3", which this loader would read as a number."""


for _yaml_class in (_Loader, _Dumper):
    _yaml_class.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def read_config(source: Source = None, overrides: Sequence[str] = ()) -> TrainConfig:
    """A config from a YAML file, a mapping or the defaults, changed by ``a.b=c`` overrides (values are YAML).

    >>> config = read_config({"epochs": 5}, ["operator.params.norm=quad:instance", "optimiser.lr=1e-3"])
    >>> config.epochs, config.operator.params, config.lr
    (5, {'norm': 'quad:instance'}, 0.001)
    """
    if isinstance(source, TrainConfig):
        where, data = "config", source.model_dump()
    elif isinstance(source, Mapping):
        where, data = "config", deepcopy(dict(source))
    elif source is None:
        where, data = "config", {}
    else:
        where, data = str(source), _file(Path(source))
    for text in overrides:
        _override(data, text)
    return checked(data, where)


def checked(data: Any, where: str = "config") -> TrainConfig:
    """The config that ``data`` describes, or a ValueError with one line for each thing that is wrong."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: expected sections such as 'problem:' and 'operator:', got {type(data).__name__}")
    try:
        return TrainConfig.model_validate(data)
    except ValidationError as wrong:
        # Fields that allow several types fail once per type: the first says enough.
        lines: dict[str, str] = {}
        for error in wrong.errors(include_url=False, include_context=False):
            place = _place(error["loc"])
            lines.setdefault(".".join(place), _line(place, error["type"], error["msg"], error["input"]))
        raise ValueError("\n".join(f"{where}: {line}" for line in lines.values())) from None


def write_config(config: TrainConfig) -> str:
    """The config as YAML, complete with defaults, such that :func:`read_config` gives it back."""
    return yaml.dump(config.model_dump(mode="json"), Dumper=_Dumper, sort_keys=False)


def _file(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(f"no config file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise OSError(f"cannot read the config {path}: {getattr(error, 'strerror', None) or error}") from None
    return _yaml(text, str(path)) or {}


def _yaml(text: str, where: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" at line {mark.line + 1}"
        raise ValueError(f"{where}: not valid YAML{line}: {getattr(error, 'problem', None) or error}") from None


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
    data[path[-1]] = _yaml(value, f"override {text!r}")


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


def _line(place: list[str], kind: str, message: str, got: Any) -> str:
    if kind == "extra_forbidden":
        parent: type[BaseModel] = TrainConfig
        for part in place[:-1]:
            parent = _section(parent, part) or parent
        inside = f" in {'.'.join(place[:-1])!r}" if len(place) > 1 else ""
        hint = "; its own parameters go under 'params'" if "params" in parent.model_fields else ""
        return (
            f"unknown key {place[-1]!r}{inside}; "
            + unknown("key", place[-1], parent.model_fields).partition("; ")[2]
            + hint
        )
    text = message.removeprefix("Value error, ")
    if kind == "value_error":  # written in config.py: it says what was got
        return f"{'.'.join(place)}: {text}" if place else text
    return f"{'.'.join(place)}: {text[:1].lower()}{text[1:]}, got {got!r}"
