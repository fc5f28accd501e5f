"""Records with anything at all in them: tables say what is wrong and show the rest; nothing raises or vanishes."""

import json
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quadnorm._files import sealed
from quadnorm.lab.analysis.results import load_results
from quadnorm.lab.analysis.tables import table_of
from quadnorm.lab.studies import study
from tests.lab.analysis.synthetic_records import write_records

STUDY = study("tost").at("smoke")
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.just(10**400) | st.just("<b>"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=4,
)


def _text(value, key):
    """JSON of the value, sealed where that is possible: junk that comes with a right checksum."""
    if isinstance(value, dict) and key != "blake2b":
        value = {k: v for k, v in value.items() if k != "blake2b"}
        with suppress(ValueError):  # NaN, which sealed files do not hold
            return sealed(value).decode()
    return json.dumps(value)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_change_to_any_file_is_survived_and_other_runs_stay(data):
    with tempfile.TemporaryDirectory() as where:
        folders = write_records(STUDY, Path(where), test=2)
        hit = data.draw(st.sampled_from(folders))
        files = sorted(p for p in hit.rglob("*.json"))
        path = data.draw(st.sampled_from(files))
        stored = json.loads(path.read_text())
        key = data.draw(st.sampled_from([*stored, None]))
        path.write_text(_text(data.draw(JUNK) if key is None else {**stored, key: data.draw(JUNK)}, key))
        results = load_results(STUDY, Path(where), strict=False)
        table = table_of(results)
        for form in (table.text, table.markdown, table.csv, table.latex, table.html):
            assert form()
        assert len(results.runs) == len(folders)
        whole = [f for f in results.runs if f.folder != hit]
        assert all(
            f.run.seed in results.of(f.run.variant.name, f.run.method.label, f.run.variant.test[0]) for f in whole
        )
