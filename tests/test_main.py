"""The entry point, before anything is imported."""

import os

import pytest

from quadnorm.__main__ import wait_briefly

SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


@pytest.mark.parametrize("own", [None, *SETTINGS])
def test_threads_sleep_unless_the_user_says_otherwise(monkeypatch, own):
    for name in SETTINGS:
        monkeypatch.setenv(name, "active")  # so that monkeypatch puts it back
        if name != own:
            monkeypatch.delenv(name)
    wait_briefly()
    assert os.environ.get("GOMP_SPINCOUNT") == {None: "2000", "GOMP_SPINCOUNT": "active"}.get(own)
