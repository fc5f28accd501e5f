"""A cache of their own for the instances that tests make, and a small study that has been run."""

import os

import pytest

from quadnorm.lab.studies.runner import run_study
from tests.lab.studies.tiny_study import tiny_study


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    os.environ["QUADNORM_CACHE"] = str(tmp_path_factory.getbasetemp() / "cache")
    root = tmp_path_factory.mktemp("finished")
    run_study(tiny_study(), root, workers=1, threads=1)
    return root
