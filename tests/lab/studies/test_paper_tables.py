"""The transcription of the paper's tables: counts taken by another route, and facts that tie tables together."""

from importlib.resources import files

import pytest

from quadnorm.lab.studies import paper_labels, paper_table, paper_tables
from quadnorm.lab.studies.paper import PrintedCell

# label: (cells that hold an error, cells with a bold part, numbers printed in the rows), counted in the paper's source.
COUNTS = {
    "extreme-crossres": (28, 5, 56),
    "deep-crossres": (21, 7, 42),
    "multiarch-nonperiodic": (36, 9, 72),
    "real-darcy": (36, 9, 72),
    "key-results-summary": (0, 10, 41),
    "real-benchmark-best-summary": (0, 0, 9),
    "real-benchmark-summary": (0, 10, 80),
    "real-darcy-crossres": (35, 7, 72),
    "transolver-darcy": (15, 3, 31),
    "real-darcy-extreme": (45, 9, 92),
    "error-decomp": (12, 0, 40),
    "transolver-helmholtz": (15, 3, 31),
    "transolver-multires": (20, 4, 41),
    "model-scaling": (0, 0, 21),
    "alpha-matrix": (24, 4, 58),
    "galerkin-2xgap": (16, 4, 32),
    "arch-transfer": (8, 2, 16),
    "bootstrap-cis": (0, 19, 157),
    "helmholtz-galerkin-strong": (15, 4, 31),
    "poisson-dirichlet-galerkin-strong": (15, 3, 31),
    "real-ns-galerkin": (10, 2, 21),
    "quadrature-ablation": (12, 0, 24),
    "learnable-baselines": (15, 3, 31),
    "effect-sizes": (0, 0, 25),
    "high-to-low": (42, 8, 84),
    "tost": (0, 0, 10),
    "galerkin-elasticity": (6, 2, 12),
    "galerkin-varcoeff": (6, 2, 12),
    "galerkin-rxndiff": (6, 2, 12),
    "transolver-varcoeff": (6, 2, 12),
    "transolver-darcy-largescale": (6, 3, 12),
    "transolver-darcy-xl": (6, 3, 12),
    "galerkin-helmholtz-10seed": (9, 3, 18),
    "transolver-helmholtz-largescale": (6, 3, 12),
    "transolver-helmholtz-xl": (6, 3, 12),
    "extended-baselines": (30, 6, 60),
    "consistent-combo": (18, 8, 36),
    "nonperiodic-breadth-summary": (0, 8, 16),
    "bootstrap-cis-breadth": (0, 12, 48),
    "galerkin-helmholtz-4x": (9, 3, 18),
    "galerkin-elasticity-4x": (9, 3, 18),
    "transolver-helmholtz-4x": (9, 3, 18),
    "extreme-gap-summary": (0, 0, 15),
    "galerkin-poisson-10seed": (9, 3, 18),
}


def errors(label, panel=None):
    return {key: cell.value for key, cell in paper_table(label).errors(panel).items()}


def rows(label, panel=0):
    return paper_table(label).panels[panel].rows


def improvement_range(method: PrintedCell, baseline: PrintedCell) -> tuple[float, float]:
    """The percentages that printed means allow: 1 − method/baseline with both anywhere in their rounding."""
    low = 1 - (method.value + method.rounding) / (baseline.value - baseline.rounding)
    high = 1 - (method.value - method.rounding) / (baseline.value + baseline.rounding)
    return 100 * low, 100 * high


def agrees(printed: PrintedCell, method: PrintedCell, baseline: PrintedCell) -> bool:
    low, high = improvement_range(method, baseline)
    return low - printed.rounding - 1e-9 <= printed.value <= high + printed.rounding + 1e-9


def test_there_is_one_file_per_table_and_no_other():
    stored = {
        f.name.removesuffix(".toml")
        for f in files("quadnorm.lab.studies").joinpath("paper_tables").iterdir()
        if f.name.endswith("toml")
    }
    assert stored == set(COUNTS) == {label.removeprefix("tab:") for label in paper_labels()}


@pytest.mark.parametrize("label", COUNTS)
def test_counts_of_cells(label):
    table = paper_table(label)
    cells = [cell for panel in table.panels for row in panel.rows for cell in row]
    counted = (
        sum(len(panel.errors()) for panel in table.panels),
        sum(cell.bold for cell in cells),
        sum(len(cell.numbers) for cell in cells),
    )
    assert counted == COUNTS[label]
    assert table.label == f"tab:{label}"


@pytest.mark.parametrize("label", COUNTS)
def test_a_spread_is_printed_exactly_where_the_file_says_so(label):
    table = paper_table(label)
    spreads = [c.spread for p in table.panels for row in p.rows for c in row if c.spread is not None]
    assert bool(spreads) == (table.spread is not None)
    assert table.spread in (None, "ci95", "std")
    for panel in table.panels:
        for cell in panel.errors().values():
            assert cell.spread is not None
            assert 0 < cell.spread < cell.value


