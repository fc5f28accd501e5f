"""How often chance alone is called a result, and how often a result of the printed size is found.

Simulated records of three seeds, as many as the desk preset has, go through the choice of a reading and through every
rule of the ledger. Where a claim says that two things are equal, pure noise fulfils it: there the null is a difference
at the very edge of what counts as equal.
"""

from math import sqrt

import numpy as np
import pytest

from quadnorm.lab.analysis.claims import gains, rules
from quadnorm.lab.analysis.claims.gains import ABOUT
from quadnorm.lab.analysis.claims.judging import CLAIMS, FIELD, find, fitted
from quadnorm.lab.analysis.claims.likeness import MARGIN
from quadnorm.lab.analysis.claims.rules import RULES
from quadnorm.lab.analysis.claims.verdicts import REPRODUCED
from quadnorm.lab.studies.paper import paper_table
from tests.lab.analysis.claims.simulated import Simulated
from tests.lab.analysis.printed import std_from_interval

CASES = {
    rule: [(claim, case) for claim in CLAIMS + FIELD for case in claim.cases if case.rule == rule] for rule in RULES
}
SPREAD = 0.03  # of an error over seeds


def level(variant):
    """LayerNorm's printed error at the training grid, so that every model has learned its problem."""
    cell = variant.printed().get(("LayerNorm", variant.test[0]))
    return cell.value if cell else 5.0


def nothing(name, variant, method, way, grid, z):
    """No norm, grid or way makes a difference."""
    return level(variant) * (1 + SPREAD * z)


def at_the_edge(case):
    """A law in which the claim is false, and only just."""
    o = case.options

    def law(name, variant, method, way, grid, z):
        base = level(variant)
        of_method = method.label.startswith(o.get("method", "QuadNorm"))
        far = grid == o.get("far", grid) and grid != variant.test[0]
        if case.rule == "like_none":
            cells = {m: variant.printed()[m, o["far"]].value - variant.printed()[m, o["native"]].value
                     for m in (o["method"], "None")}  # fmt: skip
            edge = cells[o["method"]] / cells["None"] + ABOUT
            return base * (1 + 0.05 * SPREAD * z + (far * 0.8 * (edge if of_method else 1.0)))
        if case.rule == "stays":
            cells = [variant.printed()[o["method"], n].value for n in (o["far"], o["native"])]
            return base * (1 + SPREAD * z) * (1 + 2 * (cells[0] / cells[1] - 1) * far)
        if case.rule == "keeps":
            return base * (1 + SPREAD * z) * (1 + o["ours"] / 100 * far)
        if case.rule == "power_law":
            rise = (grid / o["native"]) ** (o["stated"] + o["width"]) if grid != o["native"] else 0.0
            return base * (1 + SPREAD * z / 10) + rise * (1 + 0.1 * z)
        if case.rule == "effect_size":
            return base * (1 + SPREAD * z) - (0.8 * SPREAD * base if of_method else 0.0)
        if case.rule == "equivalent":
            return base + 0.2 * z + (0.5 if of_method else 0.0)
        if case.rule == "used_alike":
            return base + 0.2 * z + (o["ours"] if way == o["way"] else 0.0)
        if case.rule == "alike":
            return base * (1 + SPREAD * z) * (1 - MARGIN / 100 if of_method else 1.0)
        if case.rule == "fails":
            return 0.9 * variant.printed()[method.label, grid].value * (1 + SPREAD * z) if of_method else base
        return nothing(name, variant, method, way, grid, z)

    return law


EDGES = ("like_none", "stays", "keeps", "power_law", "effect_size", "equivalent", "used_alike", "alike", "fails")
NO_CHANCE = ("bias_factor", "unrelated")  # a closed form; over kinds of models, not seeds: see test_verdicts


def false_findings(rule, draws, seed):
    """The share of draws in which a false claim is called reproduced; over all cases of the rule, in turn."""
    rng = np.random.default_rng(seed)
    found = 0
    for k in range(draws):
        _, case = CASES[rule][k % len(CASES[rule])]
        law = at_the_edge(case) if rule in EDGES else nothing
        # α ends at the edge of its range, begun outside it.
        library = Simulated(law, rng, share=0.0 if rule == "effect_size" else 0.5, alpha=lambda z: 0.4 + 0.02 * z)
        found += find(case, library, fitted).verdict == REPRODUCED
    return found / draws


