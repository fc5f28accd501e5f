"""Single-line changes to the source (an operator, a comparison, a constant, a condition), drawn at random."""

from __future__ import annotations

import ast
import io
import random
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

ROOMS = ("measures", "carry", "norms", "operators", "training", "problems", "lab/analysis", "adapt")
SWAPS = {
    **{"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "**": "*", "@": "+"},
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"and": "or", "or": "and", "not": "", "True": "False", "False": "True", "min": "max", "max": "min"},
}
_BINARY = {"+", "-", "*", "/", "//", "%", "**", "@"}


@dataclass(frozen=True)
class Mutant:
    """One change: the token at (line, column) of a file, 1-based and 0-based as in Python's own tools."""

    path: str
    line: int
    column: int
    old: str
    new: str
    text: str  # the line as it was

    @property
    def changed(self) -> str:
        """The line as the mutant has it."""
        return self.text[: self.column] + self.new + self.text[self.column + len(self.old) :]

    @property
    def key(self) -> str:
        """The change without its line number, which other changes to the file move."""
        return f"{self.path}: {self.text.strip()} -> {self.changed.strip()} @{self.column}"

    @property
    def room(self) -> str:
        """The room that the file is in."""
        inside = self.path.removeprefix("src/quadnorm/")
        return next(room for room in ROOMS if inside.startswith(f"{room}/"))


def candidates(path: Path) -> list[Mutant]:
    """Every change that could be made to a file; imports, annotations, decorators and text are left alone."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    skipped = _skipped_lines(tree)
    annotations = _annotations(tree)
    lines = source.splitlines()
    found = []
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        row, column = token.start
        new = _swapped(before, token, after)
        if new is None or row in skipped or any(a <= token.start < b for a, b in annotations):
            continue
        found.append(Mutant(str(path.relative_to(ROOT)), row, column, token.string, new, lines[row - 1]))
    return found


def compiles(mutant: Mutant) -> bool:
    """Whether the change leaves a program, and another one."""
    source = (ROOT / mutant.path).read_text(encoding="utf-8")
    lines = source.splitlines()
    lines[mutant.line - 1] = mutant.changed
    try:
        return ast.dump(ast.parse("\n".join(lines))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def _swapped(before: tokenize.TokenInfo, token: tokenize.TokenInfo, after: tokenize.TokenInfo) -> str | None:
    if token.type == tokenize.NUMBER:
        if not re.fullmatch(r"[\d_]+|[\d_]*\.[\d_]*(e-?\d+)?|[\d_]+e-?\d+", token.string):
            return None
        return str(int(token.string) + 1) if token.string.replace("_", "").isdigit() else f"{2 * float(token.string)}"
    if token.string not in SWAPS or token.type not in (tokenize.OP, tokenize.NAME):
        return None
    if token.string in _BINARY:  # not a star of arguments, not the slash of a signature
        ends = before.type in (tokenize.NAME, tokenize.NUMBER) or before.string in (")", "]")
        if after.string in (",", ")", "]", ":") or not (ends or token.string == "-"):
            return None
    if token.string in ("min", "max") and (before.string == "." or after.string != "("):
        return None
    return SWAPS[token.string]


def _skipped_lines(tree: ast.Module) -> set[int]:
    """Lines of imports, decorators and messages of errors."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Raise)):
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for decorator in getattr(node, "decorator_list", []):
            lines |= set(range(decorator.lineno, (decorator.end_lineno or decorator.lineno) + 1))
    return lines


def _annotations(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    nodes = [
        part
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if isinstance(part, ast.expr)
    ]
    return [((n.lineno, n.col_offset), (n.end_lineno or 0, n.end_col_offset or 0)) for n in nodes]


def drawn(count: int, seed: int, rooms: Sequence[str]) -> list[Mutant]:
    """``count`` changes, spread evenly over the rooms, no line twice; the rooms in their order."""
    shares = [count // len(rooms) + (k < count % len(rooms)) for k in range(len(rooms))]
    chosen: list[Mutant] = []
    for room, share in zip(rooms, shares, strict=True):
        every = [m for path in sorted((ROOT / "src/quadnorm" / room).rglob("*.py")) for m in candidates(path)]
        random.Random(f"{seed} {room}").shuffle(every)  # the same whichever other rooms are asked for
        by_line: dict[tuple[str, int], Mutant] = {}
        for mutant in every:
            if len(by_line) < share and (mutant.path, mutant.line) not in by_line and compiles(mutant):
                by_line[mutant.path, mutant.line] = mutant
        chosen += by_line.values()
    return chosen
