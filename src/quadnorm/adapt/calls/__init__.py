"""The calls of a model's forward, seen as they happen: which mix the samples of a grid, and along which axes.

No model's code is read. A tensor is *live* if it comes from the model's input. A run under a ``TorchFunctionMode`` sees
every call on live tensors in order; a run on the training grid and one more with each axis refined, laid side by side,
show which dimension of which tensor moves with which axis of the grid. That is the *plan* of the model. Runs on other
grids then follow the plan: each call is compared with the planned one, and observed or replaced.

In reading order; each room imports from those above it only:

1. ``trees.py``, ``errors.py``: tensors in nested arguments; what is raised.
2. ``functions/``: torch functions as such: their names, arguments, products.
3. ``grids/``: how sizes move with the grid (``Form``), and values taken from one grid to another (``Nodes``).
4. ``watching/``: one run, call by call.
5. ``inputs/``: the fields among a model's arguments, and inputs to try it with.
6. ``planning/``: the plan, from watched runs.
7. ``following/``: runs in step with a plan. ``../extending`` and ``../anchoring`` build on these.
"""
