"""``quadnorm theory``."""

import json

import pytest

from quadnorm.cli.app import run
from quadnorm.lab.analysis.figures.statements import draw
from quadnorm.lab.theory import Evidence, averages, statement


def test_tables(capsys):
    assert run(["theory", "means", "periodic"]) == 0
    out = capsys.readouterr().out
    assert "thm:consistency" in out
    assert "order" in out
    assert out.count("holds") == 2


def test_json(capsys):
    assert run(["theory", "means", "uniform", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in printed] == ["means", "uniform"]
    assert printed[0]["label"] == "thm:consistency"
    assert printed[0]["holds"] is True
    first = printed[0]["series"][0]
    assert len(first["x"]) == len(first["y"]) >= 5
    assert first["fit"]["exponent"] == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("name", ["means", "periodic", "layers"])
def test_figures(name, tmp_path, capsys):
    assert run(["theory", name, "--figure", "-o", str(tmp_path / "made")]) == 0
    for suffix in ("svg", "png"):
        assert (tmp_path / "made" / f"{name}.{suffix}").stat().st_size > 5000
    assert "order 2.0" in (tmp_path / "made" / f"{name}.svg").read_text() or name == "periodic"


def test_the_bounds_drawing_shows_every_block():
    names = ("L_T", "L_N", "C_T", "C_N", "C_σ", "e_L", "bound", "C_N₁", "e_L₁", "bound₁")
    rows = tuple({"L": str(L), **dict.fromkeys(names, 0.1 * L)} for L in range(1, 17))
    left, right = draw(statement("transfer"), Evidence(rows=rows)).axes
    observed = [line for line in left.lines if line.get_marker() == "o"]
    assert [line.get_label() for line in observed] == ["counting", "trapezoid"]
    assert all(list(line.get_xdata()) == list(range(1, 17)) for line in observed)
    # Constants are per δ₁ = 1/32 for counting and per δ₂ = 1/32² for the others.
    assert [line.get_ydata()[9] for line in right.lines] == pytest.approx([1 / 32] + [1 / 1024] * 3)


def test_list_and_help(capsys):
    assert run(["theory", "--list"]) == 0
    out = capsys.readouterr().out
    assert "transfer: " in out
    assert run(["theory", "--help"]) == 0
    assert "--figure" in capsys.readouterr().out


def test_an_unknown_name_is_one_line(capsys):
    assert run(["theory", "mean"]) == 2
    err = capsys.readouterr().err
    assert "did you mean 'means'" in err
    assert err.count("\n") == 1


def test_what_does_not_hold_is_said_and_exits_1(capsys, equal_weights, monkeypatch):
    monkeypatch.setattr(averages, "SIZES_BY_DIMENSION", {1: averages.SIZES_BY_DIMENSION[1]})
    assert run(["theory", "means"]) == 1
    out = capsys.readouterr().out
    assert "does not hold: 2 of the checks fail" in out
    assert "NO" in out