@pytest.mark.parametrize("label", [label for label in COUNTS if paper_table(label).bold == "best"])
def test_bold_marks_the_smallest_error(label):
    table = paper_table(label)
    for panel in table.panels:
        for n in panel.resolutions:
            column = [cell for (_, at), cell in panel.errors().items() if at == n]
            bold = [cell.value for cell in column if cell.bold]
            assert bold
            assert set(bold) == {min(cell.value for cell in column)}


# --- one table against another ---------------------------------------------------------------------------------------


def test_standard_deviations_and_intervals_of_the_same_runs_agree():
    """Five seeds: interval = 2.776·s/√5 with ddof 1; the other table has ddof 0, smaller by √(4/5)."""
    std = paper_table("galerkin-2xgap").errors("Darcy Benchmark")
    ci = paper_table("real-darcy-crossres").errors("Galerkin")
    for key, cell in std.items():
        assert cell.value == ci[key].value
        expected = ci[key].spread * 5**0.5 / 2.776445 * 0.8**0.5
        assert cell.spread == pytest.approx(expected, abs=0.005 + 0.005 * 0.72)


def test_error_decomposition_shares_its_runs_and_adds_up():
    decomposition, combo = errors("error-decomp"), errors("consistent-combo")
    for method in ("LayerNorm", "QuadNorm", "BlendQuadNorm"):
        for n in (64, 128, 256):
            assert decomposition[method, n] == combo[f"FNO + {method}", n]
    none = {n: decomposition["No Norm", n] - decomposition["No Norm", 64] for n in (128, 256)}
    method = ""
    for row in rows("error-decomp"):
        method = row[0].text or method
        n = int(row[1].text.rstrip("²"))
        points = decomposition[method, n] - decomposition[method, 64]
        assert row[4].value == pytest.approx(points, abs=0.0101)
        assert row[5].value == pytest.approx(points / none[n], abs=0.01)


def test_bootstrap_improvements_follow_from_the_means_beside_them():
    for panel in paper_table("bootstrap-cis").panels:
        for row in panel.rows:
            baseline, method = row[4].numbers
            low, high = row[6].interval
            assert row[5].value == pytest.approx(100 * (1 - method / baseline), abs=0.06)
            assert low < row[5].value < high
            assert row[5].bold == (low > 0)


def test_bootstrap_means_are_those_of_the_tables():
    means = {tuple(row[4].numbers) for panel in paper_table("bootstrap-cis").panels for row in panel.rows}
    extreme, darcy = errors("extreme-crossres"), errors("real-darcy-extreme", "FNO")
    for table, n in ((extreme, 256), (extreme, 128), (darcy, 421), (darcy, 256)):
        printed = (table["LayerNorm", n], table["QuadNorm", n])
        assert any(all(abs(a - b) < 0.0051 for a, b in zip(m, printed, strict=True)) for m in means)


def test_benchmark_summary_repeats_two_tables_and_its_deltas_follow():
    sources = {"Darcy Benchmark": "real-darcy-crossres", "Extreme": "real-darcy-extreme"}
    for row in rows("real-benchmark-summary"):
        panel = "FNO" if row[1].text == "FNO" else "Galerkin"
        source = paper_table(sources[row[0].text]).errors(panel)
        n = int(row[2].text.split("→")[1].strip(" ²"))
        layer, blend, quad = (source[m, n] for m in ("LayerNorm", "BlendQuadNorm", "QuadNorm"))
        assert (row[3].text, row[4].text, row[6].text) == (layer.text, blend.text, quad.text)
        assert agrees(row[5], blend, layer)
        assert agrees(row[7], quad, layer)


def test_best_summary_is_the_larger_improvement():
    for row in rows("real-benchmark-best-summary"):
        e = paper_table("real-darcy").errors(row[0].text)
        for printed, n in zip(row[1:], (64, 128, 256), strict=True):
            best = min((e["QuadNorm", n], e["BlendQuadNorm", n]), key=lambda cell: cell.value)
            assert agrees(printed, best, e["LayerNorm", n])


