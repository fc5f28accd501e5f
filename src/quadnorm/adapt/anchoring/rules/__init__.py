"""How each type of module is anchored: one rule for each, in a table that users can extend.

``registry.py`` is the table, what a rule is told (:class:`Place`) and what it answers (:class:`Outcome`). The rules:
``measures.py`` for modules that own a measure, ``averages.py`` for PyTorch's norms and pools, ``attention.py`` for its
attention, ``fixed_samples.py`` for what no measure can anchor; ``../neuralop`` has neuraloperator's. ``apply.py`` gives
every module of a model to its rule, with the grid that the module sees.

Importing this room fills the table.
"""

from quadnorm.adapt.anchoring.rules import attention, averages, fixed_samples

__all__ = ["attention", "averages", "fixed_samples"]
