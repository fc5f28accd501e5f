""":func:`quadnorm.anchor`: a copy of a trained model that keeps the measure of its training grid.

A model that counts samples has learned with the counting measure of one grid. On another grid the copy gives every
sample the weight that the learned measure has there. Modules with a rule get it from their rule; sums in the model's
own code are found and weighted call by call (``../calls``).

In reading order:

1. ``anchor.py``: the entry; compares the copy with the model at the training grid.
2. ``by_modules.py``: the copy, traced once (``trace.py``) and anchored module by module. ``rules/`` has a rule for each
   type; ``torch_modules.py`` what PyTorch's modules become; ``neuralop/`` the rules for neuraloperator's.
3. ``by_calls.py``: which of the model's own calls can be anchored; ``summing/`` has the run in which they are.
4. ``drift.py``: how far all ways drift on a finer grid.

``size_dependence.py`` tells from sizes in one run why a call depends on the grid, for models whose calls cannot be
followed. ``running_grid.py`` tells modules that see samples in a row which grid these make.
"""
