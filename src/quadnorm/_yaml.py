"""YAML as configs and command lines use it: numbers as people write them, no aliases, no depths, errors in one line."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

MOST_CHARACTERS = 1_000_000
MOST_LEVELS = 20
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class Loader(yaml.SafeLoader):
    """YAML that reads 1e-3 as a number and dates as text, and refuses a key given twice, where YAML 1.1 is silent.

    Aliases, which let a page of text stand for terabytes, and deep nesting are refused too: no config needs them.
    """

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            self._refuse("an alias (*) is not read here; write the value out")
        self.depth += 1
        if self.depth > MOST_LEVELS:
            self._refuse(f"it is nested more than {MOST_LEVELS} levels deep")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def _refuse(self, reason: str) -> None:
        mark = self.peek_event().start_mark
        raise yaml.composer.ComposerError(None, None, reason, mark)

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


class Dumper(yaml.SafeDumper):
    """Quotes the text "1e-3", which this loader would read as a number."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _yaml_class in (Loader, Dumper):
    _yaml_class.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def parse(text: str, where: str) -> Any:
    """The value that a YAML text describes; ``where`` names its source in the ValueError.

    >>> parse("{rate: 1e-3, day: 2020-13-45}", "a file")
    {'rate': 0.001, 'day': '2020-13-45'}
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"{where}: {len(text)} characters are too many; at most {MOST_CHARACTERS} are read")
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" at line {mark.line + 1}"
        raise ValueError(f"{where}: not valid YAML{line}: {getattr(error, 'problem', None) or error}") from None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{where}: not valid YAML: {error}") from None


def dump(value: Any) -> str:
    """YAML that :func:`parse` reads back as it was."""
    return yaml.dump(value, Dumper=Dumper, sort_keys=False)
