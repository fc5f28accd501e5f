"""The plan of a model: its calls on any grid.

``plan.py`` is what is known of each call, ``make.py`` how it is found out from the watched runs of ``runs.py``. Three
things need more than shapes: ``constants.py`` finds constant fields that are not the same function on all grids, such
as coordinates j/n; ``counts.py`` numbers that count samples, such as the n of KᵀV/n; ``origins.py`` where the grid
begins inside a padded axis. ``mixing.py`` is the table of the functions that mix samples, with the reason that reports
give.
"""
