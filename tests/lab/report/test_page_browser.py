"""The page as a person gets it: in headless Chromium, light and dark, wide and narrow."""

import re

import pytest

from quadnorm.lab.analysis.tables import study_table
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
    chromium = Browser(CHROMIUM)
    yield chromium
    chromium.close()


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
    assert contrast(browser, ".tool", "body") > 4.5
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


def test_details_are_folded_and_a_link_opens_them(browser, page):
    browser.open(page)
    opened = (
        "[...document.querySelectorAll('main details[open]')].map(d => d.closest('[id]').id)"
        ".filter(i => i !== 'repeat')"
    )
    assert browser.run(opened) == []
    browser.run("document.querySelector('nav a[href=\"#demo\"]').click()")
    assert browser.run(f"new Promise((done) => setTimeout(() => done({opened}), 50))") == ["demo"]
    assert browser.complaints() == []


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


def test_each_table_has_a_button_that_saves_its_csv(browser, page):
    """The file is the table's own CSV, caught where the browser would save it."""
    browser.open(page)
    tables = browser.run("document.querySelectorAll('template.csv').length")
    assert tables == browser.run("document.querySelectorAll('template.csv + button.tool').length") > len(STUDIES)
    browser.run(
        "window.kept = {}; URL.createObjectURL = (b) => (b.text().then((t) => { window.kept.text = t; }), 'blob:x');"
        "HTMLAnchorElement.prototype.click = function () { window.kept.name = this.download; };"
        "document.querySelector('template.csv[data-file=\"extreme-crossres.csv\"] + button').click()"
    )
    assert browser.run("new Promise((done) => setTimeout(() => done(window.kept.name), 50))") == "extreme-crossres.csv"
    wanted = study_table(study("extreme-crossres").at("desk"), page.parent).csv()
    assert browser.run("window.kept.text").removeprefix("\ufeff") == wanted
    assert browser.complaints() == []


def test_each_command_can_be_copied(browser, page):
    browser.open(page)
    commands = browser.run("document.querySelectorAll('code.command').length")
    assert commands == browser.run("document.querySelectorAll('code.command + button.tool').length") > 20
    browser.run(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (t) => { window.copied = t; }}});"
        "window.button = document.querySelector('#extreme-crossres code.command + button'); window.button.click()"
    )
    answer = browser.run("new Promise((done) => setTimeout(() => done(window.button.textContent), 50))")
    assert (browser.run("window.copied"), answer) == ("quadnorm study run extreme-crossres --preset desk", "copied")


def test_without_a_clipboard_the_command_is_copied_the_old_way(browser, page):
    browser.open(page)
    browser.run(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
        "document.execCommand = (what) => { window.copied = [what, String(getSelection())]; return true; };"
        "for (const part of document.querySelectorAll('#demo details')) part.open = true;"  # to select it
        "document.querySelector('#demo code.command + button').click()"
    )
    assert browser.run("new Promise((done) => setTimeout(() => done(window.copied), 50))") == [
        "copy", "quadnorm study run demo --preset desk",
    ]  # fmt: skip
    assert browser.complaints() == []


def test_the_glossary_explains_what_the_page_says(browser, page):
    browser.open(page)
    terms = browser.run("[...document.querySelectorAll('.glossary dt')].map(e => e.textContent)")
    assert {"relative L² error", "training grid, native", "anchored", "seed", "p", "preset", "Cohen's d"} <= set(terms)
    assert browser.run("document.querySelectorAll('.glossary dd').length") == len(terms)
    assert browser.run("document.querySelector('nav a[href=\"#glossary\"]') !== null")


def test_lines_differ_in_mark_or_dashes_not_only_in_colour(browser, page):
    """Shapes of the marks, moved to a common origin, and dashes: no two lines of a drawing share both."""
    browser.open(page)
    looks = browser.run(
        """[...document.querySelectorAll('.curves svg')].map(svg => [...svg.querySelectorAll('.series')].map(g => {
          const mark = g.querySelector('.mark'), box = mark.getBBox();
          const shape = mark.getAttribute('d').replace(/(-?[\\d.]+) (-?[\\d.]+)/g,
            (_, x, y) => `${(x - box.x).toFixed(0)} ${(y - box.y).toFixed(0)}`).replace(/[\\d.-]+h/, 'h');
          return shape + '|' + (g.querySelector('polyline').getAttribute('stroke-dasharray') ?? '');
        }))"""
    )
    assert len(looks) >= 5
    for drawing in looks:
        assert len(set(drawing)) == len(drawing)


