"""The measuring tape of ``make house`` itself."""

from __future__ import annotations

import torch

import quadnorm as qn
from tests.house import measure


def test_functions_and_files_are_counted_once() -> None:
    grid = qn.Grid("trapezoid")
    grid.weights((5,))  # what the first call caches is not counted
    once = measure.passed(lambda: grid.weights((5,)))
    assert once == measure.passed(lambda: [grid.weights((5,)) for _ in range(3)])
    assert once[0] >= once[1] >= 1
    assert measure.passed(lambda: torch.ones(3).sum()) == (0, 0)


def test_a_repeated_norm_passes_fewer_functions_than_the_first_call() -> None:
    counts = measure.journeys(of_library=True)
    assert counts["norm, repeated"] <= counts["norm, first call"]
    assert set(counts) <= set(measure.JOURNEYS)


def test_every_line_belongs_to_one_part() -> None:
    every = sum(len(p.read_text(encoding="utf-8").splitlines()) for p in measure.SOURCE.rglob("*.py"))
    assert sum(measure.lines(rooms) for rooms in measure.ROOMS.values()) == every
