"""What Python files mean, as a hash: comments, docstrings and layout do not count."""

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path


def meaning(files: Iterable[Path]) -> str:
    """A hash of the syntax trees of the files, without docstrings. It changes only when the code does.

    >>> len(meaning([Path(__file__)]))
    32
    """
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                value = body[0].value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    value.value = ""
        digest.update(ast.dump(tree).encode() + b"\0")
    return digest.hexdigest()
