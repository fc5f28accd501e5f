"""An audit as text, a frame, a figure and a page."""

import json
import xml.etree.ElementTree as ET
from collections import OrderedDict

import pytest
import torch
from torch import nn

import quadnorm as qn
from quadnorm.adapt import audit
from quadnorm.testing import grid_drift
from tests.adapt.auditing.networks import network
from tests.adapt.fields import smooth


def test_table_frame_figure_and_page(tmp_path):
    result = audit(network(nn.GroupNorm(1, 4)), lambda n: (smooth(n), smooth(n)), [9, 17, 33], placement="endpoint")
    text = str(result)
    assert "GroupNorm" in text
    assert "recommended: " in text
    assert "error against the targets" in text
    frame = result.to_frame()
    assert list(frame["name"]) == ["", "0", "1", "2"]
    assert [a.get_title() for a in result.figure().axes] == [
        "discrepancy of the output",
        "by module",
        "error against the targets",
    ]
    assert (
        len(audit(network(nn.GroupNorm(1, 4)), smooth, [9, 17], placement="endpoint").figure().axes) == 2
    )  # no targets, no errors
    only_native = audit(
        network(nn.Conv2d(4, 4, 3, padding=1)), lambda n: (smooth(n), smooth(n)), [9, 17], placement="endpoint"
    )
    assert len(only_native.figure().axes) == 3  # nothing to anchor: two ways instead of four
    assert "introduced: what the module itself does" in text
    assert result.rows[0].cause == "that of its parts"
    page = result.html(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text(encoding="utf-8") == page
    assert page.count("data:image/png;base64,") == 1
    assert "http" not in page
    assert "<pre>" not in page
    assert page.index("recommended: ") < page.index("<table")
    assert "NaN" not in page[page.index("<h2>") :]  # the picture before it is base64, which may spell anything


NASTY = ["<img src=x onerror='window hurt=1'>", "$^$", "\x1b[31mred\x07", "[red]", "</table><script>hurt()</script>"]


def test_names_of_modules_are_text_on_the_page():
    """Markup, a formula that matplotlib cannot read, codes for a terminal."""
    model = nn.Sequential(OrderedDict((name, network(nn.GroupNorm(1, 4))) for name in NASTY))
    result = audit(model, smooth, [9, 17])
    assert {r.name for r in result.leaks} >= {f"{name}.1" for name in NASTY[:2]}
    page = result.html()
    assert "<script" not in page
    assert page.count("<img") == 1  # our own
    assert page.count("&lt;img src=x onerror=") >= 2  # in both tables


def test_an_audit_names_the_placement():
    model = nn.Sequential(nn.Conv2d(1, 8, 1), nn.GroupNorm(1, 8), nn.GELU(), nn.Conv2d(8, 1, 1))

    def cells(n):
        r = (torch.arange(n) + 0.5) / n
        return (torch.sin(3 * r)[:, None] * r.exp())[None, None]

    assert "(model, 8, placement='cell', data=(x, y))" in str(qn.audit(model, cells, [8, 24], placement="cell"))


class Counts(nn.Module):
    """1 + 1/n everywhere."""

    def forward(self, x):
        return torch.ones_like(x) + 1 / x.shape[-1]


def test_the_number_is_the_drift_of_a_doubling():
    """From 9 to 17 nodes 1 + 1/n moves by 1/9 − 1/17, and so says the helper for tests; farther grids do not count."""
    number = audit(Counts(), smooth, [9, 65, 17, 33], placement="endpoint").number
    assert number.drift == pytest.approx((1 / 9 - 1 / 17) / (10 / 9), rel=1e-9)
    assert (number.grids, number.degradation) == (("9", "17"), None)
    probe = grid_drift(Counts(), (9, 9), "endpoint", example=torch.zeros(1, 1, 9, 9))
    assert probe == pytest.approx(number.drift, rel=1e-5)
    coarser = audit(Counts(), smooth, [33, 9, 17], placement="endpoint").number
    assert coarser.grids == ("33", "17")
    assert coarser.drift == pytest.approx((1 / 17 - 1 / 33) / (34 / 33), rel=1e-9)


def test_with_targets_the_number_is_a_factor_per_doubling():
    """Errors 1/8 at spacing 1/8 and 4/8 at 1/128, four doublings: a factor of √2 each."""

    class Errs(nn.Module):
        def forward(self, x):
            return x * (1 + (1 / 8 if x.shape[-1] == 9 else 4 / 8))

    number = audit(Errs(), lambda n: (smooth(n), smooth(n)), [9, 129], placement="endpoint", interventions=False).number
    assert number.degradation == pytest.approx(2**0.5, rel=1e-9)
    assert "multiplied by 1.41 per doubling" in str(number)


def test_the_badge_shows_the_number(tmp_path):
    result = audit(Counts(), smooth, [9, 17], placement="endpoint")
    svg = ET.fromstring(result.badge(tmp_path / "badge.svg"))
    texts = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["grid drift", "4.7 %"]
    assert ET.fromstring((tmp_path / "badge.svg").read_text(encoding="utf-8")).get("height") == "20"
    colours = [audit(m, smooth, [9, 17], placement="endpoint").badge().count("#2e7d32") for m in (Counts(), nn.Tanh())]
    assert colours == [0, 1]  # green is for a drift of 1 % at most


def test_the_audit_as_json_is_complete():
    result = audit(network(nn.GroupNorm(1, 4)), lambda n: (smooth(n), smooth(n)), [9, 17], placement="endpoint")
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["number"]["drift"] == result.totals["as trained"][1]
    assert plain["number"]["degradation"] == result.errors["as trained"][1] / result.errors["as trained"][0]
    assert [m["name"] for m in plain["modules"]] == ["(model)", "0", "1", "2"]
    assert plain["recommendation"] == result.recommendation
