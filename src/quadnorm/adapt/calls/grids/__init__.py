"""The training grid and other grids of the same domain.

``forms.py``: how the size of a tensor's axis moves with the grid. ``nodes.py``: where the samples of a new grid lie
among the training samples, and values taken there. ``refinement.py``: finer grids to try. ``gaps.py``: how far outputs
on two grids are apart at the training nodes.
"""
