"""Figures: what they show against calculus, what they need, and that files and page text come out whole."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from quadnorm._files import sealed
from quadnorm.lab.analysis import export as figures
from quadnorm.lab.analysis.export import DRAWINGS, attempt, draw, drawing, figure_names, save_figures
from quadnorm.lab.analysis.figures import degradation, fields, records
from quadnorm.lab.analysis.figures.style import INK, inline_svg, save, styles
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.studies import study, study_names
from quadnorm.lab.studies.pictures import audit_file, picture_file
from tests import ROOT
from tests.lab.analysis.synthetic_records import write_fields, write_records

RECORDED = (
    "anchored-crossres",
    "extreme-crossres",
    "deep-crossres",
    "error-decomp",
    "demo",
    "neuralop-tutorial",
    "false-promise",
)
WITH_FIELDS = ("demo", "galerkin-varcoeff", "transolver-varcoeff", "galerkin-elasticity-4x")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Records at the desk preset, some with the fields that a run stores."""
    root = tmp_path_factory.mktemp("records")
    for name in (*RECORDED, *WITH_FIELDS):
        write_records(study(name).at("desk"), root, test=1)
    for name in WITH_FIELDS:
        write_fields(study(name).at("desk"), root, ("LayerNorm", "QuadNorm"))
    return Library([root])


@pytest.fixture(scope="module")
def drawn(library):
    return {d.name: d.draw(library) for d in DRAWINGS}


def test_every_figure_can_be_drawn_and_saved(drawn, tmp_path):
    paths = [path for name, figure in drawn.items() for path in save(figure, tmp_path / name)]
    assert {p.stem for p in paths} == set(figure_names())
    assert {p.suffix for p in paths} == {".svg", ".png"}
    for path in paths:
        assert path.stat().st_size > 2000
        if path.suffix == ".svg":
            ET.parse(path)
        else:
            assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_factors_of_degradation(tmp_path):
    """Of an error that is 2 at the training grid and 2·ratio elsewhere as trained, 2.5 transferred; rollouts apart."""

    def error(run, way, grid):
        ratio = grid / run.variant.train[0]
        if way.startswith("transferred"):
            return 2.0 if ratio == 1 else 2.5
        return 2 * ratio * (3 if way.endswith("-20-steps") else 1)

    for name in ("false-promise", "false-promise-multires", "rollout"):
        write_records(study(name).at("desk"), tmp_path, error, test=1)
    found = degradation.factors(Library([tmp_path]))
    assert len(found) == 6 + 3
    seeds = len(study("false-promise").at("desk").seeds)
    assert found["resnet", "burgers, periodic, 3 periods", 1]["as-trained", 3] == pytest.approx([8.0] * seeds)
    assert found["fno", "darcy, cell, 3 periods", 1]["transferred", 2] == pytest.approx([1.25] * seeds)
    rolled = found["fno", "navier-stokes-steps", 20]
    assert rolled["as-trained", 0] == pytest.approx([3.0] * 3)
    assert rolled["as-trained", -1] == pytest.approx([1.5] * 3)
    assert all(d in (-1, 0, 1, 2) for _, d in rolled)  # three quarters of the training grid are left out


def test_energies_by_octave_are_the_runs_means(library):
    results = library.results("false-promise")
    v = results.study.variants[0]
    assert degradation.octave_means(results, v.name, "as-trained", v.test[-1], "truth") == [0.25, 0.75]
    errors = results.of(v.name, "None", v.test[-1]).values()
    squares = [(e / 100) ** 2 for e in errors]
    stored = degradation.octave_means(results, v.name, "as-trained", v.test[-1], "error")
    assert stored[0] == pytest.approx(sum(squares) / len(squares), rel=1e-6)


