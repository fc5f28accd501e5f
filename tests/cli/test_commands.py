"""The command line: help everywhere, JSON that parses, errors in one line with exit code 2."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quadnorm._text import one_line
from quadnorm.cli.app import run

COMMANDS = [
    *([], ["study"], ["study", "list"], ["study", "plan"], ["study", "run"], ["study", "show"]),
    *(["data"], ["data", "list"], ["data", "info"], ["data", "make"], ["data", "show"], ["data", "clean"]),
    *(
        ["train"],
        ["eval"],
        ["audit"],
        ["adapt"],
        ["anchor"],
        ["report"],
        ["theory"],
        ["doctor"],
        ["bench"],
        ["bench", "all"],
    ),
    *(["bench", name] for name in ("measures", "norms", "operators", "problems", "adapt", "studies")),
]

# A wrong argument each: one line that says what to do.
MISTAKES = [
    (["study", "run", "extreme-crosres"], "did you mean 'extreme-crossres'"),
    (["study", "plan", "demo", "--preset", "dekst"], "did you mean 'desk'"),
    (["study", "run", "demo", "-m", "LayerNrm"], "did you mean 'LayerNorm'"),
    (["study", "run", "demo", "--seeds", "a"], "cannot read --seeds"),
    (["data", "info", "darcey"], "did you mean 'darcy'"),
    (["data", "info", "darcy", "-p", "fin=3"], "did you mean 'fine'"),
    (["data", "info", "darcy", "-p", "fine"], "expected name=value"),
    (["data", "show", "poisson", "-r", "x"], "cannot read the resolution"),
    (["train", "operator.parms.norm=quad"], "unknown key"),
    (["train", "operator.params.norm=qaud", "problem.name=poisson"], "did you mean 'quad'"),
    (["eval", "no-such-run"], "no run folder or checkpoint"),
    (["anchor", "no-such-run", "-r", "33", "-o", "x.safetensors"], "no run folder or checkpoint"),
    (["adapt", "run", "-o", "adapted.pt"], "-o adapted.pt: a checkpoint is written; expected a name that ends in"),
    (["adapt", "run", "--how", "transport", "-o", "a.safetensors"], "'transferred', 'anchored', 'extended', 'native'"),
    (["audit", "no-such.py:make", "-r", "9", "-r", "17"], "no file"),
    (["report", "no-such-folder"], "no records in"),
    (["theory", "mean"], "did you mean 'means'"),
    # Each of these once was a traceback, a crash or an exit code of 0.
    *(
        (["train", f"operator.params.{p}={v}"], f"{p} must be an integer")
        for p in ("width", "projection")
        for v in (0, -1)
    ),
    (["train", "operator.name=transolver", "operator.params.slices=0"], "slices must be an integer"),
    (["train", "operator.name=galerkin", "operator.params.heads=-1"], "heads must be an integer"),
    (["train", "operator.params.gain=x"], "gain must be true or false, got 'x'"),
    (["train", "operator.params.modes=2.5"], "modes must be an integer"),
    (["train", "device=meta"], "device 'meta' cannot be used"),
    (["train", "threads=100000"], "threads: input should be less than or equal to 256"),
    (["train", "seed=99999999999999999999999999"], "seed: input should be less than"),
    (["train", "resolutions.train=500000"], "of memory"),
    (["train", "-c", "text.yaml", "epochs=1"], "expected sections such as 'problem:'"),
    (["train", "-c", "list.yaml", "epochs=1"], "expected sections such as 'problem:'"),
    (["train", "-c", "deep.yaml"], "nested more than 20 levels deep"),
    (["train", "-c", "bomb.yaml"], "an alias (*) is not read here"),
    (["train", "-o", ""], "an empty value was given"),
    (["train", "--out="], "an empty value was given"),
    (["train", "problem.name=navier-stokes", "problem.params.dt=10"], "dt must be a number above 0 and at most 1"),
    (["train", "problem.name=poisson", "problem.params.modes=2020-13-45"], "modes must be an integer"),
    (["data", "info", "poisson", "-p", "modes={a: b"], "not valid YAML"),
    (["data", "show", "poisson", "-o", "folder"], "give the name of a file with an ending"),
    (["data", "show", "poisson", "-o", "picture.nonsense", "-n", "1", "-r", "9"], "cannot draw to picture.nonsense"),
    (["data", "show", "poisson", "-r", "900000"], "would need"),
    (["data", "make", "poisson", "--seed", "99999999999999999999999999"], "Invalid value for '--seed'"),
    (["study", "plan", "demo", "--seeds", "1,99999999999999999999999999"], "seeds lie between 0 and 2^63"),
    (["study", "show", "demo", "--out", "typo"], "no records in typo"),
    (["study", "run", "demo", "--threads", "100000"], "Invalid value for '--threads'"),
    (["eval", "[/red][bold]run"], "no run folder or checkpoint [/red][bold]run"),
    (["eval", "theirs.pt"], "theirs.pt is a PyTorch file (.pt)"),
    (["eval", "\x1b[31mred"], "no run folder or checkpoint \\x1b[31mred"),
    (
        ["audit", "raises.py:make", "-r", "9", "-r", "17", "--data", "poisson"],
        "raised RuntimeError when it was run on 4 samples",
    ),
    (["audit", "raises.py:nan", "-r", "9", "-r", "17", "--data", "poisson"], "gives NaN or infinity at 9×9"),
    (["audit", "broken.py:make", "-r", "9", "-r", "17", "--data", "poisson"], "broken.py raised SyntaxError"),
    (["audit", "raises.py", "-r", "9", "17"], "expected FILE.py:NAME with a function that makes the model"),
    (["audit", "raises.py:make", "-r", "9", "9", "--data", "poisson"], "an audit compares grids"),
    (["data", "show", "folder"], "folder is a folder; expected a problem's name"),
    (["data", "show", "theirs.pt", "-r", "9"], "--resolution is for problems"),
    (["data", "show", "poisson", "-n", "0"], "should be greater than or equal to 1, got '0'"),
    (["data", "fetch", "darcy-official"], "quadnorm data info darcy-official"),
    (["eval", "run", "--split", "tset"], "Invalid value for '--split': 'tset' is not one of"),
    (["report", "--readme", "no-such.md"], "no file no-such.md"),
    (["study", "show", "dmo"], "did you mean 'demo'"),
    (["study", "run", "demo", "--scheduler", "host"], "expected one like tcp://host:8786"),
    (["theory", "means", "--figure", "-o", "text.yaml"], "is a file; expected a folder for the figures"),
]
FILES = {
    "text.yaml": "just text\n",
    "list.yaml": "- 1\n",
    "deep.yaml": "[" * 100_000,
    "bomb.yaml": "a: &a [x, x]\nb: &b [*a, *a]\n",
    "theirs.pt": "PK\x03\x04 as torch writes them",
    "broken.py": "def make(:\n",
    "raises.py": (
        "import torch\n"
        "class make(torch.nn.Module):\n    def forward(self, x):\n        raise RuntimeError('of two\\nlines')\n"
        "def nan():\n    return lambda x: x * float('nan')\n"
    ),
}


@pytest.mark.parametrize(("command", "message"), MISTAKES, ids=lambda v: v if isinstance(v, str) else " ".join(v))
def test_mistakes_are_one_clear_line(command, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in set(command) | {part.partition(":")[0] for part in command}:
        if name in FILES:
            (tmp_path / name).write_text(FILES[name])
    assert run(command) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("running ")]
    assert len(lines) == 1
    assert lines[0].startswith("quadnorm: ")
    assert message in lines[0]


def test_an_audit_of_meshes_points_to_what_there_is_instead(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "def make():\n    from quadnorm.operators import Transolver\n    return Transolver(width=8, layers=1)\n"
    )
    assert run(["audit", f"{file}:make", "--data", "poisson-mesh", "-r", "9", "-r", "17"]) == 2
    assert "quadnorm eval RUN -p mesh=boundary" in capsys.readouterr().err


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


def test_a_benchmarks_rows_of_two_kinds_are_two_tables(capsys, monkeypatch):
    rows = [{"name": "a", "seconds": 1.0, "peak_mb": float("nan")}, {"name": "b", "messages": "1 + 1"}]
    monkeypatch.setattr("quadnorm.lab.bench.measures.run", lambda **options: rows)
    assert run(["bench", "measures"]) == 0
    out = capsys.readouterr().out
    assert out.count("quadnorm bench") == 2
    assert "seconds" in out
    assert "peak_mb" not in out  # nothing stands in it


@pytest.mark.parametrize("problem", [ValueError, TypeError, OSError, ImportError])
def test_errors_are_one_line(problem, capsys, monkeypatch):
    def fail(**options):
        raise problem("the disk is full; free some space")

    monkeypatch.setattr("quadnorm.lab.bench.measures.run", fail)
    assert run(["bench", "measures"]) == 2
    err = capsys.readouterr().err
    assert err == "quadnorm: the disk is full; free some space\n"


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (RuntimeError("first\nsecond"), "RuntimeError: first; second"),
        (KeyError("x"), "KeyError: 'x'"),
        (AssertionError(), "AssertionError: AssertionError"),
        (MemoryError(), "there is not enough memory; take fewer samples or a coarser grid"),
        (RecursionError("maximum"), "the input is nested too deeply"),
        (ValueError("\x1b[31mred"), "\\x1b[31mred"),
    ],
    ids=repr,
)
def test_any_error_is_one_line(problem, line, capsys, monkeypatch):
    def fail(**options):
        raise problem

    monkeypatch.setattr("quadnorm.lab.bench.measures.run", fail)
    assert run(["bench", "measures"]) == 2
    assert capsys.readouterr().err == f"quadnorm: {line}\n"


def take_too_much(torch_allocator):
    import numpy
    import torch

    (torch.empty if torch_allocator else numpy.empty)(2**44)


@pytest.mark.parametrize("torch_allocator", [True, False])
def test_out_of_memory_is_one_sentence(torch_allocator, capsys, monkeypatch):
    """Not the allocator's raw text, and with what was asked for; also where the error was wrapped on its way."""
    monkeypatch.setattr("quadnorm.lab.bench.measures.run", lambda **options: take_too_much(torch_allocator))
    assert run(["bench", "measures"]) == 2
    asked = "70.4 TB" if torch_allocator else "140.7 TB"
    sentence = (
        rf"there is not enough memory: {asked} were asked for, [\d.]+ .B are free; take fewer samples or a coarser grid"
    )
    assert re.fullmatch(rf"quadnorm: {sentence}\n", capsys.readouterr().err)

    def wrapped(**options):
        try:
            take_too_much(torch_allocator)
        except Exception as error:
            raise ValueError(f"m.py raised {type(error).__name__} at 9: {one_line(error)}") from error

    monkeypatch.setattr("quadnorm.lab.bench.measures.run", wrapped)
    assert run(["bench", "measures"]) == 2
    assert re.fullmatch(rf"quadnorm: m.py raised \w+ at 9: {sentence}\n", capsys.readouterr().err)