def test_gap_and_breadth_summaries_follow():
    names = {
        ("Galerkin", "Helmholtz"): "galerkin-helmholtz-4x",
        ("Galerkin", "Elasticity"): "galerkin-elasticity-4x",
        ("Transolver", "Helmholtz"): "transolver-helmholtz-4x",
    }
    for row in rows("extreme-gap-summary"):
        e = paper_table(names[row[0].text, row[1].text]).errors()
        assert [c.value for c in row[2:5]] == [e["LayerNorm", n].value for n in (64, 128, 256)]
        method = row[5].text.partition(", ")[2]
        assert row[5].value == e[method, 256].value
        assert agrees(row[6], e[method, 256], e["LayerNorm", 256])
    short = {"Elasticity": "elasticity", "Variable-coefficient diffusion": "varcoeff", "Reaction-diffusion": "rxndiff"}
    for row in rows("nonperiodic-breadth-summary"):
        e = paper_table(f"{row[0].text.lower()}-{short[row[1].text]}").errors()
        assert [row[2].value, row[3].value, row[4].value] == [
            e["LayerNorm", 64].value,
            e["LayerNorm", 128].value,
            e["QuadNorm", 128].value,
        ]
        assert agrees(row[5], e["QuadNorm", 128], e["LayerNorm", 128])


def test_four_breadth_improvements_contradict_their_means_as_the_note_says():
    short = {"Elasticity": "elasticity", "Variable-coefficient diffusion": "varcoeff", "Reaction-diffusion": "rxndiff"}
    odd = []
    for row in rows("bootstrap-cis-breadth"):
        e = paper_table(f"{row[0].text.lower()}-{short[row[1].text]}").errors()
        n = int(row[3].text.split("→")[1].strip(" ²"))
        assert row[4].bold == (row[5].interval[0] > 0)
        if not agrees(row[4], e[row[2].text, n], e["LayerNorm", n]):
            odd.append(row[4].value)
    assert odd == [19.4, 11.0, 7.6, 8.0]
    assert any("19.4, 11.0 and 7.6" in note for note in paper_table("bootstrap-cis-breadth").notes)


def test_model_scaling_follows_from_its_three_tables():
    tables = ("transolver-darcy", "transolver-darcy-largescale", "transolver-darcy-xl")
    for row, label in zip(rows("model-scaling"), tables, strict=True):
        e = paper_table(label).errors()
        assert row[2].value == e["LayerNorm", 256].value
        assert agrees(row[3], e["QuadNorm", 256], e["LayerNorm", 256])
        low, high = row[3].interval
        assert low < row[3].value < high


def test_tost_rows_are_one_another():
    value = {row[0].text: row[1] for row in rows("tost")}
    assert value["Mean difference"].value == pytest.approx(
        value["BlendQuadNorm mean"].value - value["LayerNorm mean"].value, abs=1e-9
    )
    low, high = value["90% CI of difference"].interval
    assert (low + high) / 2 == pytest.approx(value["Mean difference"].value, abs=1e-4)


def test_the_fixed_blend_of_two_tables_is_one_row():
    one, other = paper_table("learnable-baselines").errors(), paper_table("extended-baselines").errors()
    for n in (64, 128, 256):
        assert one["BlendQuadNorm, fixed α = 0.3", n].text == other["BlendQuadNorm", n].text


# --- cells and errors ------------------------------------------------------------------------------------------------


def test_a_cell_reads_what_is_printed():
    assert PrintedCell.parse("**7.10 ± 0.23**") == PrintedCell("7.10 ± 0.23", bold=True)
    assert (
        PrintedCell("7.10 ± 0.23").value,
        PrintedCell("7.10 ± 0.23").spread,
        PrintedCell("7.10 ± 0.23").rounding,
    ) == (7.10, 0.23, 0.005)
    assert PrintedCell("[-0.5%, 2.3%]").interval == (-0.5, 2.3)
    assert PrintedCell("[-0.0011, 0.0059]%").interval == (-0.0011, 0.0059)
    assert PrintedCell("32² → 256², 8× gap").numbers == (8.0,)
    assert PrintedCell("+47").value == 47
    assert PrintedCell("<0.001").value == 0.001
    assert (PrintedCell("Yes").value, PrintedCell("Yes").numbers, PrintedCell("").value) == (None, (), None)
    with pytest.raises(ValueError, match="no number"):
        _ = PrintedCell("Yes").rounding


def test_unknown_names_are_answered():
    with pytest.raises(ValueError, match="did you mean 'extreme-crossres'"):
        paper_table("tab:extreme-crosres")
    with pytest.raises(ValueError, match="symbols"):
        paper_table("tab:notation")
    with pytest.raises(ValueError, match=r"no panel 'fno'.*'FNO'"):
        paper_table("real-darcy").panel("fno")
    with pytest.raises(ValueError, match="name one of 'FNO'"):
        paper_table("real-darcy").errors()
    with pytest.raises(ValueError, match="no column 'p-value'"):
        paper_table("tost").panels[0].column("p-value")
    assert paper_table("tost").panels[0].column("Value")[0].text == "2.0944%"


def test_labels_come_with_or_without_their_prefix():
    assert paper_table("tab:tost") == paper_table("tost")
    assert [t.label for t in paper_tables()] == list(paper_labels())
