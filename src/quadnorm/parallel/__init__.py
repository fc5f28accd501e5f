"""Sums over a domain that is split over ranks: norms and operators on shards of a field."""

from quadnorm.parallel.collectives import RankLostError, parts, spread, total
from quadnorm.parallel.shard import shard, unshard
from quadnorm.parallel.split import Split, single
from quadnorm.parallel.traffic import Traffic

__all__ = ["RankLostError", "Split", "Traffic", "parts", "shard", "single", "spread", "total", "unshard"]
