"""Tables and figures as files: every form, whole, and readable by what reads such files."""

import csv
import io
import re

import pytest

from quadnorm.lab.analysis import export as export_module
from quadnorm.lab.analysis.export import drawing, export
from quadnorm.lab.analysis.results import Results
from quadnorm.lab.analysis.tables import table_names, table_of
from quadnorm.lab.studies import study, study_names
from quadnorm.lab.studies.records import tasks_of
from tests.lab.analysis.synthetic_records import write_records

ENDINGS = ("md", "csv", "tex", "html", "txt")


def files_of(*names):
    """Every computed table, and those of all studies that share a run with these; two may have the same name."""
    keys = {key for name in names for key in tasks_of(study(name).at("desk"))}
    shown = {name for name in study_names() if keys & set(tasks_of(study(name).at("desk")))}
    return {*table_names(), *shown, *(f"{name}-derived" for name in shown & set(table_names()))}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Two studies' records, and one figure of each kind: drawn, and not."""
    root, out = tmp_path_factory.mktemp("records"), tmp_path_factory.mktemp("out")
    for name in ("tost", "error-decomp"):
        write_records(study(name).at("desk"), root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_module, "DRAWINGS", (drawing("error-decomposition"), drawing("elasticity-4x-qualitative")))
        return out, export(root, out)


def test_every_table_in_every_form_and_every_figure_that_can_be_drawn(exported):
    out, done = exported
    wanted = {f"tables/{name}.{end}" for name in files_of("tost", "error-decomp") for end in ENDINGS}
    wanted |= {f"figures/error-decomposition.{end}" for end in ("svg", "png")}
    assert {str(p.relative_to(out)) for p in done.files} == wanted
    assert len(done.files) == len(wanted)
    assert all(p.stat().st_size > 100 for p in done.files)
    assert list(done.missing) == ["elasticity-4x-qualitative"]
    assert (
        "with the fields that a run stores: quadnorm study run galerkin-elasticity-4x"
        in done.missing["elasticity-4x-qualitative"]
    )


def test_latex_needs_no_letters_that_plain_latex_lacks(exported):
    out, _ = exported
    texts = {p.name: p.read_text(encoding="utf-8") for p in (out / "tables").glob("*.tex")}
    texts |= {name: table_of(Results(study(name).at("desk"), {})).latex() for name in study_names()}
    for name, text in texts.items():
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}"), name
        assert text.isascii(), f"{name}: {sorted({c for c in text if not c.isascii()})}"


def test_lines_of_text_fit_and_carry_no_colours(exported):
    out, _ = exported
    for path in (out / "tables").glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= 120, path.name
    shown = (out / "tables" / "tost.txt").read_text(encoding="utf-8")
    assert "95 % confidence interval over seeds" in shown


def test_the_forms_agree_on_the_numbers(exported):
    out, _ = exported
    read = {end: (out / "tables" / f"error-decomp.{end}").read_text(encoding="utf-8") for end in ENDINGS}
    row = next(r for r in csv.DictReader(io.StringIO(read["csv"])) if r["method"] == "QuadNorm")
    values = [float(v) for head, v in row.items() if re.match(r"\d+² (native )?\(paper \d+²\)$", head)]
    assert len(values) == 3
    for value in values:
        assert all(f"{value:.2f}" in read[end] for end in ("md", "tex", "html", "txt"))


def test_html_names_its_encoding_and_what_was_not_run_its_command(exported):
    out, _ = exported
    page = (out / "tables" / "effect-sizes.html").read_text(encoding="utf-8")
    assert page.index('<meta charset="utf-8">') < page.index("<title>") < page.index("<table")
    for end in ENDINGS[:1] + ENDINGS[2:]:
        text = (out / "tables" / f"effect-sizes.{end}").read_text(encoding="utf-8")
        assert "not run" in text
        assert "study run deep-crossres" in " ".join(text.split())


def test_the_command_writes_the_page_and_the_files(tmp_path, monkeypatch, capsys):
    from quadnorm.cli.app import run

    write_records(study("tost").at("desk"), tmp_path / "records")
    monkeypatch.setattr(export_module, "save_figures", lambda library, folder: ([], {"slope": "needs records"}))
    page, files = tmp_path / "page.html", tmp_path / "files"
    assert run(["report", str(tmp_path / "records"), "-o", str(page), "--files", str(files)]) == 0
    output = capsys.readouterr().out
    assert page.stat().st_size > 10_000
    assert f"{files}: {len(ENDINGS) * len(files_of('tost'))} files" in output.replace("\n", "")
    assert "figure slope was not drawn: needs records" in output
