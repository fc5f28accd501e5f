"""An audit as text, a frame, a figure and a page."""

import torch
from torch import nn

import quadnorm as qn
from quadnorm.adapt import audit
from tests.adapt.auditing.networks import network
from tests.adapt.fields import smooth


def test_table_frame_figure_and_page(tmp_path):
    result = audit(network(nn.GroupNorm(1, 4)), lambda n: (smooth(n), smooth(n)), [9, 17, 33])
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
    assert len(audit(network(nn.GroupNorm(1, 4)), smooth, [9, 17]).figure().axes) == 2  # no targets, no errors
    only_native = audit(network(nn.Conv2d(4, 4, 3, padding=1)), lambda n: (smooth(n), smooth(n)), [9, 17])
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


def test_an_audit_names_the_placement():
    model = nn.Sequential(nn.Conv2d(1, 8, 1), nn.GroupNorm(1, 8), nn.GELU(), nn.Conv2d(8, 1, 1))

    def cells(n):
        r = (torch.arange(n) + 0.5) / n
        return (torch.sin(3 * r)[:, None] * r.exp())[None, None]

    assert "(model, 8, placement='cell', data=(x, y))" in str(qn.audit(model, cells, [8, 24], placement="cell"))
