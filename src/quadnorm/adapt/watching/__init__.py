"""One run of a model, seen call by call: its inputs, how their sizes move with the grid, and where samples lie.

``watch.py`` (with ``patches.py``, ``trees.py``, ``functions.py``) sees the calls; ``layouts.py``, ``probes.py``,
``forms.py``, ``nodes.py`` and ``points.py`` know a model's inputs, the grids, and values taken from one to another;
``calls.py`` and ``counts.py`` describe what was seen.
"""
