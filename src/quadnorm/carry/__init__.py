"""Fields taken from one set of nodes to another: the only place that does it."""

from quadnorm.carry.grids import carry

__all__ = ["carry"]
