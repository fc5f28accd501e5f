"""Instances that tests make go into a cache of their own."""

import pytest


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