def test_intervals_stay_inside_the_axes(browser, tmp_path):
    """Spreads as large as the errors themselves: whiskers end where the axis still goes on."""
    s = study("extreme-crossres").at("desk")
    write_records(s, tmp_path, lambda run, e, n: 3.0 + n / 20 + (run.seed - 1) * n / 20)
    browser.open(build_report(tmp_path, tmp_path / "r.html"))
    inside = browser.run(
        """[...document.querySelectorAll('#extreme-crossres .curves svg')].map(svg => {
          const y = (e, k) => parseFloat(e.getAttribute(k));
          const rules = [...svg.querySelectorAll('.rule')].map(e => y(e, 'y1'));
          const ends = [...svg.querySelectorAll('.whisker')].flatMap(e => [y(e, 'y1'), y(e, 'y2')]);
          return [ends.length, Math.min(...rules) <= Math.min(...ends) && Math.max(...ends) <= Math.max(...rules),
            ends.filter(v => v === Math.min(...rules)).length];
        })"""
    )
    assert inside
    for count, fits, clipped in inside:
        assert count > 20
        assert fits
        assert clipped <= 2  # none is cut off at the top, unless it ends there


@pytest.mark.parametrize("width", [1200, 390])
def test_bars_are_seen_on_every_screen(browser, page, width):
    """As long as the error they stand for, relative to the largest of their card."""
    browser.open(page, width)
    bars = browser.run(
        """[...document.querySelectorAll('.card')].map(card => [...card.querySelectorAll('tr')].map(row => {
          const bar = row.querySelector('.bar i').getBoundingClientRect();
          return [bar.width, bar.height, parseFloat(row.cells[2].textContent.replace('→', ''))];
        }))"""
    )
    assert bars
    for card in bars:
        widest = max(width for width, _, _ in card)
        largest = max(error for _, _, error in card)
        assert widest > (150 if width == 390 else 60)
        for bar, height, error in card:
            assert height >= 6
            assert bar / widest == pytest.approx(error / largest, abs=0.02)


def test_the_smallest_of_a_card_is_the_smallest_of_its_table(browser, page):
    """No row of the study's table is below what its card calls the smallest at the far grid."""
    browser.open(page)
    card = "[...document.querySelectorAll('.card')].find(c => c.querySelector('h3 a').hash === '#demo')"
    bold = browser.run(f"{card}.querySelector('tr.smallest').cells[2].textContent")
    named = float(re.search(r"[\d.]+", bold)[0])
    rows = "[...document.querySelector('#demo table').tBodies[0].rows]"
    far = browser.run(f"{rows}.map(r => parseFloat(r.cells[5].dataset.key))")
    assert len(far) == 3 * len(study("demo").evaluations)
    assert named == pytest.approx(min(far), abs=0.005)
    shown = browser.run(f"[...{card}.querySelectorAll('tr')].map(r => parseFloat(r.cells[2].textContent.slice(1)))")
    assert named == min(shown)
    headline = browser.run("document.querySelector('.headline').textContent")
    first = browser.run("document.querySelector('.card tr.smallest').cells[2].textContent")
    assert re.search(r"Smallest at \d+²: .*?, ([\d.]+) %\.", headline)[1] in first


def test_every_row_of_every_table_of_errors_has_its_seeds(browser, page):
    browser.open(page)
    heads = browser.run(
        "[...document.querySelectorAll('section.study > .body > .scroll table')]"
        ".map(t => t.tHead.rows[0].cells[t.tHead.rows[0].cells.length - 1].textContent.trim())"
    )
    assert heads
    assert set(heads) == {"seeds"}
