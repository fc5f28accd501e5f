"""A missing package names the extra that brings it, in the form that works here."""

import subprocess
import sys
import tomllib

import pytest

from quadnorm._extras import EXTRAS, install
from quadnorm.cli.app import run
from tests import ROOT

DISTRIBUTIONS = {"skfem": "scikit-fem", "yaml": "pyyaml", "neuralop": "neuraloperator"}


@pytest.mark.parametrize("module", ["typer", "pydantic"])
def test_the_command_line_without_its_packages(module):
    code = f"import sys; sys.modules[{module!r}] = None; from quadnorm.__main__ import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "train"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr.strip() == f"quadnorm: {module} is not installed: {install('bench')}"


def test_library_errors_carry_the_command_for_a_clone(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "a.h5").write_bytes(b"")
    assert run(["data", "show", str(tmp_path / "a.h5")]) == 2
    message = capsys.readouterr().err
    assert "No module named" not in message
    assert install("data") in message


def test_the_table_is_the_projects():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, modules in EXTRAS.items():
        declared = {part.split(">")[0].split(";")[0].strip() for part in extras[extra]}
        assert {DISTRIBUTIONS.get(m, m) for m in modules} == declared
