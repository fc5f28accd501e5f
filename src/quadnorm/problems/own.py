"""A problem class defined in a user's own file."""

from __future__ import annotations

from quadnorm._load import from_file, source_hash
from quadnorm.problems.base import Problem


def own_class(text: str) -> type[Problem]:
    """The problem class that FILE.py:CLASS names.

    Its samples are cached under the hash of the file, so that a changed file gets new samples.
    """
    cls = from_file(text, "a class of problems (quadnorm.problems.Problem)")
    if not (isinstance(cls, type) and issubclass(cls, Problem)):
        raise ValueError(f"{text} is not a problem class; derive it from quadnorm.problems.Problem")
    missing = sorted(cls.__abstractmethods__) + [n for n in ("name", "inputs", "outputs") if not hasattr(cls, n)]
    if missing:
        raise ValueError(f"{text}: the class lacks {', '.join(missing)}; see quadnorm.problems.Problem")
    if cls.source is None:
        cls.source = source_hash(text)
    return cls
