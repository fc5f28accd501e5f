"""The command line: help everywhere, JSON that parses, errors in one line with exit code 2."""

import json
import subprocess
import sys

import pytest

from quadnorm.cli.app import run

COMMANDS = [[], ["bench"], ["bench", "measures"], ["bench", "all"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help(command, capsys):
    assert run([*command, "--help"]) == 0
    assert "Usage: quadnorm" in capsys.readouterr().out


def test_help_does_not_wait_for_torch():
    code = "import sys; from quadnorm.cli.app import run; run(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_module_entry_point():
    done = subprocess.run([sys.executable, "-m", "quadnorm", "bench", "nonsense"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "No such command 'nonsense'" in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_extra_is_named():
    code = "import sys; sys.modules['typer'] = None; from quadnorm.__main__ import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'quadnorm[bench]'" in done.stderr


@pytest.mark.parametrize("problem", [ValueError, TypeError, OSError, ImportError])
def test_errors_are_one_line(problem, capsys, monkeypatch):
    def fail(**options):
        raise problem("the disk is full; free some space")

    monkeypatch.setattr("quadnorm.bench.measures.run", fail)
    assert run(["bench", "measures"]) == 2
    err = capsys.readouterr().err
    assert err == "quadnorm: the disk is full; free some space\n"


def test_interrupt(capsys, monkeypatch):
    def interrupt(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr("quadnorm.bench.measures.run", interrupt)
    assert run(["bench", "measures"]) == 130


def test_bench_measures_as_json_and_table(capsys):
    assert run(["bench", "measures", "--scale", "0.001", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"name", "seconds", "ratio"} <= set(rows[0])
    assert run(["bench", "measures", "--scale", "0.001"]) == 0
    assert "quadnorm bench measures" in capsys.readouterr().out
