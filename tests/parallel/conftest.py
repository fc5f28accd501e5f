"""Forked ranks live as long as the test module that asked for them."""

from collections.abc import Iterator

import pytest

from tests.parallel.ranks import pools


@pytest.fixture(autouse=True, scope="module")
def _end_of_ranks() -> Iterator[None]:
    with pools():
        yield
