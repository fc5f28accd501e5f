"""Sums of a trained model on other grids, under the measure of its training grid."""
