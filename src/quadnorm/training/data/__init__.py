"""Samples of a config: which ones train, validate and test, their tensors, and the order in which a run sees them."""

from quadnorm.training.data.order import Batch, batches, epoch_grids
from quadnorm.training.data.splits import settled
from quadnorm.training.data.tensors import Grid, Pairs, Progress, Split, check_memory, problem_of, samples, viewed

__all__ = [
    "Batch",
    "Grid",
    "Pairs",
    "Progress",
    "Split",
    "batches",
    "check_memory",
    "epoch_grids",
    "problem_of",
    "samples",
    "settled",
    "viewed",
]
