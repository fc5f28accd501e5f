"""The paper's claims: every figure is the paper's own, every claim is judged, and refers to what exists."""

import re
from dataclasses import replace

import pytest

from quadnorm.lab.analysis.claims.evidence import Setting
from quadnorm.lab.analysis.claims.judging import CLAIMS, CONTRADICTIONS, FIELD, REASONS, find, judge_all
from quadnorm.lab.analysis.claims.rules import RULES, cell_value
from quadnorm.lab.analysis.claims.verdicts import NOT_RUN
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.analysis.statistics.summaries import fit_power
from quadnorm.lab.studies import paper_labels, paper_table, study
from quadnorm.lab.studies.records import task_of
from tests.lab.analysis.synthetic_records import write_records

NOTHING = Library([])
WITHOUT_RECORDS = {"bias on uneven meshes"}  # closed forms


def claim_named(name):
    return next(c for c in CLAIMS if c.name == name)


def own_rows(library, study, variant, _):
    return Setting(library, study, variant)


def figures_of(claim):
    """Every number that a claim may use: what its cases compute from the cells, and the cells of its tables."""
    texts = [find(case, NOTHING, own_rows).claimed for case in claim.cases]
    cells = [
        float(n)
        for t in claim.tables
        if t.startswith("tab:")
        for panel in paper_table(t).panels
        for row in panel.rows
        for cell in row
        for n in cell.numbers
    ]
    return [float(n) for text in texts for n in re.findall(r"\d+(?:\.\d+)?", text)] + cells + [c / 1000 for c in cells]


def unsupported(claim):
    """The numbers in a claim's text that its cases and tables do not have, at the precision that the text gives."""
    text = re.sub(r"\d+²|\d+-fold|\d+ layers", "", claim.text)
    allowed = figures_of(claim)
    wrong = []
    for number in re.findall(r"\d+(?:\.\d+)?", text):
        half = 0.5 * 10.0 ** -len(number.partition(".")[2]) + 1e-9
        if not any(abs(float(number) - a) <= half for a in allowed):
            wrong.append(number)
    return wrong


@pytest.mark.parametrize("claim", [c for c in CLAIMS if not c.ours], ids=lambda c: c.name)
def test_every_figure_in_a_claim_is_the_papers(claim):
    assert unsupported(claim) == []


def test_a_wrong_figure_is_noticed():
    claim = claim_named("elasticity and Poisson from a coarse grid")
    assert unsupported(replace(claim, text=claim.text.replace("22 %", "23 %"))) == ["23"]
    claim = claim_named("native price")
    assert unsupported(replace(claim, text=claim.text.replace("4.35", "4.53"))) == ["4.53"]


def test_no_size_is_typed_in_where_the_paper_prints_it():
    """Sizes are computed from cells; what is stated or ours is so because no cell has it."""
    given = {
        (claim.name, case.rule, key)
        for claim in CLAIMS if not claim.ours
        for case in claim.cases
        for key in ("stated", "ours", "claimed") if key in case.options
    }  # fmt: skip
    assert given == {
        ("power of the ratio", "power_law", "stated"),
        ("seed variance", "wins_most_seeds", "stated"),
        ("learned blend", "learned_alpha", "stated"),
        ("bias on uneven meshes", "bias_factor", "stated"),
        ("periodic FNO fails", "better", "ours"),
    }
    assert "size is ours" in find(claim_named("periodic FNO fails").cases[0], NOTHING, own_rows).claimed


def test_cells_are_found_by_row_and_column():
    assert cell_value("tab:effect-sizes", "Deep", "BlendQuadNorm d") == 0.30
    assert cell_value("tab:bootstrap-cis", "Cross-fidelity foundation", "Improvement") == 13.3
    with pytest.raises(ValueError, match="no row that begins with 'Shallow'"):
        cell_value("tab:effect-sizes", "Shallow", "QuadNorm d")


def test_orders_that_are_claimed_are_those_of_the_cells():
    """Best of all rows, least degradation, growing gains, the power of the ratio: true of the printed means."""
    for claim in CLAIMS:
        for case in claim.cases:
            o = case.options
            settings = [Setting(NOTHING, s, v) for s, v in case.settings]
            if case.rule == "best":
                cells = settings[0].full.printed()
                for n in o["grids"]:
                    at = {row: c.value for (row, grid), c in cells.items() if grid == n}
                    assert min(at, key=at.get) == o.get("method", "QuadNorm"), claim.name
            elif case.rule == "degrades_least":
                s = settings[0]
                rises = {r: s.value(r, o["far"]) - s.value(r, o["native"]) for r in {r for r, _ in s.full.printed()}}
                assert min(rises, key=rises.get) == o["method"], claim.name
            elif case.rule == "grows":
                gains = [1 - s.value("QuadNorm", n) / s.value("LayerNorm", n) for s in settings for n in o["grids"]]
                assert gains == sorted(gains), claim.name
            elif case.rule == "power_law":
                s = settings[0]
                rises = [s.value(o["method"], n) - s.value(o["method"], o["native"]) for n in o["grids"]]
                power = fit_power([n / o["native"] for n in o["grids"]], rises).exponent
                assert abs(power - o["stated"]) <= o["width"], claim.name


