""":func:`quadnorm.audit`: which part of a model depends on the grid, by how much, and what helps.

The model runs on the same continuous input at several grids. A module or a call that acts on single samples commutes
with the restriction R from a fine grid to a coarse one; what does not, introduces ‖R M x − M R x‖.

In reading order:

1. ``audit.py``: the entry; which grids are compared, and the order of the experiments.
2. ``commute.py``: the gap that each module introduces; ``call_gaps.py``: each call of the model's own code.
3. ``experiments.py``: orders of convergence, the model with one module anchored or left, errors against targets.
4. ``traits.py``: what of the data lies between samples.
5. ``rows.py`` and ``report.py``: the result, line by line and as a whole; ``page.py``: as a figure and HTML.

``layout.py`` lets models with channels last pass through all of this.
"""