def bound(draws):
    """5 %, and what chance adds to it in 99.9 % of all simulations."""
    return 0.05 + 3.1 * sqrt(0.05 * 0.95 / draws)


def test_the_simulation_goes_through_every_rule():
    assert all(CASES[rule] for rule in RULES)
    assert {*EDGES, *NO_CHANCE} <= set(RULES)


@pytest.mark.parametrize("rule", [r for r in RULES if r not in NO_CHANCE])
def test_chance_is_seldom_called_a_result(rule):
    assert false_findings(rule, 120, seed=1) <= bound(120)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [r for r in RULES if r not in NO_CHANCE])
def test_chance_is_seldom_called_a_result_in_two_thousand_draws(rule):
    assert false_findings(rule, 2000, seed=2) <= bound(2000)


def test_the_simulation_would_notice_a_bootstrap(monkeypatch):
    """The percentile bootstrap of three seeds calls chance a result one time in eight."""
    from quadnorm.lab.analysis.statistics.intervals import Estimate
    from quadnorm.lab.analysis.statistics.paired import bootstrap_improvement

    def bootstrap(method, baseline, level=0.95):
        i = bootstrap_improvement(method, baseline, resamples=200)
        return Estimate(1 - i.value, 1 - i.high, 1 - i.low, i.n)

    monkeypatch.setattr(gains, "ratio_estimate", bootstrap)
    monkeypatch.setattr(rules, "effect_verdict", lambda e, claimed: REPRODUCED if e.low > 0 else "partly")
    assert false_findings("better", 200, seed=3) > bound(200)


def printed_law(name, variant, method, way, grid, z):
    """Means and spreads as printed, rows of ours like the row that they read; LayerNorm's where nothing is printed."""
    cell = variant.printed().get((method.reads or method.label, grid))
    if cell is None:
        return nothing(name, variant, method, way, grid, z)
    table = paper_table(variant.label)
    sigma = cell.spread if table.spread == "std" else std_from_interval(cell.spread, table.seeds)
    return cell.value + sigma * z


def found(claim, draws, seeds):
    """The smallest share of draws in which a case of the claim is found, over its cases."""
    rng = np.random.default_rng(4)
    libraries = [Simulated(printed_law, rng, seeds) for _ in range(draws)]
    return min(np.mean([find(case, lib, fitted).verdict == REPRODUCED for lib in libraries]) for case in claim.cases)


# What the printed means and spreads themselves decide at the paper's number of seeds. The other claims they do not (a
# printed difference within the printed intervals), or no spread is printed.
DECIDED = (
    "extreme gap", "thirteen-fold gap", "best at every target", "gain grows with the gap", "constant ratio", "depth",
    "native price", "blend transfers a little better", "fine to coarse", "extreme gap, attention",
    "released files, moderate gap", "effect sizes", "blend is the safer choice in an FNO", "long training",
    "nearly invariant Transolver", "gain grows with model size", "multi-resolution training",
    "native parity on the released files", "Transolver on the released files", "architecture transfer",
    "native gain on Poisson", "native gain on diffusion", "cavity flow", "Helmholtz, QuadNorm is worse",
    "moderate gap in attention", "LayerNorm degrades like no norm", "overcompensation",
    "blend degrades almost like no norm", "rule does not matter", "spectral norms fail", "consistent kernel adds to it",
)  # fmt: skip
# … and at three seeds too.
DECIDED_BY_THREE = (
    "extreme gap", "thirteen-fold gap", "native price", "fine to coarse", "constant ratio",
    "Transolver on the released files", "spectral norms fail",
)  # fmt: skip


@pytest.mark.parametrize("name", DECIDED)
def test_effects_of_the_printed_size_and_spread_are_found(name):
    claim = next(c for c in CLAIMS if c.name == name)
    assert found(claim, 5, None) >= 0.8


@pytest.mark.parametrize("name", DECIDED_BY_THREE)
def test_strong_effects_are_found_with_three_seeds(name):
    claim = next(c for c in CLAIMS if c.name == name)
    assert found(claim, 10, 3) >= 0.8