def test_a_terminal_without_unicode_gets_plain_characters():
    done = subprocess.run(
        [sys.executable, "-m", "quadnorm", "data", "info", "navier-stokes"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert b"(t) -> " in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_act_like_ctrl_c(number, capsys, monkeypatch):
    before = signal.signal(number, signal.SIG_DFL)
    try:
        monkeypatch.setattr("quadnorm.lab.bench.measures.run", lambda **options: os.kill(os.getpid(), number))
        assert run(["bench", "measures"]) == 130
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert capsys.readouterr().err == "quadnorm: interrupted\n"


def test_interrupt(capsys, monkeypatch):
    def interrupt(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr("quadnorm.lab.bench.measures.run", interrupt)
    assert run(["bench", "measures"]) == 130


def test_bench_measures_as_json_and_table(capsys):
    assert run(["bench", "measures", "--scale", "0.001", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"name", "seconds", "ratio"} <= set(rows[0])
    assert run(["bench", "measures", "--scale", "0.001"]) == 0
    assert "quadnorm bench measures" in capsys.readouterr().out


def test_a_model_is_trained_evaluated_anchored_and_audited(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path / "cache"))
    small = ["operator.params.width=8", "operator.params.modes=4", "operator.params.layers=1", "epochs=2", "batch=4"]
    small += ["problem.name=poisson", "resolutions.train=9", "samples.train=8", "samples.val=2", "samples.test=2"]
    assert run(["train", *small, "-o", "run"]) == 0
    assert "best validation error" in capsys.readouterr().out
    assert run(["eval", "run", "--resolution", "9", "17", "-o", "errors.json"]) == 0
    written = json.loads((tmp_path / "errors.json").read_text())["ways"]
    assert {way: [e["grid"] for e in row] for way, row in written.items()} == {
        "as-trained": [9, 17],
        "transferred": [9, 17],
    }
    assert run(["anchor", "run", "-r", "17", "-o", "elsewhere.safetensors"]) == 2
    assert "was trained at 9, not at 17" in capsys.readouterr().err
    assert run(["anchor", "run", "-r", "17", "-o", "elsewhere.safetensors", "--force"]) == 0
    capsys.readouterr()
    assert run(["anchor", "run", "-r", "1000000", "-o", "huge.safetensors", "--force"]) == 2
    err = capsys.readouterr().err
    assert "there is not enough memory: " in err
    assert "enforce fail" not in err
    assert not Path("huge.safetensors").exists()
    assert run(["anchor", "run", "-o", "anchored.safetensors"]) == 0  # a run knows its training grid
    capsys.readouterr()
    assert run(["eval", "anchored.safetensors", "--resolution", "9", "17"]) == 0
    assert run(["anchor", "anchored.safetensors", "-r", "9", "-o", "twice.safetensors"]) == 2
    assert "adapted already: anchored" in capsys.readouterr().err
    assert run(["audit", "run", "-r", "9", "-r", "17", "-r", "33"]) == 0
    assert "spectral" in capsys.readouterr().out
    assert run(["audit", "run", "-r", "9"]) == 2


def test_data_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path / "cache"))
    assert run(["data", "make", "poisson", "-n", "3"]) == 0
    assert run(["data", "list"]) == 0
    out = capsys.readouterr().out
    assert "navier-stokes" in out
    assert run(["data", "show", "poisson", "-o", str(tmp_path / "a.png"), "-n", "1", "-r", "17"]) == 0
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert run(["data", "clean", "poisson"]) == 0
    assert "MiB freed" in capsys.readouterr().out
    assert run(["doctor"]) == 0


def test_a_study_from_plan_to_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path / "cache"))
    choice = ["galerkin-elasticity", "--preset", "smoke", "--seeds", "1", "-m", "LayerNorm"]
    assert run(["study", "plan", *choice]) == 0
    assert "to do" in capsys.readouterr().out
    assert run(["study", "run", *choice, "--workers", "1"]) == 0
    assert "1 runs done, 0 were there" in capsys.readouterr().out
    assert run(["study", "show", *choice]) == 0
    assert run(["study", "pack", "results", "smoke.tar.xz"]) == 0
    assert run(["report", "smoke.tar.xz", "--compare", "results"]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "Records: <code>smoke.tar.xz</code>" in page  # not the folder that it was unpacked into
    assert "against <code>results</code>" in page
    (tmp_path / "smoke.tar.xz").rename(tmp_path / "folder.tar.xz")
    assert run(["study", "show", *choice, "--out", "."]) == 0  # a folder of packs, as this repository's results
    assert "LayerNorm" in capsys.readouterr().out
    assert run(["report", ".", "-o", "packs.html"]) == 0
    assert "Records: <code>folder.tar.xz</code>" in (tmp_path / "packs.html").read_text()