def test_page_text_is_svg_alone_with_ids_of_its_own(drawn):
    seen: set[str] = set()
    for name, figure in drawn.items():
        text = inline_svg(figure, name)
        root = ET.fromstring(text)
        assert root.tag.endswith("svg")
        assert "viewBox" in root.attrib
        assert "width" not in root.attrib
        ids = re.findall(r'\bid="([^"]+)"', text)
        assert not seen & set(ids)
        seen |= set(ids)
        assert all(target in ids for target in re.findall(r'(?:href="#|url\(#)([^")]+)', text))
        assert INK not in text
        assert len(text) < 700_000


def test_figures_of_records_need_records(tmp_path, monkeypatch):
    library = Library([tmp_path])
    assert all(d.draw(library) is None for d in DRAWINGS if d.needs)
    monkeypatch.setattr(figures, "DRAWINGS", (drawing("transfer"), drawing("nonuniform-bias")))
    saved, missing = save_figures(library, tmp_path)
    assert [p.name for p in saved] == ["nonuniform-bias.svg", "nonuniform-bias.png"]
    assert set(missing) == {"transfer"}
    assert missing["transfer"].endswith("quadnorm study run anchored-crossres --preset desk")


def test_a_figure_that_fails_says_why_and_is_tried_once(tmp_path, monkeypatch):
    tried = []

    def broken(library):
        tried.append(library)
        raise OSError("the disk is gone")

    monkeypatch.setattr(figures, "DRAWINGS", (replace(drawing("slope"), draw=broken),))
    write_records(study("demo").at("desk"), tmp_path, test=1)
    library = Library([tmp_path])
    assert [attempt("slope", library) for _ in range(2)] == [(None, "OSError: the disk is gone")] * 2
    assert len(tried) == 1
    assert save_figures(library, tmp_path) == ([], {"slope": "OSError: the disk is gone"})


def test_without_anything_to_compare_no_figure_of_records_is_tried(tmp_path, monkeypatch):
    write_records(study("demo").at("smoke"), tmp_path, test=1)
    monkeypatch.setattr(figures, "DRAWINGS", (replace(drawing("slope"), draw=lambda library: 1 / 0),))
    figure, why = attempt("slope", Library([tmp_path]))
    assert figure is None
    assert why.endswith("quadnorm study run anchored-crossres --preset desk")


def test_stored_fields_that_cannot_be_read_cost_their_figure_only(tmp_path):
    for folder in write_records(study("demo").at("desk"), tmp_path, test=1):
        (folder / "pictures").mkdir()
        n = study("demo").at("desk").variants[0].test[-1]
        picture_file(folder, "as-trained", n).write_bytes(b"not arrays")
        audit_file(folder).write_bytes(sealed({"leaks": 3}))
    figure, why = attempt("prediction", Library([tmp_path]))
    assert figure is None
    assert f"as-trained@{n}.npz is damaged" in why
    assert "audit.json lacks fields that are needed" in attempt("audit", Library([tmp_path]))[1]


def test_fields_of_two_instances_are_not_shown_side_by_side(tmp_path):
    s = study("galerkin-elasticity-4x").at("desk")
    folders = write_records(s, tmp_path, test=1)
    write_fields(s, tmp_path, ("LayerNorm", "QuadNorm"))
    path = picture_file(next(f for f in folders if "quad" in f.name), "as-trained", s.variants[0].test[-1])
    with np.load(path) as stored:
        arrays = dict(stored)
    np.savez(path, **{**arrays, "truth": arrays["truth"] + 1.0})
    assert "another test instance" in attempt("elasticity-4x-qualitative", Library([tmp_path]))[1]


def test_errors_written_on_fields_are_those_of_the_stored_arrays(library, drawn):
    """‖0.1 cos 9x‖ / ‖sin πx sin 2πy‖ on the stored grid, for LayerNorm as trained."""
    n = library.results("demo").study.variants[0].test[-1]
    t = np.linspace(0, 1, n)
    wanted = 100 * np.linalg.norm(0.1 * np.cos(9 * t)) * np.sqrt(n)
    wanted /= np.linalg.norm(np.sin(np.pi * t)) * np.linalg.norm(np.sin(2 * np.pi * t))
    titles = [axis.get_title(loc="left") for axis in drawn["prediction"].axes]
    assert f"LayerNorm, as trained: {wanted:.2f} %" in titles


