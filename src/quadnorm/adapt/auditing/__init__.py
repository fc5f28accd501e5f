""":func:`quadnorm.audit`: which part of a model depends on the grid, by how much, and what helps.

The model runs on the same continuous input at several grids. A module or a call that acts on single samples commutes
with the restriction R from a fine grid to a coarse one; what does not, introduces ‖R M x − M R x‖ / ‖R M x‖.

In reading order: ``audit.py`` (the order of the experiments), ``data.py`` (the fields, and which grids are compared),
``gaps.py`` (what each module and call introduces), ``experiments.py`` (orders, one part anchored or left, errors),
``rows.py``, ``report.py`` and ``page.py`` (the result).
"""
