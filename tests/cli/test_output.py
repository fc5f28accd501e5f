"""What commands print for programs and for logs: JSON, CSV, lists, progress without a terminal."""

import csv
import io
import json

import pytest

import quadnorm
from quadnorm.cli.app import run
from quadnorm.cli.progress import Lines, best_error

TINY = [
    "problem.name=poisson", "problem.cache=false", "operator.params.width=4", "operator.params.modes=2",
    "operator.params.layers=1", "operator.params.norm=instance", "resolutions.train=9", "samples.train=8",
    "samples.val=2", "samples.test=2", "epochs=2", "threads=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eval") / "run"
    assert run(["-q", "train", *TINY, "-o", str(folder)]) == 0
    return str(folder)


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_eval_compares_the_ways(trained, capsys):
    ways = "as-trained,transferred,anchored,extended,native"
    assert run(["eval", trained, "-r", "9", "17", "--how", "all", "--json"]) == 0, capsys.readouterr().err
    errors = {(r["way"], r["grid"]): r["relative_l2"] for r in json.loads(capsys.readouterr().out)}
    assert set(errors) == {(way, n) for way in ways.split(",") for n in (9, 17)}
    for way in ways.split(","):  # at the training grid all ways are the model itself
        assert errors[way, 9] == pytest.approx(errors["as-trained", 9], rel=1e-4)
    assert errors["anchored", 17] != pytest.approx(errors["as-trained", 17], rel=1e-6)


def test_eval_as_csv_is_eval_as_json(trained, capsys):
    assert run(["eval", trained, "-r", "17", "--json"]) == 0
    ours = json.loads(capsys.readouterr().out)
    assert [(r["way"], r["grid"]) for r in ours] == [("as-trained", 9), ("as-trained", 17), ("transferred", 17)]
    assert [r["over_training_grid"] for r in ours] == [r["relative_l2"] / ours[0]["relative_l2"] for r in ours]
    assert run(["eval", trained, "-r", "17", "--csv"]) == 0
    assert rows(capsys.readouterr().out) == [{k: str(v) for k, v in r.items()} for r in ours]


def test_eval_marks_the_best_way_and_draws(trained, tmp_path, capsys):
    assert run(["eval", trained, "-r", "17", "-o", str(tmp_path / "errors.png")]) == 0, capsys.readouterr().err
    table = capsys.readouterr().out
    assert "× training grid" in table
    assert table.count(" *") == 1
    assert "(*: the smallest error at a grid)" in table
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")
    assert run(["eval", trained, "-r", "17", "-o", str(tmp_path / "errors.txt")]) == 2
    assert "expected a name that ends in .json, .nc, .zarr, .png, .svg, .pdf" in capsys.readouterr().err


