"""Averages and single layers: how much their results change with the grid."""
