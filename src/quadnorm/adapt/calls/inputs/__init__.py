"""A model's inputs.

``layouts.py``: which axes of a field are the grid's, and the same fields on another grid. ``guesses.py``: random inputs
where no example is given. ``probes.py``: the input that a model is looked at with.
"""
