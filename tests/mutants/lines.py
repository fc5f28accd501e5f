"""Which tests of a room run which line of the source, and how long each takes."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.mutants.draw import Mutant


class RoomLines:
    """What a run of a room's tests with coverage found.

    Args:
        tree: the sources that were run.
        data: the file that coverage wrote, with a context for each test.
        seconds: duration of every test that passed.
    """

    def __init__(self, tree: Path, data: Path, seconds: dict[str, float]) -> None:
        from coverage import CoverageData

        self.tree, self.seconds, self.written = tree, seconds, data.stat().st_mtime
        self.data = CoverageData(str(data))
        self.data.read()

    def tests_of(self, mutant: Mutant, limit: float) -> list[str]:
        """Tests that run the mutant's statement, quickest first, as many as take ``limit`` seconds, and newer files.

        A statement that runs on import only has the tests that run anything else in its file. Empty where nothing runs:
        in constants, and in kernels that are compiled.
        """
        by_line = self.data.contexts_by_lineno(str(self.tree / mutant.path))
        wanted = _statement((self.tree / mutant.path).read_text(encoding="utf-8"), mutant.line)
        tests = {_test(context) for line in wanted for context in by_line.get(line, ())}
        if not tests & self.seconds.keys():
            tests = {_test(context) for contexts in by_line.values() for context in contexts}
        found, total = [], 0.0
        for test in sorted(tests & self.seconds.keys(), key=lambda test: (self.seconds[test], test)):
            total += self.seconds[test]
            if found and total > limit:
                break
            found.append(test)
        return [*self._newer(mutant.room), *found] if found else []

    def _newer(self, room: str) -> list[str]:
        """Test files that were written after the run."""
        files = sorted((self.tree / "tests" / room).rglob("test_*.py"))
        return [str(f.relative_to(self.tree)) for f in files if f.stat().st_mtime > self.written]


def _test(context: str) -> str:
    return context.rpartition("|")[0]


def _statement(source: str, line: int) -> range:
    """Lines of the innermost statement around ``line``; of one with a body, only its head."""
    best = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):  # outer ones first
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if node.lineno <= line <= end:
                best = range(node.lineno, end + 1)
    return best
