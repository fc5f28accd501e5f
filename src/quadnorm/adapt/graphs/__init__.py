"""Steered runs as plain graphs: no modes, no plans and no Python of the model in later calls.

``capture.py`` records a run, ``proof.py`` compares the graph with it; ``passes.py``, ``real_pairs.py`` change graphs;
``kinds.py`` keeps one for each kind of input; ``changes.py`` notices that the model itself has changed.
"""