def test_analysis_and_report_load_no_models():
    """What figures need of a model is stored when its run is evaluated."""
    sources = [p for room in ("analysis", "report") for p in (ROOT / "src/quadnorm/lab" / room).rglob("*.py")]
    assert len(sources) > 30
    for path in sources:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"quadnorm\.(adapt|operators|problems)\b|load_model|safetensors", text), path.name


def test_slopes_are_beside_the_lines(library, drawn):
    """The legend names every method in both uses and covers nothing that is drawn."""
    figure = drawn["slope"]
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert not legend.get_window_extent().overlaps(figure.axes[0].get_window_extent())
    methods = library.results("anchored-crossres").study.variants[0].methods
    labels = [text.get_text().rsplit(":", 1)[0] for text in legend.get_texts()]
    assert labels == [m.label + use for m in methods for use in ("", ", anchored")]


def test_fields_need_what_a_run_stores(tmp_path):
    write_records(study("demo").at("desk"), tmp_path, test=1)
    assert draw("prediction", Library([tmp_path])) is None
    assert draw("audit", Library([tmp_path])) is None
    assert draw("transfer", Library([tmp_path])) is not None


def test_the_papers_figures_are_all_there():
    labels = {d.label for d in DRAWINGS if d.label}
    assert labels == {
        "fig:schematic", "fig:scaling", "fig:error-decomposition", "fig:varcoeff-qualitative", "fig:bias-convergence",
        "fig:nonuniform-bias", "fig:nonuniform-mechanism", "fig:elasticity-4x-qualitative",
    }  # fmt: skip
    assert drawing("fig:scaling").name == "scaling"
    with pytest.raises(ValueError, match="did you mean 'scaling'"):
        drawing("scalling")


def test_the_window_is_on_the_boundary_and_holds_the_most_energy():
    rng = np.random.default_rng(1)
    for _ in range(20):
        error = rng.normal(size=(32, 32)) * rng.random((32, 32)) ** 4
        rows, columns = fields.boundary_window(error)
        assert rows.start == 0 or rows.stop == 32 or columns.start == 0 or columns.stop == 32
        best = (error[rows, columns] ** 2).sum()
        others = [(i, j) for i in range(0, 32, 8) for j in range(0, 32, 8) if i in (0, 24) or j in (0, 24)]
        assert best >= max((error[i : i + 8, j : j + 8] ** 2).sum() for i, j in others) - 1e-12


def test_curves_carry_the_means_of_the_records(library, drawn):
    results = library.results("anchored-crossres")
    v = results.study.variants[0]
    figure = drawn["transfer"]
    line = next(line for line in figure.axes[0].lines if line.get_label() == "QuadNorm")
    wanted = [np.mean(list(results.of("fno", "QuadNorm", n).values())) for n in v.test]
    assert np.allclose(line.get_ydata(), wanted)
    assert records.means(results, v, "QuadNorm") == pytest.approx(dict(zip(v.test, wanted, strict=True)))


def test_files_do_not_depend_on_the_day(library, tmp_path):
    first = save(draw("slope", library), tmp_path / "a")[0].read_text()
    assert first == save(draw("slope", library), tmp_path / "b")[0].read_text()


def test_methods_keep_their_colour_and_differ_in_marker():
    usual = ["LayerNorm", "QuadNorm", "BlendQuadNorm", "InstanceNorm", "None", "GroupNorm", "RMSNorm"]
    looks = styles(usual)
    assert len({c for c, _ in looks.values()}) == len({m for _, m in looks.values()}) == 7
    assert styles(["QuadNorm", "LayerNorm"])["LayerNorm"] == looks["LayerNorm"]


def test_no_two_methods_of_a_study_look_alike():
    for name in study_names():
        for v in study(name).variants:
            looks = styles([m.label for m in v.methods])
            assert len(set(looks.values())) == len({c for c, _ in looks.values()}) == len(v.methods), name
