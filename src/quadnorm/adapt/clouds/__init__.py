"""Clouds of points: a model trained on clouds of one size, on clouds of any other.

A model on points (Transolver and its kin) has no grid: its sums count the points that it is given. Here they are taken
over a subset of the trained size (``extended.py``), over all points with weights (``anchored.py``), or on the training
points themselves (``native.py``). ``arguments.py``: points among the arguments; ``base.py``: what models on clouds
share.
"""