def test_the_claims_that_were_missing_are_there():
    found = {case.rule + " " + find(case, NOTHING, own_rows).claimed for c in CLAIMS for case in c.cases}
    for wanted in (
        "better QuadNorm 9.74 % below LayerNorm at 64²",  # Navier–Stokes, 3.52 against 3.90
        "better QuadNorm 9.82 % below LayerNorm at 64²",  # the large Transolver on Helmholtz, 8.45 → 7.62
        "better LayerNorm 31.5 % below ResConditioned at 256²",
        "better LayerNorm 1.29 % below LearnableQuad at 256²",
        "better LayerNorm 22.1 % below QuadNorm at 64²",  # Galerkin on Helmholtz
        "alike BlendQuadNorm +0.3 % from LayerNorm at 256²: within ±5 % (margin ours)",
        "effect_size QuadNorm against LayerNorm at 32²: d = 13.99, large",
        "effect_size BlendQuadNorm against LayerNorm at 256²: d = 0.86, large",
        "best BlendQuadNorm best at 32²",  # cavity
        "better QuadNorm 2.01 % below BlendQuadNorm at 32²",  # Poisson, 8.77 < 8.95
    ):
        assert wanted in found
    assert any(w.startswith("alike BlendQuadNorm +0.7 % from LayerNorm at 128²") for w in found)  # 2×, FNO


def test_without_records_everything_is_not_run_and_says_how_to_run_it(tmp_path):
    judged = judge_all(Library([tmp_path]))
    assert {j.claim.name for j in judged if j.verdict != NOT_RUN} == WITHOUT_RECORDS
    for j in judged:
        for f in j.findings:
            assert f.claimed
            assert f.kind
            if j.verdict == NOT_RUN:
                assert f.command.startswith("quadnorm study run ")
                study(f.command.split()[3])


def test_smoke_runs_support_nothing(tmp_path):
    write_records(study("extreme-crossres").at("smoke"), tmp_path, test=1)
    assert {j.claim.name for j in judge_all(Library([tmp_path])) if j.verdict != NOT_RUN} == WITHOUT_RECORDS


def test_the_ledger_refers_to_what_exists():
    known = set(paper_labels())
    for claim in CLAIMS:
        assert set(claim.remarks) <= set(CONTRADICTIONS)
        assert {t for t in claim.tables if t.startswith("tab:")} <= known
        assert claim.ours == (not claim.tables)
        for case in claim.cases:
            assert case.rule in RULES
            for name, variant in case.settings:
                study(name).variant(variant)
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    assert set(REASONS) <= {claim.name for claim in CLAIMS}


def test_the_fields_claims_refer_to_what_exists():
    """And the numbers in each text are grids, or sizes that its cases have."""
    for claim in FIELD:
        assert claim.ours != bool(claim.source)
        for case in claim.cases:
            assert case.rule in RULES
            assert "*" not in case.options["text"]
            if case.rule == "unrelated":
                continue
            evaluations = [{e.name for e in study(name).evaluations} for name, _ in case.settings]
            assert case.options["way"] in evaluations[0]
            assert case.options.get("other", case.options["way"]) in evaluations[-1]
            for name, variant in case.settings:
                assert case.options["method"] in {m.label for m in study(name).variant(variant).methods}
        shares = re.findall(r"(\d+) %", claim.text)
        assert {float(s) for s in shares} <= {case.options["ours"] for case in claim.cases}
    assert len({claim.name for claim in CLAIMS + FIELD}) == len(CLAIMS) + len(FIELD)


def test_claims_that_share_models_say_so(tmp_path):
    write_records(study("extreme-crossres").at("desk"), tmp_path, test=1)
    judged = {j.claim.name: j for j in judge_all(Library([tmp_path]))}
    first = judged["extreme gap"]
    assert len(first.models) == 6
    sharing = [k for k in judged.values() if k is not first and not k.claim.ours and k.models & first.models]
    assert first.shared == len(sharing) >= 5


def test_one_setting_has_the_printed_errors_that_the_remark_names():
    """The same run of the catalog, under the labels of several tables of the paper."""
    statement = CONTRADICTIONS["numbers differ"]
    for names, problem, grid, wanted in (
        (("galerkin-poisson-10seed", "galerkin-2xgap", "alpha-matrix"), "poisson", 64, "6.10, 11.04 and 24.26 %"),
        (("transolver-helmholtz", "alpha-matrix", "transolver-helmholtz-4x"), "helmholtz", 128, "14.02, 8.32 and 6.39"),
    ):
        printed, keys = [], set()
        for name in names:
            s = study(name)
            (run,) = [
                r for r in s.runs()
                if r.variant.problem == problem and r.method.label == "LayerNorm" and r.seed == s.seeds[0]
            ]  # fmt: skip
            keys.add(task_of(run, s.evaluations).key)
            printed.append(f"{run.variant.printed()['LayerNorm', grid].value:.2f}")
        assert len(keys) == 1
        assert f"{printed[0]}, {printed[1]} and {printed[2]}" in wanted
        assert " ".join(wanted.split()) in statement


def test_interior_data_and_the_listings_weights():
    """The mean of sin πx is 2/π; nodes (j+1)/(n+1), n = 16: counting, the listing's trapezoid, and the grid's own."""
    import numpy as np

    from quadnorm import Grid

    n, exact = 16, 2 / np.pi
    f = np.sin(np.pi * (np.arange(n) + 1) / (n + 1))
    trapezoid = np.ones(n)
    trapezoid[[0, -1]] = 0.5
    own = Grid("interior").weights((n,)).numpy()
    errors = [100 * (w @ f / w.sum() / exact - 1) for w in (np.ones(n), trapezoid, own)]
    text = CONTRADICTIONS["interior data"]
    for error in errors:
        assert f"{error:+.1f} %" in text
