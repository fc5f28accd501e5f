"""The page without a browser: whole, self-contained, escaped, honest about what is missing or broken."""

import html
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from math import nan

import pytest

from quadnorm.cli.app import run
from quadnorm.lab.analysis.claims.judging import CLAIMS
from quadnorm.lab.report import build_report
from quadnorm.lab.report.chart import chart
from quadnorm.lab.studies import study, study_names
from quadnorm.lab.studies.pack import pack
from quadnorm.lab.studies.records import write_record
from tests.lab.analysis.synthetic_records import like_the_paper, noise, write_records

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Checker(HTMLParser):
    """Balanced tags, ids, links, text, and anything that would be fetched or run."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.fetched, self.handlers = [], Counter(), [], [], []
        self.scripts, self.texts = 0, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.scripts += tag == "script"
        for name, value in attrs:
            if name == "id":
                self.ids[value] += 1
            elif name in ("href", "xlink:href") and value.startswith("#"):
                self.links.append(value[1:])
            elif name in ("src", "href", "xlink:href", "action", "data", "poster") and not value.startswith("data:"):
                self.fetched.append(value)
            elif name.startswith("on"):
                self.handlers.append((tag, name))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def check(path) -> Checker:
    text = path.read_text(encoding="utf-8")
    checked = Checker(text)
    assert checked.open == []
    assert checked.fetched == []
    assert checked.handlers == []
    assert checked.scripts == 1
    assert [i for i, n in checked.ids.items() if n > 1] == []
    assert set(checked.links) <= set(checked.ids)
    assert not re.search(r"url\(\s*['\"]?(?!#|data:)", text)
    assert "@import" not in text
    return checked


def test_one_study_gives_a_whole_page(tmp_path):
    write_records(study("demo").at("desk"), tmp_path / "records")
    page = build_report(tmp_path / "records", tmp_path / "out")
    assert page == tmp_path / "out" / "report.html"
    checked = check(page)
    assert f"3 trained models in 1 of {len(study_names())} studies" in checked.text
    assert "FNO on darcy, trained at 33²: at 257² the error is" in checked.text  # the headline
    assert "FNO on darcy" in checked.text
    assert "quadnorm study run demo --preset desk" in checked.text
    assert "qn.transfer(model, 33" in checked.text  # what to do next
    assert "not run" not in checked.text
    assert not (tmp_path / "out" / "report.html.part").exists()


def test_smoke_records_are_not_taken_for_results(tmp_path):
    write_records(study("demo").at("smoke"), tmp_path)
    text = check(build_report(tmp_path, tmp_path / "r.html")).text
    assert "Only smoke runs" in text
    assert "not run" not in text  # a page of one study speaks of that study
    assert "What next" in text


def test_everything_from_records_is_escaped(tmp_path):
    nasty = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
    write_records(
        study("demo").at("desk"), tmp_path, status="diverged", text=nasty, numerics=nasty, seconds=nasty,
        environment={nasty: nasty}, key=nasty,
    )  # fmt: skip
    odd = tmp_path / "runs" / "<img src=x onerror=alert(3)>"
    odd.mkdir()
    write_record(odd, {"status": nasty, "config": {"problem": {"name": nasty}}})
    for name, content in (("list", "[1]"), ("half", "{"), ("bare", "{}"), ("odd", '{"config": 3}')):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "record.json").write_text(content)
    checked = check(build_report(tmp_path, tmp_path / "r.html"))
    assert "<img src=x onerror=alert(3)>" in checked.text
    assert checked.text.count("<script>alert(1)</script>") >= 3


def test_a_run_that_may_not_be_read_costs_no_other(tmp_path, monkeypatch):
    """No permission, or a folder where a file should be: named on the page, and the rest is shown."""
    folders = write_records(study("demo").at("desk"), tmp_path)
    locked, real = folders[1] / "record.json", os.open

    def refuse(path, *flags, **options):
        if path == locked:
            raise PermissionError(13, "Permission denied")
        return real(path, *flags, **options)

    monkeypatch.setattr(os, "open", refuse)
    (folders[2] / "record.json").unlink()
    (folders[2] / "record.json").mkdir()
    text = check(build_report(tmp_path, tmp_path / "r.html")).text
    assert "2 unreadable" in text
    assert "Permission denied" in text


def test_missing_failed_single_and_unfinished_runs_are_shown_for_what_they_are(tmp_path):
    s = study("extreme-crossres").at("desk")
    base = like_the_paper(s)

    def error(run, evaluation, grid):
        return nan if (run.method.label, run.seed) == ("GroupNorm", 1) else base(run, evaluation, grid)

    folders = write_records(
        s, tmp_path, error, keep=lambda r: r.method.label != "None" and (r.method.label != "RMSNorm" or r.seed == 0)
    )
    (folders[0] / "record.json").unlink()  # LayerNorm, seed 0: still training
    (folders[1] / "evaluations" / "as-trained@256.json").write_text("{")
    checked = check(build_report(tmp_path, tmp_path / "r.html"))
    assert "1 unfinished; 1 unreadable" in checked.text
    assert "1 of 3 diverged" in checked.text
    assert "2 of 3" in checked.text
    assert "1 of 3" in checked.text
    assert "is damaged" in checked.text
    assert "not run" in checked.text


def test_mixed_data_is_warned_of_and_judges_nothing(tmp_path):
    s = study("extreme-crossres").at("desk")
    write_records(s, tmp_path)
    write_records(s, tmp_path, keep=lambda run: run.seed == 0, data="another")
    text = check(build_report(tmp_path, tmp_path / "r.html")).text
    assert "2 versions of the darcy data" in text
    assert f"{len(CLAIMS) - 1} not run" in text  # one needs no records


def test_comparison_with_older_records(tmp_path):
    s = study("demo").at("desk")
    base = like_the_paper(s)
    write_records(s, tmp_path / "old")
    write_records(
        s, tmp_path / "new", lambda run, e, n: base(run, e, n) * (1.3 if run.method.label == "QuadNorm" else 1.0)
    )
    text = check(build_report([tmp_path / "new"], tmp_path / "r.html", compare=tmp_path / "old")).text
    numbers = len(s.evaluations) * len(s.variants[0].test)
    assert f"{numbers} worse" in text
    assert f"{numbers * (len(s.variants[0].methods) - 1)} same" in text
    assert "+30.0 %" in text


def test_no_records_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"no records in .*; ?expected|no records in .*: expected a folder with runs/"):
        build_report(tmp_path / "nothing", tmp_path / "r.html")
    (tmp_path / "runs").mkdir()
    assert "No numbers yet" in check(build_report(tmp_path, tmp_path / "r.html")).text


def test_labels_of_a_chart_do_not_overlap(tmp_path):
    from quadnorm.lab.analysis.results import load_results

    s = study("extended-baselines").at("desk")
    write_records(s, tmp_path, lambda run, e, n: 5.0 + 0.01 * noise(run.method.label, n, run.seed))
    drawing = chart(load_results(s, tmp_path), s.variants[0])
    heights = sorted(float(y) for y in re.findall(r'<text x="\d+" y="([\d.]+)">', drawing))
    assert len(heights) == len(s.variants[0].methods)  # no room for more than one way; the table has all
    assert min(b - a for a, b in pairwise(heights)) >= 14.9


def test_runs_of_no_study_are_counted_and_cards_need_no_layer_norm(tmp_path):
    s = study("quadrature-ablation").at("desk")
    folders = write_records(s, tmp_path, keep=lambda run: run.method.label.startswith("QuadNorm"))
    folders[0].rename(tmp_path / "runs" / "of-another-version")
    text = check(build_report(tmp_path, tmp_path / "r.html")).text
    assert "1 other run belongs to no study of this version" in text
    assert "Only smoke runs" not in text
    assert re.search(r"Smallest at 128²: QuadNorm[^%²]*, \d+\.\d\d %", text)


def test_a_pack_with_damaged_records_is_reported_without_them(tmp_path, capfd):
    """``[]`` for a record vanished without a word, and errors named the folder that a pack was unpacked to."""
    s = study("tost").at("smoke")
    folders = write_records(s, tmp_path / "records")
    (folders[0] / "record.json").write_text("[]")
    next((folders[1] / "evaluations").iterdir()).write_text("[" * 100_000)
    (tmp_path / "records" / "runs" / "strange").mkdir()
    (tmp_path / "records" / "runs" / "strange" / "record.json").write_text("[]")
    packed = tmp_path / "<b>&.tar.xz"
    pack(tmp_path / "records", packed)
    assert run(["report", str(packed), "-o", str(tmp_path / "r.html")]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith(f"passed over: {packed}/runs/")
        assert "is damaged: " in line
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"{html.escape(str(packed))}/runs/strange/record.json is damaged" in page
    assert "/records/0/" not in page
    assert "<b>&" not in page


def test_contradicted_claims_stand_in_the_summary(tmp_path):
    s = study("extreme-crossres").at("desk")
    write_records(s, tmp_path, lambda run, e, n: 5.0 * (1 + 0.01 * noise(run.seed, run.method.label, n)))
    checked = check(build_report(tmp_path, tmp_path / "r.html"))
    assert any(link.startswith("claim-") for link in checked.links)
    assert re.search(r"[1-9]\d* contradicted", checked.text)


def test_where_the_records_might_be_is_said(tmp_path):
    (tmp_path / "demo" / "runs").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"There are some in .*demo$"):
        build_report(tmp_path, tmp_path / "r.html")
    with pytest.raises(ValueError, match=r"There are some in .*demo$"):
        build_report(tmp_path / "demo" / "runs", tmp_path / "r.html")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot make the folder .*file for the page"):
        build_report(tmp_path / "demo", tmp_path / "file" / "r.html")


def test_text_that_utf8_cannot_carry_does_not_cost_the_page(tmp_path):
    write_records(study("demo").at("desk"), tmp_path, status="diverged", text="half a pair: \ud800", seconds=10**400)
    assert r"half a pair: \ud800" in build_report(tmp_path, tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.slow  # writing the records of 2,000 runs is what takes long
def test_the_full_catalog_fits_in_size(tmp_path):
    """6 MB at the paper's number of runs."""
    for name in study_names():
        write_records(study(name), tmp_path, test=20)
    page = build_report(tmp_path, tmp_path / "r.html")
    assert page.stat().st_size < 6e6
    assert f"{len(study_names())} of {len(study_names())} studies" in check(page).text


MEANWHILE = """
import os, signal, sys
from pathlib import Path
from quadnorm.lab.analysis.results import Library
from quadnorm.lab.report.page import build_report, drawn, drawn_meanwhile
library = Library([Path(sys.argv[1])])
assert "torch" not in sys.modules
with drawn_meanwhile(library) as figures:
    ours, theirs = drawn(library), figures()
assert theirs == ours and sum(bool(f.svg) for f in ours) >= 2, [f.why for f in ours]
build_report(library, Path(sys.argv[1]) / "r.html")
assert not {"torch", "scipy.stats"} & sys.modules.keys()  # each takes as long to load as all records to read
kill = os.fork
os.fork = lambda: (pid := kill()) and (os.kill(pid, signal.SIGKILL) or pid)
with drawn_meanwhile(library) as figures:
    assert figures() == ours
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child is left")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_second_process_draws_the_same_figures(tmp_path):
    """Also where it is killed: then this one draws them."""
    write_records(study("demo").at("desk"), tmp_path)
    done = subprocess.run([sys.executable, "-c", MEANWHILE, str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "no child is left\n"), done.stderr
