"""The page's code runs, once its names are public."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_page_runs(capsys):
    page = (ROOT / "docs" / "existing-models.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    assert len(blocks) == 4
    names = {}
    for block in blocks:
        exec(compile(block, "existing-models.md", "exec"), names)
    assert "recommended: anchor" in capsys.readouterr().out


@pytest.mark.slow
def test_the_example_runs(tmp_path, capsys, monkeypatch):
    import importlib.util

    spec = importlib.util.spec_from_file_location("neuralop_anchor", ROOT / "examples" / "neuralop_anchor.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(tmp_path, steps=20)
    assert "recommended: " in capsys.readouterr().out
    assert (tmp_path / "neuralop_audit.html").exists()


def test_public_names_come_from_here():
    import quadnorm.adapt

    for name in ("anchor", "convert", "audit", "at_native", "register_anchor"):
        assert getattr(quadnorm, name) is getattr(quadnorm.adapt, name)
