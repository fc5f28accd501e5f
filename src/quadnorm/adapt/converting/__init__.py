""":func:`quadnorm.convert`: the norms of a model swapped for others, to train with.

``norms.py`` says which norms can be swapped, and what they average over; ``convert.py`` swaps them and can undo it.
"""
