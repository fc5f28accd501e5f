""":func:`quadnorm.extend`: a trained model on other grids with the sums of its native run.

The model runs twice, each time in step with its plan (``../calls``). The first run, on the training grid with the
restricted input, keeps what every call that mixes samples gave: the mean of a norm, a spectrum, keys and values. The
second run, on the new grid, uses these in place of its own; calls on single samples are made as they are.

In reading order:

1. ``extend.py``: the entry; checks the result against the native run at its nodes.
2. ``extended.py``: the model that it returns, with its plans.
3. ``runs.py``: the two runs, ``Record`` and ``Replay``.
4. ``families/``: what is kept and used, one module for each family of functions.
5. ``report.py``: a line for each call that mixes samples.
6. ``points/``: the second run at scattered points; ``shards.py``: on fields that are split over ranks.
"""
