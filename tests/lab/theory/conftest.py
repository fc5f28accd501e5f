"""Broken weights, to see that the checks notice."""

import pytest

from quadnorm.measures._cache import CACHE
from quadnorm.measures.anchored import AnchoredAxis
from quadnorm.measures.axes import RuleAxis
from quadnorm.measures.rules import counting, ends


def _replace(monkeypatch, weights, rule="trapezoid"):
    original = RuleAxis.weights

    def broken(axis, n):
        return weights(n) if axis.rule.name == rule else original(axis, n)

    CACHE.clear()
    monkeypatch.setattr(RuleAxis, "weights", broken)
    monkeypatch.setattr(AnchoredAxis, "weights", lambda axis, n: counting(n) if n == axis.n0 else weights(n))


@pytest.fixture
def equal_weights(monkeypatch):
    """1/n wherever quadrature was meant."""
    _replace(monkeypatch, counting)
    yield
    CACHE.clear()


@pytest.fixture
def heavy_ends(monkeypatch):
    """Trapezoid weights with 0.6 instead of ½ at the ends, scaled to sum 1: nearly right."""

    def weights(n):
        w = 1 - 0.4 * ends(n)
        return w / w.sum()

    _replace(monkeypatch, weights)
    yield
    CACHE.clear()


@pytest.fixture
def halved_periodic(monkeypatch):
    """Half weights at the ends of a periodic grid, which has none."""

    def weights(n):
        return (1 - ends(n) / 2) / (n - 1)

    original_flat = RuleAxis.flat
    _replace(monkeypatch, weights, "periodic")
    monkeypatch.setattr(RuleAxis, "flat", lambda axis, n: axis.rule.name != "periodic" and original_flat(axis, n))
    yield
    CACHE.clear()