def test_eval_goes_on_where_a_way_does_not_run(tmp_path, capsys):
    """Three waves need five samples: at 4 the model does not run as trained; transferred it does."""
    folder = str(tmp_path / "run")
    assert run(["-q", "train", *TINY, "operator.params.modes=3", "-o", folder]) == 0
    capsys.readouterr()
    assert run(["eval", folder, "-r", "4", "--json"]) == 0
    told = capsys.readouterr()
    assert [(r["way"], r["grid"]) for r in json.loads(told.out)] == [("as-trained", 9), ("transferred", 4)]
    assert "as trained: the model does not run at 4 (modes=(3, 3) need at least" in told.err
    assert run(["eval", folder, "-r", "4", "--how", "as-trained"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--how", "anchord"], "did you mean 'anchored'"),
        (["--json", "--csv"], "--json and --csv were both given"),
        (["--how", "bicubic"], "has no grid of its own to resample from"),  # the older meaning still holds
    ],
)
def test_eval_refuses(trained, arguments, message, capsys):
    assert run(["eval", trained, "-r", "17", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_audit_takes_a_list_and_prints_records(trained, capsys):
    assert run(["audit", trained, "-r", "9", "17", "--samples", "2", "--json"]) == 0, capsys.readouterr().err
    audit = json.loads(capsys.readouterr().out)
    assert audit["resolutions"] == ["9×9", "17×17"] or audit["resolutions"] == ["9", "17"]
    assert run(["audit", trained, "-r", "9", "17", "--samples", "2", "--csv"]) == 0
    assert len(rows(capsys.readouterr().out)) == len(audit["modules"])
    assert audit["number"]["degradation"] > 0


def test_audit_writes_a_badge(trained, tmp_path, capsys):
    file = tmp_path / "badge.svg"
    assert run(["audit", trained, "-r", "9", "17", "--samples", "2", "-o", str(file)]) == 0, capsys.readouterr().err
    assert file.read_text(encoding="utf-8").startswith("<svg ")
    assert "error per doubling" in file.read_text(encoding="utf-8")


def test_audit_from_a_fine_grid_to_coarser_ones(trained, capsys):
    assert run(["audit", trained, "-r", "33", "17", "9", "--samples", "2", "--json"]) == 0, capsys.readouterr().err
    audit = json.loads(capsys.readouterr().out)
    assert max(m["introduced"] or 0 for m in audit["modules"]) > 1e-4
    assert run(["audit", trained, "-r", "33", "17", "9", "--samples", "2"]) == 0
    assert "rows compare 33 with 9" in capsys.readouterr().out


def test_study_list_starts_with_the_demo_and_cuts_no_name(tmp_path, capsys):
    from quadnorm.lab.studies import study_names

    assert run(["study", "list", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed[0] == "demo"
    assert sorted(listed) == sorted(study_names())
    assert [line for line in lines if line in ("start here", "the paper, by table", "ours")] == [
        "start here", "the paper, by table", "ours",
    ]  # fmt: skip
    assert run(["study", "list", "--out", str(tmp_path), "--csv"]) == 0
    assert [r["study"] for r in rows(capsys.readouterr().out)] == listed


def test_study_list_fits_a_terminal(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("quadnorm.cli.commands.study._width", lambda: 80)
    assert run(["study", "list", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert any("poisson-dirichlet-galerkin-strong" in line for line in lines)
    assert " s " in lines[0]  # seconds: minutes would all be 0


def test_data_list_as_records(capsys):
    assert run(["data", "list", "--json"]) == 0
    by_name = {r["problem"]: r for r in json.loads(capsys.readouterr().out)}
    assert by_name["darcy"]["nodes"] == "endpoint"
    assert "files" in by_name


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"quadnorm {quadnorm.__version__}\n"


def test_levels(tmp_path, capsys):
    assert run(["-q", "-v", "data", "list"]) == 2
    assert "choose one" in capsys.readouterr().err
    assert run(["-q", "train", *TINY, "-o", str(tmp_path / "a")]) == 0
    assert capsys.readouterr().err == ""
    assert run(["train", *TINY, "-o", str(tmp_path / "b")]) == 0
    shown = capsys.readouterr().err
    assert "epoch 1/2" in shown
    assert "left" in shown


def test_lines_say_what_is_done_and_what_remains():
    lines = []
    count = Lines("data", every=0.0, write=lines.append)
    for done in (0, 50, 50, 100):
        count(done, 100)
    assert [line.split(",")[0] for line in lines] == ["data: 0 of 100", "data: 50 of 100", "data: 100 of 100"]
    assert "left" in lines[1]
    slow = Lines("data", every=1000.0, write=lines.append)
    slow(1, 3), slow(2, 3), slow(3, 3)
    assert lines[3:] == ["data: 3 of 3"]


def test_best_error(tmp_path):
    (tmp_path / "m.jsonl").write_text('{"val": 0.2}\n{"val": 0.1}\n{"val": 0.3}\n')
    assert best_error(tmp_path / "m.jsonl") == 0.1
    assert best_error(tmp_path / "none.jsonl") is None


def test_nothing_is_cut_in_a_narrow_terminal(monkeypatch, capsys):
    from rich.console import Console

    from quadnorm.cli import terminal

    monkeypatch.setattr(terminal, "console", lambda: Console(markup=False, highlight=False, width=24))
    terminal.table(None, ["problem", "error"], [["a-very-long-name-of-a-study", "12.34567 %"], ["b", "0.1 %"]])
    shown = capsys.readouterr().out
    assert "…" not in shown
    letters = "".join(c for c in shown if c.isalnum() or c in ".-%")
    assert "2.34567" in letters
