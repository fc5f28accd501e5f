"""Scattered points in place of a grid.

``nodes.py``: where the points lie among the training nodes, and values taken there. ``arrangement.py``: fields at the
points in the shape of a grid, as the model expects them, and its outputs back in a row.
"""
