"""Torch functions as such.

``names.py``: one name for a function in whatever form it is called. ``signatures.py``: its arguments by name.
``products.py``: which dimensions a product sums over.
"""
