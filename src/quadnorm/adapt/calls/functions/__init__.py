"""Torch functions as such: one name for each, their arguments by name, which dimensions products sum over."""
