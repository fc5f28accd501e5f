"""Tests run against one change at a time, each time in a fork of a process that has torch loaded."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from tests import ROOT
from tests.mutants.draw import Mutant
from tests.mutants.lines import RoomLines

_FIRST = 25  # tests of the first run: most mutants do not get to the second
_NEAREST = 4  # files of it, where no test is known to run the line
_NOTHING_THERE = 5  # pytest's exit code where nothing was collected
_ENDED = 99  # exit code that stands for a signal
_CLOCK = 1200  # seconds after which a run that only waits is ended
_OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "pytest_cov", "-m", "not slow and not faults", "--no-header"]
_OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of hypothesis, which is loaded before
# What the tests import, other than the package itself: loaded once instead of in every fork.
_LOADED = ["torch", "torch.distributed", "numpy", "scipy.stats", "scipy.sparse.linalg", "pytest", "pytest_cov.plugin"]
_LOADED += ["hypothesis", "yaml", "numba", "pandas", "xarray", "zarr", "netCDF4", "h5py", "matplotlib.figure", "typer"]


class Trials:
    """A copy of the tree in which mutants are made, and a loaded process whose forks run the tests.

    Args:
        folder: holds the copy and what was found out about each room.
        seconds: how long the tests of one mutant may take, by their time without a change: the quickest are run.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.tree, self.seconds = folder, folder / "tree", seconds
        self.stamp = int(time.time())
        self.sound: set[str] = set()  # tests that pass without a change
        self.rooms: dict[str, RoomLines] = {}
        shutil.rmtree(self.tree, ignore_errors=True)
        for name in ("src", "tests", "docs", "examples"):
            shutil.copytree(ROOT / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in ROOT.iterdir():
            if path.is_file() and path.name != ".git":
                shutil.copy2(path, self.tree)
        os.environ |= {"PYTHONPATH": str(self.tree / "src"), "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1"}
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        for name in _LOADED:
            with suppress(ImportError):
                import_module(name)
        assert "quadnorm" not in sys.modules
        here = {"", str(ROOT), str(ROOT / "src")}
        sys.path[:] = [str(self.tree), str(self.tree / "src"), *(part for part in sys.path if part not in here)]

    def verdict(self, mutant: Mutant) -> tuple[str, str]:
        """("killed", the test that noticed), or ("survived", "")."""
        lines = self.room(mutant.room)
        path = self.tree / mutant.path
        whole = path.read_text(encoding="utf-8")
        changed = whole.splitlines(keepends=True)
        assert changed[mutant.line - 1].rstrip("\n") == mutant.text
        changed[mutant.line - 1] = mutant.changed + "\n"
        every = lines.tests_of(mutant, self.seconds)
        cut = _FIRST if every else _NEAREST
        every = every or nearest_files(mutant, self.tree)
        todo, unsound = [part for part in (every[:cut], every[cut:]) if part], []
        while todo:
            self._write(path, "".join(changed))
            code, failed = self._run(["-x", *todo[0], *(f"--deselect={test}" for test in unsound)], lines.seconds)
            self._write(path, whole)
            if code in (0, _NOTHING_THERE):
                todo.pop(0)
            elif code == _ENDED:
                return "killed", "ends the process, or runs without end"
            elif not failed:
                raise RuntimeError(f"pytest ended with code {code}; see {self.folder / 'log.txt'}")
            elif failed in lines.seconds or failed in self.sound or self._run([failed], {})[0] == 0:
                self.sound.add(failed)
                return "killed", failed
            else:
                unsound.append(failed)  # fails as it is, so that its failure says nothing
        return "survived", ""

    def room(self, name: str) -> RoomLines:
        """Which tests of a room run which line: its tests are run once, without a change."""
        if name not in self.rooms:
            data, seconds = (self.folder / f"{name.replace('/', '-')}.{end}" for end in ("coverage", "json"))
            if not seconds.exists():
                every = [
                    "--cov=quadnorm",
                    "--cov-context=test",
                    "--cov-report=",
                    f"tests/{name}",
                    f"src/quadnorm/{name}",
                ]
                os.environ["COVERAGE_FILE"] = str(data)
                self._run(every, {}, seconds)
                os.environ.pop("COVERAGE_FILE")
            self.rooms[name] = RoomLines(self.tree, data, json.loads(seconds.read_text(encoding="utf-8")))
        return self.rooms[name]

    def _write(self, path: Path, text: str) -> None:
        self.stamp += 2  # compiled files and kernels are known by the time of the source
        path.write_text(text, encoding="utf-8")
        os.utime(path, (self.stamp, self.stamp))

    def _run(self, tests: Sequence[str], usual: dict[str, float], seconds: Path | None = None) -> tuple[int, str]:
        """Exit code and first failing test of a run in a fork of this process."""
        log = self.folder / "log.txt"
        child = os.fork()
        if child == 0:
            os.setsid()
            handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            os.chdir(self.tree)
            for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
                del sys.modules[name]  # the copy's are to be imported
            import pytest

            os._exit(int(pytest.main([*_OPTIONS, *tests], plugins=[Clock(usual, seconds)])))
        _, status = os.waitpid(child, 0)
        with_it = os.WIFEXITED(status)
        text = log.read_text(encoding="utf-8", errors="replace")
        names = re.findall(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - |$)", text, re.M)
        return (os.WEXITSTATUS(status) if with_it else _ENDED), (names[0] if names else "")


class Clock:
    """A plugin that writes how long each passing test took, and ends the process at one that takes much longer.

    What counts is the time of the processor: on a loaded machine tests wait, and waiting is no fault.
    """

    def __init__(self, usual: dict[str, float], seconds: Path | None) -> None:
        self.usual, self.file = usual, seconds
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_runtest_setup(self, item):
        """A limit for each test of ten times what it usually takes, and a minute."""
        if self.file is None:
            used = resource.getrusage(resource.RUSAGE_SELF)
            limit = int(used.ru_utime + used.ru_stime + 60 + 10 * self.usual.get(item.nodeid, 10.0))
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
            signal.alarm(_CLOCK)

    def pytest_runtest_logreport(self, report):
        """Add up set-up, call and tear-down."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self):
        """Keep the times of what passed."""
        if self.file is not None:
            kept = {test: seconds for test, seconds in self.seconds.items() if test not in self.failed}
            self.file.write_text(json.dumps(kept), encoding="utf-8")


def nearest_files(mutant: Mutant, root: Path) -> list[str]:
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
