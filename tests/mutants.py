"""Which changes to the source do the tests miss? ``make mutants``, or ``python -m tests.mutants --help``.

Draws single-line changes (an operator, a comparison, a constant, a condition), makes each in a copy of the tree, and
runs the tests of the changed room, the nearest files first, until one fails. A change that nothing notices survives:
kill it with a test, or, where the change makes no difference, say why in ``equivalent_mutants.json``.

The draw depends on the seed and the source only. Results are kept in the folder ``--out`` after every mutant, so that a
run that was stopped goes on where it was, and survivors are tried again with ``--again`` after new tests were written.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import time
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")
ROOMS = ("measures", "carry", "norms", "operators", "training", "problems", "lab/analysis", "adapt")
SWAPS = {
    **{"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "**": "*", "@": "+"},
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"and": "or", "or": "and", "not": "", "True": "False", "False": "True", "min": "max", "max": "min"},
}
_BINARY = {"+", "-", "*", "/", "//", "%", "**", "@"}
_NEAREST = 4  # files of the first run
_NOTHING_THERE = 5  # pytest's exit code where a file has no tests
_ENDED = 99  # exit code that stands for a signal
_SECONDS = 1200  # a mutant that runs longer than this hangs, and is noticed


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


def nearest_tests(mutant: Mutant, root: Path = ROOT) -> list[str]:
    """The test files of the mutant's room: its own examples first, then files by name and by what they import."""
    module = Path(mutant.path)
    dotted = ".".join(module.with_suffix("").parts[1:])
    stem = module.stem if module.stem != "__init__" else module.parent.name
    mirror = "/".join(module.parent.parts[2:])
    source = (root / mutant.path).read_text(encoding="utf-8")
    names = re.findall(r"^(?:def|class) ([A-Za-z]\w+)", source, re.M)

    def distance(path: Path) -> tuple[int, int, str]:
        text = path.read_text(encoding="utf-8")
        score = 100 * (stem.strip("_") in path.stem) + 40 * (dotted in text)
        score += sum(10 for name in names if re.search(rf"\b{name}\b", text))
        score += 5 * str(path.parent.relative_to(root / "tests")).startswith(mirror)
        return -score, len(text), str(path)

    files = sorted((root / "tests" / mutant.room).rglob("test_*.py"), key=distance)
    return [mutant.path, *(str(path.relative_to(root)) for path in files)]


class Trials:
    """A copy of the tree in which mutants are made, and a loaded process whose copies run the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stamp = folder, int(time.time())
        self.sound: set[str] = set()  # tests that pass without a change
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("src", "tests", "docs", "examples"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("conftest.py", "pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy2(ROOT / name, folder / name)
        os.environ |= {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        os.environ["TRITON_INTERPRET"] = "1"
        sys.dont_write_bytecode = True
        for name in ("torch", "numpy", "scipy.stats", "scipy.sparse.linalg", "pytest", "yaml"):
            __import__(name)
        assert "quadnorm" not in sys.modules
        sys.path[:0] = [str(folder / "src")]

    def verdict(self, mutant: Mutant) -> tuple[str, str]:
        """("killed", the test that noticed), or ("survived", "")."""
        path = self.folder / mutant.path
        whole = path.read_text(encoding="utf-8")
        lines = whole.splitlines(keepends=True)
        assert lines[mutant.line - 1].rstrip("\n") == mutant.text
        lines[mutant.line - 1] = mutant.changed + "\n"
        every, unsound = nearest_tests(mutant, self.folder), []
        todo = [every[:_NEAREST], every[_NEAREST:]]  # two runs: most mutants do not get to the second
        while todo and todo[0]:
            self._write(path, "".join(lines))
            code, failed = self._run([*todo[0], *(f"--deselect={test}" for test in unsound)])
            self._write(path, whole)
            if code in (0, _NOTHING_THERE):
                todo.pop(0)
            elif code == _ENDED:
                return "killed", "ends the process, or runs without end"
            elif not failed:
                raise RuntimeError(f"pytest ended with code {code}; see {self.folder / 'log.txt'}")
            elif failed in self.sound or self._run([failed])[0] == 0:
                self.sound.add(failed)
                return "killed", failed
            else:
                unsound.append(failed)  # fails as it is, so that its failure says nothing
        return "survived", ""

    def _write(self, path: Path, text: str) -> None:
        self.stamp += 2  # compiled files and kernels are known by the time of the source
        path.write_text(text, encoding="utf-8")
        os.utime(path, (self.stamp, self.stamp))

    def _run(self, tests: Sequence[str]) -> tuple[int, str]:
        """Exit code and first failing test of a run in a copy of this process."""
        log = self.folder / "log.txt"
        child = os.fork()
        if child == 0:
            os.setsid()
            handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            os.chdir(self.folder)
            signal.alarm(_SECONDS)
            import pytest

            options = [
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:xdist",
                "-m",
                "not slow and not faults",
                "--no-header",
            ]
            os._exit(int(pytest.main([*options, *tests])))
        _, status = os.waitpid(child, 0)
        with_it = os.WIFEXITED(status)
        text = log.read_text(encoding="utf-8", errors="replace")
        names = re.findall(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - |$)", text, re.M)
        return (os.WEXITSTATUS(status) if with_it else _ENDED), (names[0] if names else "")


def tried(args: argparse.Namespace) -> Iterator[tuple[Mutant, str, str]]:
    """Every mutant of the draw with its verdict, new ones as they are found."""
    file = args.out / "results.jsonl"
    known = {}
    if file.exists():
        known = {r["key"]: r for r in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
    equivalent = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    trials = None
    for mutant in drawn(args.count, args.seed, args.rooms):
        if mutant.key in equivalent:
            yield mutant, "equivalent", equivalent[mutant.key]
            continue
        before = known.get(mutant.key)
        if before is None or (args.again and before["verdict"] == "survived"):
            trials = trials or Trials(args.out / "tree")
            begun = time.monotonic()
            verdict, test = trials.verdict(mutant)
            before = {"key": mutant.key, "verdict": verdict, "test": test, "mutant": asdict(mutant)}
            with file.open("a", encoding="utf-8") as results:
                results.write(json.dumps(before) + "\n")
            print(f"{verdict:9s} {time.monotonic() - begun:5.0f} s  {mutant.path}:{mutant.line}  {test}", flush=True)
        yield mutant, before["verdict"], before["test"]


def main() -> int:
    """Try the mutants and list the survivors; exit code 1 if fewer than ``--least`` per cent were noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="changes to draw")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other changes")
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS), choices=ROOMS)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "mutants", help="folder for results and the copy")
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--least", type=float, default=95, help="per cent that must be noticed")
    args = parser.parse_args()
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    verdicts: dict[str, list[Mutant]] = {"killed": [], "survived": [], "equivalent": []}
    for mutant, verdict, _ in tried(args):
        verdicts[verdict].append(mutant)
    for mutant in verdicts["survived"]:
        print(f"\n{mutant.path}:{mutant.line}\n- {mutant.text.strip()}\n+ {mutant.changed.strip()}")
    killed, survived = len(verdicts["killed"]), len(verdicts["survived"])
    share = 100 * killed / max(1, killed + survived)
    print(f"\n{killed} noticed, {survived} survived, {len(verdicts['equivalent'])} make no difference: {share:.1f} %")
    return int(share < args.least)


if __name__ == "__main__":
    sys.exit(main())
