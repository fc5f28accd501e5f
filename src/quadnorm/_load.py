"""Python files that a user names on the command line: FILE.py:NAME."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from quadnorm._text import one_line, printable


def names_file(text: str) -> bool:
    """Whether a text reads FILE.py:NAME.

    >>> names_file("my.py:Class"), names_file("darcy")
    (True, False)
    """
    return text.rpartition(":")[0].endswith(".py")


def from_file(text: str, expected: str) -> Any:
    """The thing called NAME in FILE.py. The file is run, which is said on stderr; once for each state of the file."""
    file, _, name = text.rpartition(":")
    path = Path(file).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; expected FILE.py:NAME, {expected}")
    module = _run(path, path.stat().st_mtime_ns)
    if not callable(getattr(module, name, None)):
        own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        raise ValueError(f"{path} has no {name!r}, {expected}; it has: {', '.join(own) or 'none'}")
    return getattr(module, name)


def source_hash(text: str) -> str:
    """A short hash of the file that FILE.py:NAME names: what was made with it knows whether it has changed since."""
    return hashlib.sha256(Path(text.rpartition(":")[0]).expanduser().read_bytes()).hexdigest()[:16]


@lru_cache(maxsize=16)
def _run(path: Path, _stamp: int) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    print(printable(f"running {path}"), file=sys.stderr)
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    if before is None:
        sys.modules[path.stem] = module  # dataclasses look up their module by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        if before is None:
            del sys.modules[path.stem]
        raise ValueError(f"{path} raised {type(error).__name__} when it was run: {one_line(error)}") from error
    return module
