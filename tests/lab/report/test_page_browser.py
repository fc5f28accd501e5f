"""The page as a person gets it: in headless Chromium, light and dark, wide and narrow."""

import pytest

from quadnorm.lab.report import build_report
from quadnorm.lab.studies import study
from tests.lab.analysis.synthetic_records import write_records
from tests.lab.report.headless_browser import Browser, find_chromium

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)")
STUDIES = ("demo", "extreme-crossres", "anchored-crossres", "real-darcy", "error-decomp")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("records")
    for name in STUDIES:
        # One study without any difference, so that not every claim fares well.
        write_records(study(name).at("desk"), root, (lambda run, e, n: 5.0) if name == "error-decomp" else None)
    return build_report(root, root / "report.html")


@pytest.fixture(scope="module")
def browser():
    made = Browser(CHROMIUM)
    yield made
    made.close()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 390])
def test_opens_without_complaint_and_asks_no_one(browser, page, tmp_path, width, dark):
    browser.open(page, width, dark)
    assert browser.complaints() == []
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.run("document.documentElement.scrollWidth") == width  # nothing sticks out sideways
    light = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, b) => a + +b, 0)")
    assert (light < 200) == dark
    # What is read is not smaller than 11 px, and text stands out from what it stands on.
    sizes = "[...document.querySelectorAll('p, td, th, li')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    assert min(browser.run(sizes)) > 11
    assert contrast(browser, "body", "body") > 7
    assert contrast(browser, "td small", "body") > 3
    browser.screenshot(tmp_path / "page.png", whole=False)
    assert (tmp_path / "page.png").stat().st_size > 10_000


def contrast(browser, text, ground):
    """The WCAG contrast ratio of two elements' colours."""
    script = """
    (() => {
      const lum = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
        .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
      const a = lum(getComputedStyle(document.querySelector(%r)).color);
      const b = lum(getComputedStyle(document.querySelector(%r)).backgroundColor);
      return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    })()
    """
    return browser.run(script % (text, ground))


COLUMN = "[...document.querySelector('#extreme-crossres table').tBodies[0].rows].map(r => r.cells[%d].dataset.key)"
CLICK = "document.querySelector('#extreme-crossres table').tHead.rows[0].cells[%d].querySelector('button').click()"


def test_tables_sort_by_number_and_by_name_both_ways(browser, page):
    browser.open(page)
    before = browser.run(COLUMN % 4)
    browser.run(CLICK % 4)
    values = [float(v) for v in browser.run(COLUMN % 4)]
    assert values == sorted(values)
    assert sorted(before) == sorted(browser.run(COLUMN % 4))
    browser.run(CLICK % 4)
    assert [float(v) for v in browser.run(COLUMN % 4)] == sorted(values, reverse=True)
    browser.run(CLICK % 0)
    names = browser.run(COLUMN % 0)
    assert names == sorted(names, key=str.lower)
    head = "document.querySelector('#extreme-crossres table').tHead.rows[0].cells[0].getAttribute('aria-sort')"
    assert browser.run(head) == "ascending"
    assert browser.complaints() == []


def test_cells_without_a_value_stay_last(browser, tmp_path):
    s = study("extreme-crossres").at("desk")
    write_records(s, tmp_path, keep=lambda run: run.method.label not in ("None", "RMSNorm"))
    browser.open(build_report(tmp_path, tmp_path / "r.html"))
    for _ in range(2):
        browser.run(CLICK % 4)
        assert browser.run(COLUMN % 4)[-2:] == ["", ""]


def test_the_filter_hides_other_studies(browser, page):
    browser.open(page)
    browser.run("filter.value = 'transolver galerkin'; filter.dispatchEvent(new Event('input'))")
    shown = "[...document.querySelectorAll('section.study')].filter(s => s.offsetParent !== null).map(s => s.id)"
    assert browser.run(shown) == []
    browser.run("filter.value = 'anchored retraining'; filter.dispatchEvent(new Event('input'))")
    assert browser.run(shown) == ["anchored-crossres"]
    browser.run("filter.value = ''; filter.dispatchEvent(new Event('input'))")
    assert set(STUDIES) <= set(browser.run(shown))


def test_claims_can_be_hidden_by_verdict(browser, page):
    browser.open(page)
    shown = (
        "[...document.querySelectorAll('ol.claims > li')].filter(s => s.checkVisibility({contentVisibilityAuto: true}))"
        ".map(s => s.dataset.verdict)"
    )
    before = browser.run(shown)
    assert {"reproduced", "partly"} <= set(before)
    assert "not run" not in before  # folded away
    browser.run("document.querySelector(\"button[data-verdict='reproduced']\").click()")
    assert browser.run(shown) == [v for v in before if v != "reproduced"]
    browser.run("document.querySelector(\"button[data-verdict='reproduced']\").click()")
    assert browser.run(shown) == before


def test_markup_in_records_does_not_run(browser, tmp_path):
    nasty = "<img src=x onerror='window.hurt = 1'><script>window.hurt = 1</script>"
    write_records(
        study("demo").at("desk"), tmp_path, text=nasty, numerics=nasty, environment={nasty: nasty}, status=nasty
    )
    (tmp_path / "runs" / "<img src=x onerror=window.hurt=1>").mkdir()
    browser.open(build_report(tmp_path, tmp_path / "r.html"))
    assert browser.run("window.hurt === undefined")
    assert browser.complaints() == []


def test_lines_keep_their_names_on_a_narrow_screen(browser, page):
    """Beside the lines on a wide screen; as a list below them on a narrow one."""
    legend = "getComputedStyle(document.querySelector('.legend')).display"
    browser.open(page, 1200)
    assert browser.run(legend) == "none"
    browser.open(page, 390)
    assert browser.run(legend) == "flex"
    # Letters in a drawing are as high on the screen as its scale makes them.
    script = "(e => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a)(document.querySelector('.tick'))"
    assert 10 < browser.run(script) < 14


def test_the_list_of_studies_waits_for_the_filter_on_a_narrow_screen(browser, page):
    browser.open(page, 390)
    listed = "[...document.querySelectorAll('nav li.study')].filter(e => e.offsetParent !== null).length"
    assert browser.run(listed) == 0
    assert browser.run("document.querySelector('nav').offsetHeight") < 220
    browser.run("filter.value = 'anchored retraining'; filter.dispatchEvent(new Event('input'))")
    assert browser.run(listed) == 1
