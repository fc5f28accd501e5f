"""Averages and single layers: how far they move with the grid."""
